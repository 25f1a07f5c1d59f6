#!/usr/bin/env bash
# The long lane: all tests by clang under the address and undefined-behaviour sanitizers, the fuzzers for
# SECONDS each, and the threaded tests under the thread sanitizer.
#   scripts/test-sanitizers.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

cmake --preset fuzz -DPITH_READERS_ONLY=OFF -DPITH_BUILD_TESTS=ON -DPITH_BUILD_CLI=ON >/dev/null
cmake --build --preset fuzz
ctest --test-dir build/fuzz --output-on-failure -j "$(nproc)" -LE faults
PITH_FUZZ_BUILD=build/fuzz scripts/fuzz.sh "${1:-15}"

threaded=(base_test quantize_test prune_test select_test activations_test calibrate_test run_test
          convert_test codec_test)
cmake --preset tsan >/dev/null
cmake --build --preset tsan --target "${threaded[@]}"
ctest --preset tsan -j "$(nproc)" -R "^($(IFS='|'; echo "${threaded[*]}"))\$"
