#!/usr/bin/env bash
# envoy-gateway.sh VERSION FILE: builds Envoy Gateway from its Go module into FILE, for make e2e-gateway.
set -euo pipefail
version=$1 file=$(realpath -m "$2")
"$(dirname "$0")/need.sh" go
echo "building Envoy Gateway $version (once; five minutes on two cores)"
mkdir -p "$(dirname "$file")"
scratch=$(mktemp -d -p "$(dirname "$file")")
trap 'rm -rf "$scratch"' EXIT
GOBIN=$scratch GOWORK=off GOFLAGS= CGO_ENABLED=0 go install -trimpath \
  "github.com/envoyproxy/gateway/cmd/envoy-gateway@v$version"
mv "$scratch/envoy-gateway" "$file"
