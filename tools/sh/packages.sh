#!/usr/bin/env bash
# packages.sh VERSION DIR: a .deb and a .rpm in DIR for each architecture that DIR has titrate-linux-ARCH and
# libtitrate-linux-ARCH.so for, by nfpm (pinned by tools/nfpm). Same files and commit: same bytes.
set -euo pipefail
export VERSION=${1%%+*} ARCH SOURCE_DATE_EPOCH # what is behind a + is no part of a package's version
dir=$(realpath "$2")
cd "$(dirname "$0")/../.."
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cp deploy/packages/* docs/how-to/envoy.yaml LICENSE "$stage"
(cd e2e && go run ./reference -install "$stage")
gzip -9n "$stage"/man/*
(cd tools/nfpm && GOWORK=off go build -o "$stage/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm)
cd "$stage"
for program in "$dir"/titrate-linux-*; do
  ARCH=${program##*-}
  case $ARCH in amd64 | arm64) ;; *) continue ;; esac
  cp "$program" titrate
  cp "$dir/libtitrate-linux-$ARCH.so" libtitrate.so
  for format in deb rpm; do ./nfpm package --config nfpm.yaml --packager $format --target "$dir"; done
done
