#!/usr/bin/env bash
# limitador.sh FILE: builds tools/limitador, a server around Limitador's library, into FILE.
# For comparison in benchmarks only. Without cargo it says so and makes nothing.
set -euo pipefail
file=$(realpath -m "$1")
if ! command -v cargo >/dev/null 2>&1; then
  echo "cargo is not in PATH: Limitador is left out of the comparison" >&2
  exit 0
fi
echo "building a server around Limitador's library (once; some minutes)"
mkdir -p "$(dirname "$file")"
cd "$(dirname "$0")/../limitador"
nice -n 15 cargo build --locked --release --quiet --target-dir "$(dirname "$file")/target"
mv "$(dirname "$file")/target/release/limitador-bench" "$file"
rm -rf "$(dirname "$file")/target"
