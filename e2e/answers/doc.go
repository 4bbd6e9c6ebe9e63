// Package answers tests how gRPC clients react to the filter's answers. It has a real grpc-go client and
// server with the real Envoy and filter between them, over HTTP/2, from
// envoy-filter/examples/answers-grpc.yaml.
//
// It has tests only. It is here and not in the filter's module, which links only the standard library, tests
// included. The agent is a stand-in in the test's process that speaks proto/link.
//
// It needs ENVOY_BIN, an Envoy 1.40, and a C compiler: the filter is built from the sources, so a test never
// runs against an old object. Without ENVOY_BIN the tests are skipped. Everything is on loopback and ends with
// the test process.
package answers
