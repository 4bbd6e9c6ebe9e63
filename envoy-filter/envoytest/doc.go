// Package envoytest runs the filter inside the real Envoy.
//
// It has tests only. They need ENVOY_BIN, the path of an Envoy 1.40 binary, and
// a C compiler: the module is built from the sources beside it, so a test never
// runs against an old object. Without ENVOY_BIN they are skipped.
//
// Each test starts its own Envoy from one of examples/, with the ports and the
// socket replaced (so the examples are tested too), an upstream in the test's
// process, and an agent in the test's process that speaks proto/link.
// Everything is on loopback; every Envoy is killed when its test ends.
package envoytest
