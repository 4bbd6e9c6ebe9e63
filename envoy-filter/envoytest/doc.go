// Package envoytest runs the filter inside the real Envoy.
//
// It has tests only. They need ENVOY_BIN, the path of an Envoy binary, and a C compiler: the module is built
// from this repository's sources, so a test never runs against an old object. Without ENVOY_BIN they are
// skipped. The suite passes with every Envoy that the module loads in. `make test` runs the suite with the
// newest Envoy, `make e2e` its core with the older ones, `make verify` the whole suite with each.
//
// Each test starts its own Envoy from one of examples/, with the ports and the socket
// replaced (so the examples are tested too). It has an upstream in the test's process, and
// an agent in the test's process that speaks proto/link. Everything is on loopback; every
// Envoy is killed when its test ends.
package envoytest
