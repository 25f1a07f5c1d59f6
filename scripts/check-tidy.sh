#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over the sources of the library, the command and the examples, many files at a
# time as a unity build has them.
#   scripts/check-tidy.sh              all but kernels, which take minutes
#   scripts/check-tidy.sh --all
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset clang -B build/tidy -DPITH_BUILD_TESTS=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
skip='/src/kernels/'
[ "${1:-}" = --all ] && skip='^$'
sed -n 's/^ *"file": "\(.*\)".*/\1/p' build/tidy/compile_commands.json | grep -vE "$skip" |
  xargs -P "$(nproc)" -n 1 clang-tidy-14 -p build/tidy --quiet --warnings-as-errors='*' 2>/dev/null
