// Package examples has the example problems and scenarios of `titrate-lab solve` and `titrate-lab simulate`. Each file
// teaches one thing in its comments; tests run every file.
package examples

import "embed"

// Files are the examples, by file name.
//
//go:embed *.yaml
var Files embed.FS
