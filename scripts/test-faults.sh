#!/usr/bin/env bash
# The fault tests at length: every system call and allocation of a conversion fails, signals at random moments,
# full disks, inputs that shrink, refusals, and as root power cuts on a file system of its own.
#   scripts/test-faults.sh [N]     N rounds of kill -9 (1,000 unless told; ctest has 200) and N / 20 power cuts
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
rounds=${1:-1000}
cmake --preset release >/dev/null
cmake --build --preset release --target pith_cli fault_shim
options=(--pith build/release/cli/pith --shim build/release/tests/faults/libfault_shim.so)
run() { echo "== $*"; python3 "tests/faults/$1" "${options[@]}" "${@:2}"; }
run signals.py --rounds "$rounds"
run power.py --rounds "$((rounds / 20 + 1))" || [ $? -eq 77 ]
run points.py --long
run points.py --long --malloc
run disk.py --long
run files.py --long
run refusals.py
run large.py || [ $? -eq 77 ]
