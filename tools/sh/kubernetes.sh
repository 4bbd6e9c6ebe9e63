#!/usr/bin/env bash
# kubernetes.sh DIR: builds what a Kubernetes of one node needs into DIR, for make e2e-k8s:
# the API server, the controllers, the scheduler, the node's agent and its proxy at the version that
# tools/kubernetes pins, CoreDNS at that of tools/coredns, and what keeps a pod's namespaces.
set -euo pipefail
dir=$(realpath -m "$1")
"$(dirname "$0")/need.sh" go
cd "$(dirname "$0")/.."
version=$(sed -n 's,^\tk8s.io/kubernetes \(v[^ ]*\).*,\1,p' kubernetes/go.mod)
IFS=. read -r major minor _ <<<"${version#v}"
stamp=k8s.io/component-base/version
export GOWORK=off CGO_ENABLED=0
mkdir -p "$(dirname "$dir")"
scratch=$(mktemp -d -p "$(dirname "$dir")")
trap 'rm -rf "$scratch"' EXIT
echo "building Kubernetes $version (once; ten minutes on two cores)"
all=(kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubelet)
(cd kubernetes && go build -trimpath -o "$scratch/" -ldflags="-s -w -X $stamp.gitVersion=$version \
  -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor" "${all[@]/#/k8s.io/kubernetes/cmd/}")
(cd kubernetes && go build -trimpath -ldflags='-s -w' -o "$scratch/pause" ./pause)
(cd coredns && go build -trimpath -ldflags='-s -w' -o "$scratch/coredns" .)
rm -rf "$dir"
mv "$scratch" "$dir"
chmod 755 "$dir"
trap - EXIT
