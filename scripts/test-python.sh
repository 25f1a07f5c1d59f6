#!/usr/bin/env bash
# Builds the Python package with the library of the release preset and tests it in a virtual
# environment, build/venv. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
venv=$root/build/venv
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  'nanobind>=2.4' numpy ml_dtypes pytest safetensors gguf
cmake --preset release -DPITH_BUILD_PYTHON=ON -DPython_EXECUTABLE="$venv/bin/python" >/dev/null
cmake --build --preset release --target pith_python pith_python_stub
PYTHONPATH=$root/build/release/python exec "$venv/bin/python" -m pytest -q -p no:cacheprovider \
  python/tests --ignore=python/tests/interop "$@"
