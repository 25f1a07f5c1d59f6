#!/usr/bin/env bash
# Builds the benchmarks, runs them, and puts their table into docs/benchmarks.md. Takes a minute or two; the
# machine should have nothing else to do.
#   scripts/bench.sh                            all
#   scripts/bench.sh --benchmark_repetitions=30 options go to bench_kernels
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset bench >/dev/null
cmake --build --preset bench --target bench_kernels
table=$(mktemp)
trap 'rm -f "$table"' EXIT
build/bench/bench/bench_kernels --markdown="$table" "$@"
# What stands between the two marks is replaced.
sed -i -e '/<!-- begin: bench_kernels -->/,/<!-- end: bench_kernels -->/{//!d}' \
    -e "/<!-- begin: bench_kernels -->/r $table" docs/benchmarks.md

# Layers against OpenBLAS and oneDNN, if they are there: apt-get install libopenblas-dev libdnnl-dev
cmake --build --preset bench --target bench_matmul
build/bench/bench/bench_matmul --outputs=4096 --markdown="$table"
build/bench/bench/bench_matmul --outputs=11008 --markdown="$table.2"
cat "$table.2" >>"$table"
rm -f "$table.2"
sed -i -e '/<!-- begin: bench_matmul -->/,/<!-- end: bench_matmul -->/{//!d}' \
    -e "/<!-- begin: bench_matmul -->/r $table" docs/benchmarks.md
