#!/usr/bin/env bash
# Shows that the fuzzers can see: builds the library with three bugs planted in it (src/base/checked.h), and lets the
# structure-aware targets of the formats that have a bug look for it, from an empty corpus, one bug at a time. The
# exit code is 1 if one of them has not found it after 100,000 executions, or if one finds something without a bug.
#   scripts/fuzz-planted.sh [BUG...]      1, 2 and 3 unless told
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

declare -A bugs=([1]='products of sizes wrap' [2]='lengths are not compared with the bytes left'
                 [3]='names may be there twice')
declare -A targets=([1]='safetensors_fields gguf_fields npy_fields npz_fields manifest_fields'
                    [2]='safetensors_fields'
                    [3]='safetensors_fields gguf_fields index_fields pickle_fields')
most=100000
failed=0
build=build/planted
cmake --preset fuzz -B "$build" -DPITH_PLANT_BUGS=ON > /dev/null
cmake --build "$build" > "$build/build.log" || { tail -n 20 "$build/build.log"; exit 1; }
look() {  # BUG TARGET: 0 if the target found something
  PITH_PLANTED_BUG=$1 "$build/fuzz/fuzz_$2" -runs=$most -seed=1 -max_len=200 -timeout=10 -rss_limit_mb=1024 \
    -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$build/$2-" > "$build/$2-$1.log" 2>&1 || return 0
  return 1
}

[ $# -gt 0 ] || set -- 1 2 3
for bug in "$@"; do
  read -ra names <<< "${targets[$bug]}"
  echo "== planted bug $bug: ${bugs[$bug]}"
  for name in "${names[@]}"; do
    log=$build/$name-$bug.log
    if look "$bug" "$name"; then
      executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
      sign=$(grep -m 1 -oE 'broken promise: .*|(heap|stack|global)-buffer-overflow|Assertion .* failed|runtime error: .*|out-of-memory|libFuzzer: [a-z-]+' "$log" || true)
      echo "$name: found after ${executions:-?} executions (${sign:-see $log})"
    else
      echo "$name: NOT FOUND in $most executions"
      failed=1
    fi
  done
done
echo "== no bug"
for name in $(printf '%s\n' "${targets[@]}" | tr ' ' '\n' | sort -u); do
  if look 0 "$name"; then
    echo "$name: found something that is not there: $build/$name-0.log"
    failed=1
  fi
done
exit $failed
