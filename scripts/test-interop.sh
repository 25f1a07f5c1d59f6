#!/usr/bin/env bash
# The package together with torch, transformers and compressed-tensors, in a virtual environment
# of its own: build/venv-interop (about 1 GB). Not part of the tests of every change; docs/interop.md
# has what came out. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
venv=$root/build/venv-interop
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --extra-index-url https://download.pytorch.org/whl/cpu \
  'nanobind>=2.4' numpy ml_dtypes pytest torch transformers compressed-tensors accelerate
cmake --preset release -B build/interop -DPITH_BUILD_PYTHON=ON -DPITH_BUILD_TESTS=OFF \
  -DPITH_BUILD_EXAMPLES=OFF -DPython_EXECUTABLE="$venv/bin/python" >/dev/null
cmake --build build/interop --target pith_python
PYTHONPATH=$root/build/interop/python exec "$venv/bin/python" -m pytest -q -p no:cacheprovider \
  python/tests/interop "$@"
