// Package kubernetes makes the few calls of Kubernetes' API server that Titrate needs: get, list, create, update, patch
// and watch, as JSON over HTTP. Package secrets puts secrets with it, and package operator follows custom resources.
//
// # Why no client-go
//
// The program is 56.4 MB. client-go 0.36 (clientset, informers, leader election) would add 25.4 MB
// to it, controller-runtime 0.24 27.9 MB. The need is one Lease, one kind of Secret and four kinds
// of custom resources, of which all are read at once.
package kubernetes
