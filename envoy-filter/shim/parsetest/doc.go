// Package parsetest runs the filter's C parsers of bytes from outside (parse.c, usage.c), and its hash of
// clients (siphash.c), without the shim. So Go's fuzzing reaches them: tests of a package with cgo cannot call C
// themselves.
//
// # Model
//
// The C files and their headers are links to those of the shim: the go command rebuilds a package only when files
// in its own folder change.
//
// Each function copies its argument to the end of a page of memory, before a page that
// cannot be read, and calls the parser on the copy. A read beyond the argument ends the
// process. A result must be a view of the argument or of the room that the parser was
// given; otherwise the function panics.
//
// # Oracles
//
// The tests compare the parsers with net/http's cookies, net/url's queries and net/netip's addresses where
// these accept the same inputs, and the numbers in JSON with encoding/json's. Otherwise they compare them with the
// same parser written in Go. The answers of language models in testdata follow the documentation of their makers.
package parsetest
