package cli

import (
	"io"
	"strings"
	"testing"
)

func TestCoordinatorRefusesAnOpenPort(t *testing.T) {
	cmd := newCoordinator()
	cmd.SetArgs([]string{"--listen", "0.0.0.0:0"})
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--insecure") {
		t.Errorf("%v", err)
	}
}
