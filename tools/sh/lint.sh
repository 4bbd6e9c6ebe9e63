#!/usr/bin/env bash
# lint.sh MODULE...: golangci-lint (pinned by tools/lint, cached by version) in each module, gofmt,
# types of the console, bash syntax, prose.
set -euo pipefail
cd "$(dirname "$0")/../.."
top=$PWD
cache=${XDG_CACHE_HOME:-$HOME/.cache}/titrate
version=$(sed -n 's#.*github.com/golangci/golangci-lint/v2 \(v[0-9.]*\).*#\1#p' tools/lint/go.mod)
bin=$cache/golangci-lint-$version-$(go env GOVERSION)/golangci-lint
if [ ! -x "$bin" ]; then
  echo "building golangci-lint $version (once; some minutes)"
  mkdir -p "$(dirname "$bin")"
  (cd tools/lint && GOWORK=off go build -o "$bin.part" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
  mv "$bin.part" "$bin"
fi
status=0
for m in "$@"; do
  [ -n "$(find "$m" -name '*.go' -print -quit)" ] || continue
  echo "lint $m"
  cgo=0
  [ "$m" != envoy-filter ] || cgo=1
  (cd "$m" && CGO_ENABLED=$cgo "$bin" run --allow-parallel-runners --config "$top/.golangci.yaml" ./...) || status=1
done
for f in tools/sh/*.sh proto/generate.sh .ci/run; do bash -n "$f" || status=1; done
tools/sh/console.sh check || status=1
tools/sh/prose.sh || status=1
exit $status
