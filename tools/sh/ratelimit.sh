#!/usr/bin/env bash
# ratelimit.sh FILE: builds envoyproxy/ratelimit, at the version that tools/ratelimit pins, into FILE.
# For comparison in benchmarks only.
set -euo pipefail
file=$(realpath -m "$1")
"$(dirname "$0")/need.sh" go
echo "building envoyproxy/ratelimit (once; a minute)"
mkdir -p "$(dirname "$file")"
cd "$(dirname "$0")/../ratelimit"
GOWORK=off CGO_ENABLED=0 go build -trimpath -o "$file.part" github.com/envoyproxy/ratelimit/src/service_cmd
mv "$file.part" "$file"
