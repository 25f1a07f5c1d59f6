#!/usr/bin/env bash
# Installs the Debian packages Pith is built and tested with. Quiet when they are there.
#   scripts/setup.sh          for building, testing and the checks of .ci/run
#   scripts/setup.sh build    only what the library and the command need
#   scripts/setup.sh neon     what scripts/test-neon.sh needs
set -euo pipefail

build=(cmake ninja-build g++ pkg-config libhwy-dev libtbb-dev libfmt-dev nlohmann-json3-dev
       zlib1g-dev libxxhash-dev libre2-dev libyaml-cpp-dev libcli11-dev)
check=(libgtest-dev librapidcheck-dev libbenchmark-dev python3 python3-dev python3-venv
       clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14)
neon=(cmake ninja-build g++-aarch64-linux-gnu qemu-user)

case "${1:-all}" in
  build) packages=("${build[@]}") ;;
  neon) packages=("${neon[@]}") ;;
  *) packages=("${build[@]}" "${check[@]}") ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
    missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $sudo apt-get update && $sudo apt-get install -y --no-install-recommends "${missing[@]}"; } \
    >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: apt-get failed; the packages above are needed" >&2
  exit 1
fi
