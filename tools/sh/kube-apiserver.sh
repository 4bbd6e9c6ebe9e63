#!/usr/bin/env bash
# kube-apiserver.sh FILE: builds kube-apiserver, at the version that tools/kubernetes pins, into FILE, for
# make e2e-k8s.
set -euo pipefail
file=$(realpath -m "$1")
"$(dirname "$0")/need.sh" go
echo "building kube-apiserver (once; five minutes on two cores)"
mkdir -p "$(dirname "$file")"
cd "$(dirname "$0")/../kubernetes"
version=$(sed -n 's,^\tk8s.io/kubernetes \(v[^ ]*\).*,\1,p' go.mod)
IFS=. read -r major minor _ <<<"${version#v}"
stamp=k8s.io/component-base/version
GOWORK=off CGO_ENABLED=0 go build -trimpath -o "$file.part" -ldflags="-s -w -X $stamp.gitVersion=$version \
  -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor" k8s.io/kubernetes/cmd/kube-apiserver
mv "$file.part" "$file"
