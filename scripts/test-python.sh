#!/usr/bin/env bash
# Builds the Python package with the library of the release preset, and runs the tests that need Python, in a
# virtual environment of their own (build/venv): files of Pith read by safetensors, gguf and numpy and theirs by
# Pith (tests/interop), and those of the package (python/tests).
#   scripts/test-python.sh [OPTION...]    options go to pytest
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

venv=$PWD/build/venv
requirements=(tests/interop/requirements.txt python/tests/requirements.txt)
# Installed again when the lists change.
if ! cmp -s <(cat "${requirements[@]}") "$venv/installed"; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${requirements[@]/#/--requirement=}"
  cat "${requirements[@]}" > "$venv/installed"
fi

cmake --preset release -DPITH_BUILD_PYTHON=ON -DPython_EXECUTABLE="$venv/bin/python" >/dev/null
cmake --build --preset release --target pith_cli pith_python pith_python_stub
export PITH=$PWD/build/release/cli/pith
for tests in tests/interop python/tests; do
  PYTHONPATH=$PWD/build/release/python "$venv/bin/python" -m pytest -q -p no:cacheprovider "$tests" "$@"
done
