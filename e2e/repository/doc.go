// Package repository keeps the rules of the repository itself. They say which module may import which, that
// every package has a comment about its purpose, that files stay small, that no machine's paths or
// downloads were committed. The rules are in the tests.
package repository
