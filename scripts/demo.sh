#!/usr/bin/env bash
# Sets up, builds the command and runs its demo: a network is compressed in several ways and asked the same
# questions before and after. Models and reports are left in build/demo/pith-demo.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
cmake --preset release -B build/demo -DPITH_BUILD_TESTS=OFF -DPITH_BUILD_EXAMPLES=OFF >/dev/null
cmake --build build/demo --target pith_cli
build/demo/cli/pith demo --force -o build/demo/pith-demo "$@"
