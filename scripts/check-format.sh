#!/usr/bin/env bash
# Fails if a C++ file is not formatted; `scripts/check-format.sh --fix` formats it.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files '*.cc' '*.h' | xargs clang-format-14 "${mode[@]}"
