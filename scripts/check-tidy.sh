#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over the sources of the library, the command and the examples.
#   scripts/check-tidy.sh [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset clang >/dev/null
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(
  git ls-files 'src/*.cc' 'cli/*.cc' 'examples/*.cc' | grep -v '_test\.cc$')
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/clang --quiet --warnings-as-errors='*' 2>/dev/null
