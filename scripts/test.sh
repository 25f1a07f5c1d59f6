#!/usr/bin/env bash
# Sets up, builds the release preset and runs all tests, those in Python too. Options go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
scripts/test-python.sh
