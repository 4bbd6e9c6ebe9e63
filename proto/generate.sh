#!/usr/bin/env bash
# Generates the Go of the protos, the HTTP gateway of the admin API (services/rest) and its OpenAPI
# document, and lints the protos. validate.proto comes from its Go module: it is
# laid beside ours in a scratch directory, so that no third-party file enters the repository.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/out"
cd "$here/../tools/proto"
GOWORK=off go build -o "$scratch/bin/" \
  github.com/bufbuild/buf/cmd/buf google.golang.org/protobuf/cmd/protoc-gen-go \
  google.golang.org/grpc/cmd/protoc-gen-go-grpc \
  github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway \
  github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2
deps=$(go mod download -json github.com/bufbuild/protovalidate@v1.2.2 | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
cp -r "$here/titrate" "$here/buf.yaml" "$here"/buf.gen*.yaml "$scratch/out/"
mkdir -p "$scratch/out/buf/validate"
cp "$deps/proto/protovalidate/buf/validate/validate.proto" "$scratch/out/buf/validate/"
cd "$scratch/out"
export PATH="$scratch/bin:$PATH" BUF_CACHE_DIR="$scratch/cache"
buf lint --path titrate
buf generate --path titrate
find titrate -name '*.pb.go' | while read -r f; do install -m 0644 "$f" "$here/$f"; done
buf generate --template buf.gen.rest.yaml --path titrate/quota
rest="$here/../services/rest"
mkdir -p "$rest/gateway"
for f in access service; do # their package is a directory of its own
  sed -E 's/^([Pp]ackage) quotav1alpha1\b/\1 gateway/' "titrate/quota/v1alpha1/$f.pb.gw.go" >"$rest/gateway/${f}_gw.pb.go"
done
install -m 0644 openapi.swagger.json "$rest/openapi.json"
