package cli

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// A warning is said and counts only with --strict.
func TestCheck(t *testing.T) {
	server := serveAPI(t)
	if got := must(t, server, "", "check"); !strings.Contains(got,
		"security  WARNING  callers show no certificate\n") ||
		!strings.Contains(got, "what to do: give --tls-ca") {
		t.Errorf("%s", got)
	}
	if status, _, errs := titrate(t, server, "", "check", "--strict"); status != command.ExitFailed || errs != "" {
		t.Errorf("--strict: status %d, %q", status, errs)
	}
	fails(t, "127.0.0.1:1", command.ExitFailed, "", []string{"cannot reach the coordinator"}, "check")
}
