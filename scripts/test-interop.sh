#!/usr/bin/env bash
# The package together with torch, transformers and compressed-tensors, in a virtual environment of
# its own: build/venv-interop. Not part of the tests of every change; docs/interop.md has what came
# out. torch is the one that pip finds: 6 GB with its CUDA libraries, or less where pip is
# configured for torch's CPU builds; no test needs a GPU.
#   scripts/test-interop.sh [OPTION...]    options go to pytest
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

venv=$PWD/build/venv-interop
requirements=python/tests/interop/requirements.txt
if ! cmp -s "$requirements" "$venv/installed"; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
  cp "$requirements" "$venv/installed"
fi

# The module of scripts/test-python.sh serves here, too: both environments have the same Python.
python=$PWD/build/venv/bin/python
[ -x "$python" ] || python=$venv/bin/python
cmake --preset release -DPITH_BUILD_PYTHON=ON -DPython_EXECUTABLE="$python" >/dev/null
cmake --build --preset release --target pith_python
"$venv/bin/pip" list 2>/dev/null | grep -E '^(torch|transformers|compressed-tensors|safetensors|gguf|numpy) '
PYTHONPATH=$PWD/build/release/python "$venv/bin/python" -m pytest -q -p no:cacheprovider \
  python/tests/interop "$@"
