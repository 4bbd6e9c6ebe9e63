// Package kubernetes tests the Helm chart against a real API server with a real etcd. The server takes each
// object that the chart renders, and would admit its pods where the Pod Security Standard "restricted" is
// enforced. Helm installs, tests, upgrades, rolls back and uninstalls. The chart's Job makes its secrets with
// only the rights that the chart gives it. The chart's patch fits a Deployment.
//
// For these tests there is no node and no controller: no pod runs, and the tests themselves mark Jobs as
// succeeded.
//
// TestNode has a whole cluster of one node, in its own Linux namespaces (tools/sh/node.sh): kubelet,
// containerd, kube-proxy, CoreDNS, controllers and scheduler. There the chart is installed with Helm, limits
// real requests, is scaled, loses its leading coordinator, is upgraded from the version before, rolled back and
// uninstalled, under traffic. No request may fail. Envoy Gateway, installed by its own chart, makes Envoys with
// the module and asks an agent about global limits.
//
// `make e2e-k8s` builds the programs and runs this package.
package kubernetes
