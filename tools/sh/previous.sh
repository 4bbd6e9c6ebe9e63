#!/usr/bin/env bash
# previous.sh COMMIT DIR: builds the programs of an earlier state of this repository, titrate and
# libtitrate.so, into DIR, and copies its chart there, for tests that run two versions beside each other.
set -euo pipefail
commit=$1 dir=$(realpath -m "$2")
"$(dirname "$0")/need.sh" go gcc
cd "$(dirname "$0")/../.."
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "commit $commit is not in this clone: fetch the whole history (git fetch --unshallow)" >&2
  exit 1
fi
echo "building titrate and libtitrate.so of $commit (once; some minutes)"
mkdir -p "$(dirname "$dir")"
scratch=$(mktemp -d -p "$(dirname "$dir")")
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/source" "$scratch/bin"
git archive "$commit" | tar -x -C "$scratch/source"
make -C "$scratch/source" --no-print-directory build VERSION="$commit"
cp "$scratch/source/bin/titrate" "$scratch/source/bin/libtitrate.so" "$scratch/bin/"
cp -r "$scratch/source/charts/titrate" "$scratch/bin/chart"
rm -rf "$dir"
mv "$scratch/bin" "$dir"
