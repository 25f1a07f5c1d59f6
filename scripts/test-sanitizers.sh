#!/usr/bin/env bash
# Tests by clang under the address and undefined-behaviour sanitizers, and the fuzzers, for SECONDS each (15 unless
# told): first all of their corpus, then what they think of.
#   scripts/test-sanitizers.sh [SECONDS]           all of the library; then the threads under the thread sanitizer
#   scripts/test-sanitizers.sh --quick [SECONDS]   what reads and writes files
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

quick=OFF
[ "${1:-}" = --quick ] && { quick=ON; shift; }
only() { (IFS='|'; echo "^($*)\$"); }

files=(base_test io_test)  # other formats are fuzzed
if [ $quick = ON ]; then
  targets=("${files[@]}")
  for source in fuzz/fuzz_*.cc; do
    name=$(basename "$source" .cc)
    [ "$name" = fuzz_kernels ] || targets+=("$name")
  done
  tests=(-R "$(only "${files[@]}")")
else
  targets=(all)
  tests=(-LE faults)
fi
cmake --preset fuzz -DPITH_BUILD_TESTS=ON -DPITH_READERS_ONLY=$quick \
  -DPITH_BUILD_CLI=$([ $quick = ON ] && echo OFF || echo ON) >/dev/null
cmake --build --preset fuzz --target "${targets[@]}"
ctest --test-dir build/fuzz --output-on-failure -j "$(nproc)" "${tests[@]}"
PITH_FUZZ_BUILD=build/fuzz scripts/fuzz.sh "${1:-15}"
[ $quick = OFF ] || exit 0

threaded=(base_test quantize_test prune_test select_test activations_test calibrate_test codec_test convert_test
          pipeline_test run_test writer_test)
cmake --preset tsan >/dev/null
cmake --build --preset tsan --target "${threaded[@]}"
ctest --preset tsan -j "$(nproc)" -R "$(only "${threaded[@]}")"
