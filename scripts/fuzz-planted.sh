#!/usr/bin/env bash
# Shows that the fuzzers can see: builds the library three times with a bug planted in it (src/base/checked.h), and
# lets the structure-aware targets of the formats that have the bug look for it, from an empty corpus. The exit
# code is 1 if one of them has not found it after 100,000 executions.
#   scripts/fuzz-planted.sh [BUG...]      1, 2 and 3 unless told
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh

declare -A bugs=([1]='products of sizes wrap' [2]='lengths are not compared with the bytes left'
                 [3]='names may be there twice')
declare -A targets=([1]='safetensors_fields gguf_fields npy_fields npz_fields manifest_fields'
                    [2]='safetensors_fields npz_fields'
                    [3]='safetensors_fields gguf_fields index_fields pickle_fields')
most=100000
failed=0
[ $# -gt 0 ] || set -- 1 2 3
for bug in "$@"; do
  build=build/planted-$bug
  read -ra names <<< "${targets[$bug]}"
  echo "== planted bug $bug: ${bugs[$bug]}"
  cmake --preset fuzz -B "$build" -DPITH_PLANT_BUG="$bug" > /dev/null
  cmake --build "$build" --target "${names[@]/#/fuzz_}" > "$build/build.log" || { tail -n 20 "$build/build.log"; exit 1; }
  for name in "${names[@]}"; do
    log=$build/$name.log
    if "$build/fuzz/fuzz_$name" -runs=$most -seed=1 -max_len=200 -timeout=10 -rss_limit_mb=1024 \
      -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$build/$name-" > "$log" 2>&1; then
      echo "$name: NOT FOUND in $most executions"
      failed=1
    else
      executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
      sign=$(grep -m 1 -oE 'broken promise: .*|(heap|stack|global)-buffer-overflow|Assertion .* failed|runtime error: .*|out-of-memory|libFuzzer: [a-z-]+' "$log" || true)
      echo "$name: found after ${executions:-?} executions (${sign:-see $log})"
    fi
  done
done
exit $failed
