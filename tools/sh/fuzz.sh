#!/usr/bin/env bash
# fuzz.sh TIME: runs every fuzz target of the repository for TIME each.
set -euo pipefail
time=$1
cd "$(dirname "$0")/../.."
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r f; do
  dir=$(dirname "$f")
  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$f" | while read -r target; do
    echo "fuzz $dir $target"
    (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" . </dev/null) || exit 1
  done
done
