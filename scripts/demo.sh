#!/usr/bin/env bash
# Sets up, builds and runs the quickstart: a layer is pruned, quantized and measured.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh build
cmake --preset release -B build/demo -DPITH_BUILD_TESTS=OFF >/dev/null
cmake --build build/demo --target quickstart
build/demo/examples/quickstart
