#!/usr/bin/env bash
# Runs the tests that need Python packages, in a virtual environment of their own (build/venv): files of Pith read
# by safetensors, gguf and numpy and theirs by Pith (tests/interop), and those of the Python package where it is.
#   scripts/test-python.sh [OPTION...]    options go to pytest
#   PITH=build/dev/cli/pith scripts/test-python.sh
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

export PITH=${PITH:-$PWD/build/release/cli/pith}
if [ ! -x "$PITH" ]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target pith_cli
fi

venv=build/venv
tests=(tests/interop)
requirements=(tests/interop/requirements.txt)
[ -d python/tests ] && tests+=(python/tests)
[ -f python/tests/requirements.txt ] && requirements+=(python/tests/requirements.txt)
# Installed again when the lists change.
if ! cmp -s <(cat "${requirements[@]}") "$venv/installed"; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${requirements[@]/#/--requirement=}"
  cat "${requirements[@]}" > "$venv/installed"
fi
for folder in "${tests[@]}"; do
  "$venv/bin/python" -m pytest -q -p no:cacheprovider "$folder" "$@"
done
