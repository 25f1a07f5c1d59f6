#!/usr/bin/env bash
# run.sh BUILD SOURCE: installs BUILD into a temporary prefix and builds the stranger's project against it,
# by find_package and by pkg-config.
set -euo pipefail
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$source" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/cmake" >/dev/null
"$work/cmake/stranger"

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name pith.pc)")
# The prefix in pith.pc is that of a real install; here it is told.
# shellcheck disable=SC2046
"${CXX:-g++}" "$source/main.cc" -o "$work/stranger" \
  $(pkg-config --define-variable=prefix="$work/prefix" --cflags --libs pith)
"$work/stranger"
