// Package kubernetes tests the Helm chart against a real API server with a real etcd. The server
// takes each object that the chart renders, and would admit its pods where the Pod Security Standard
// "restricted" is enforced. Helm installs, tests, upgrades, rolls back and uninstalls. The chart's Job
// makes its secrets with no more rights than it has. The chart's patch fits a Deployment.
//
// There is no node and no controller: no pod runs, and the tests themselves say of Jobs that they
// have succeeded.
//
// `make e2e-k8s` builds the API server and runs this package.
package kubernetes
