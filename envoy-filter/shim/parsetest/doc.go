// Package parsetest runs the filter's C parsers of bytes from outside (parse.c) on
// their own, so that Go's fuzzing reaches them: tests of a package with cgo cannot call C
// by themselves.
//
// # Model
//
// parse.c and its headers are links to the filter's: the go command sees a change
// only of files in a package's own folder.
//
// Each function here copies its argument to the very end of a page that an
// inaccessible one follows, and calls the parser on that: a read beyond the view
// ends the process. A result must be a view of the argument or of the room that
// the parser was given, else it is a panic.
//
// # Oracles
//
// The tests hold the parsers against net/http's cookies, net/url's queries and
// net/netip's addresses, where those are as lenient, and otherwise against the
// same said in Go.
package parsetest
