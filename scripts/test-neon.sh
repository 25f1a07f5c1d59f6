#!/usr/bin/env bash
# Cross-compiles the kernels for 64-bit Arm and runs their tests under qemu-user.
# Nothing but the cross compiler and the emulator is installed: the few Arm libraries are unpacked
# into build/neon-sysroot.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh neon

sysroot=$PWD/build/neon-sysroot
if [ ! -e "$sysroot/complete" ]; then
  rm -rf "$sysroot"
  apt=$sysroot/apt
  mkdir -p "$apt"/{lists,archives}/partial
  touch "$apt/status"
  options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Acquire::Languages=none
           -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status"
           -o Dir::Cache="$apt" -o Dir::Cache::archives="$apt/archives"
           -o APT::Sandbox::User=)
  packages=(libhwy-dev libhwy1 libtbb-dev libtbb12 libtbbbind-2-5 libtbbmalloc2 libfmt-dev libfmt9 libgtest-dev
            librapidcheck-dev)
  if ! { apt-get "${options[@]}" update &&
         (cd "$apt" && apt-get "${options[@]}" download "${packages[@]}"); } >"$apt/log" 2>&1; then
    tail -n 20 "$apt/log" >&2
    echo "test-neon: NOT RUN: apt-get failed; the arm64 packages ${packages[*]} are needed" >&2
    exit 77
  fi
  for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
  rm -rf "$apt"
  touch "$sysroot/complete"
fi

cmake --preset neon >/dev/null
cmake --build --preset neon
ctest --preset neon -j "$(nproc)" "$@"
