#!/bin/sh
# run_shared.sh PITH_GOLDEN SOURCE_DIR: runs the golden vectors of the shared folder, which is
# $PITH_SHARED, or `shared` beside the source tree. Exit code 77, a skipped test, without it.
set -eu
shared=${PITH_SHARED:-$2/../shared}
if [ ! -d "$shared/golden" ]; then
  echo "skipped: no folder $shared/golden; PITH_SHARED names another place"
  exit 77
fi
exec "$1" "$shared"/golden/*.jsonl
