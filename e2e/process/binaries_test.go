package process

import (
	"os"
	"path/filepath"
	"testing"
)

// envoyVersion is the version that the filter is built for.
const envoyVersion = "1.40.0"

// binaries are the files under test.
type binaries struct{ titrate, lab, module, envoy string }

// need finds the files, or skips the test; with TITRATE_E2E=1 it fails it.
func need(t *testing.T) binaries {
	t.Helper()
	cache, _ := os.UserCacheDir() // $XDG_CACHE_HOME or ~/.cache
	return binaries{
		titrate: file(t, "TITRATE_BIN", "../../bin/titrate", "make build"),
		lab:     file(t, "TITRATE_LAB_BIN", "../../bin/titrate-lab", "make build"),
		module:  file(t, "TITRATE_MODULE", "../../bin/libtitrate.so", "make build"),
		envoy:   file(t, "ENVOY_BIN", filepath.Join(cache, "titrate", "envoy-"+envoyVersion, "envoy"), "make envoy"),
	}
}

func file(t *testing.T, variable, otherwise, remedy string) string {
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
