#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over the sources of the library, the command and the examples.
#   scripts/check-tidy.sh              all but kernels, which take minutes
#   scripts/check-tidy.sh --all
#   scripts/check-tidy.sh FILE...
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset clang -B build/tidy -DPITH_BUILD_TESTS=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
skip='_test\.cc$|^src/kernels/'
[ "${1:-}" = --all ] && { skip='_test\.cc$'; shift; }
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(
  git ls-files 'src/*.cc' 'cli/*.cc' 'examples/*.cc' | grep -vE "$skip")
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/tidy --quiet --warnings-as-errors='*' 2>/dev/null
