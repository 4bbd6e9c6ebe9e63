package process

import (
	"testing"

	"github.com/titrate/titrate/e2e/artifact"
)

// binaries are the files under test.
type binaries struct{ titrate, lab, module, envoy string }

// need finds the files, or skips the test; with TITRATE_E2E=1 it fails it.
func need(t *testing.T) binaries {
	t.Helper()
	p := artifact.Programs(t)
	lab := artifact.File(t, "TITRATE_LAB_BIN", "../../bin/titrate-lab", "make build")
	return binaries{titrate: p.Titrate, lab: lab, module: p.Module, envoy: p.Envoy}
}
