#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET...]: builds the fuzzers and runs each for SECONDS from its corpus in
# fuzz/corpus and its dictionary in fuzz/. New inputs go to build/fuzz/corpus, findings to
# build/fuzz/findings; the exit code is 1 if there are any.
#
# PITH_FUZZ_RUNS=N runs each target N times instead; PITH_FUZZ_BUILD=FOLDER takes the programs
# from another build folder and does not build.
set -euo pipefail
seconds=${1:?"usage: scripts/fuzz.sh SECONDS [TARGET...]"}
shift
cd "$(dirname "$0")/.."

build=${PITH_FUZZ_BUILD:-build/fuzz}
if [[ -z ${PITH_FUZZ_BUILD:-} ]]; then
  cmake --preset fuzz > /dev/null
  cmake --build "$build"
fi
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
  for source in fuzz/fuzz_*.cc; do
    name=${source#fuzz/fuzz_}
    [[ -x $build/fuzz/fuzz_${name%.cc} ]] && targets+=("${name%.cc}")  # not all are in every build
  done
fi

# Short stacks and little memory kept back cost less time, and entropy half of it where files have many features.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=5:quarantine_size_mb=16}
limit=(-max_total_time="$seconds" -entropic=0)
[[ -n ${PITH_FUZZ_RUNS:-} ]] && limit=(-runs="$PITH_FUZZ_RUNS" -entropic=0)
findings=$build/findings
mkdir -p "$findings"
fuzz() {
  local name=$1 corpus=$build/corpus/$1 dictionary=() failed=0
  mkdir -p "$corpus"
  [[ -f fuzz/$name.dict ]] && dictionary=(-dict="fuzz/$name.dict")
  "$build/fuzz/fuzz_$name" "${limit[@]}" "${dictionary[@]}" -timeout=10 -rss_limit_mb=512 \
    -malloc_limit_mb=256 -max_len=4096 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$findings/$name-" "$corpus" "fuzz/corpus/$name" 2> "$corpus.log" || failed=1
  echo "== $name"
  [[ $failed == 0 ]] || tail -n 40 "$corpus.log"
  grep -E "^stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)" "$corpus.log" || true
  return $failed
}
# Twice as many at once as there are processors: more kinds of input in the same time.
most=$((2 * $(nproc)))
failed=0
running=0
for name in "${targets[@]}"; do
  if ((running == most)); then
    wait -n || failed=1
    running=$((running - 1))
  fi
  fuzz "$name" &
  running=$((running + 1))
done
while ((running > 0)); do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
