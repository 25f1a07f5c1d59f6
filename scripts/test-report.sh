#!/usr/bin/env bash
# Tests the HTML report in a headless Chromium, and report.json against its schema.
#   scripts/test-report.sh [PITH]     the command; built if it is not given
# Needs chromium (Debian) and playwright and jsonschema (PyPI), and installs them. Pictures are left in build/report.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -x /usr/bin/chromium ]; then
  sudo=
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  echo "test-report: installing chromium" >&2
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core python3-venv >/dev/null
fi
venv=build/report/venv
if [ ! -x $venv/bin/playwright ]; then
  python3 -m venv $venv
  $venv/bin/pip install --quiet --disable-pip-version-check playwright jsonschema
fi
pith=${1:-}
if [ -z "$pith" ]; then
  scripts/setup.sh build
  cmake --preset release -B build/demo -DPITH_BUILD_TESTS=OFF -DPITH_BUILD_EXAMPLES=OFF >/dev/null
  cmake --build build/demo --target pith_cli
  pith=build/demo/cli/pith
fi
"$pith" demo --force -o build/report/demo >/dev/null
$venv/bin/python tests/report/schema.py "$pith" docs/report.schema.json build/report/pages build/report/demo/*.json
$venv/bin/python tests/report/browser.py "$pith" build/report/pages
