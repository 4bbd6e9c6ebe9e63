// Package artifact finds the files that tests of whole processes need: what `make` has built or downloaded.
package artifact

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/titrate/titrate/lab/installation"
)

// Programs returns Titrate, its filter and Envoy.
func Programs(t *testing.T) installation.Programs {
	t.Helper()
	cache, _ := os.UserCacheDir() // $XDG_CACHE_HOME or ~/.cache
	return installation.Programs{
		Titrate: File(t, "TITRATE_BIN", "../../bin/titrate", "make build"),
		Module:  File(t, "TITRATE_MODULE", "../../bin/libtitrate.so", "make build"),
		Envoy: File(t, "ENVOY_BIN", filepath.Join(cache, "titrate", "envoy-"+installation.EnvoyVersion, "envoy"),
			"make envoy"),
	}
}

// File returns the absolute path of a file: what the variable of the environment says, else otherwise. Without the file
// it skips the test; with TITRATE_E2E=1 it fails it. remedy is the command that makes the file.
func File(t *testing.T, variable, otherwise, remedy string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		path = otherwise
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return path
	}
	complain := t.Skipf
	if os.Getenv("TITRATE_E2E") == "1" {
		complain = t.Fatalf
	}
	complain("no file at %s: run `%s`, or set %s", path, remedy, variable)
	return ""
}
