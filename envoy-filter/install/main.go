// Command install copies libtitrate.so into a directory: the init container of a pod whose
// Envoy is not ours runs it (deploy/module.Dockerfile).
//
//	install FILE DIRECTORY
//
// The copy is written to a temporary file in the directory and then renamed. So no Envoy loads half a file, and
// an Envoy that has loaded the old file keeps it. (A process ends if the bytes of an object that it has loaded
// change.)
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: install FILE DIRECTORY")
		os.Exit(2)
	}
	if err := install(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

// install copies the file into the directory, under its own name, readable by all.
func install(file, dir string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(dir, ".install-*")
	if err != nil {
		return fmt.Errorf("%w: mount a volume at %s that this user may write to", err, dir)
	}
	defer os.Remove(to.Name()) // which has no effect after the rename
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Chmod(0o644)
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", file, dir, err)
	}
	return os.Rename(to.Name(), filepath.Join(dir, filepath.Base(file)))
}
