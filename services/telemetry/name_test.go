package telemetry

import (
	"os"
	"strings"
	"testing"
)

func TestProcessName(t *testing.T) {
	for _, name := range []string{"a", "agent-1", "ip-10-0-0-7.eu-central-1.compute.internal", "Johns-Mac.local", "web_1",
		strings.Repeat("n", 128)} {
		if got, err := ProcessName(name); got != name || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"../x", "a/b", "..", ".a", "a-", "a b", "a\n", "ü", "\xff", strings.Repeat("n", 129)} {
		if _, err := ProcessName(name); err == nil || !strings.Contains(err.Error(), "--name") ||
			!strings.Contains(err.Error(), "want 1 to 128 of a-z A-Z 0-9") {
			t.Errorf("%q: %v", name, err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ProcessName(""); got != host || err != nil {
		t.Errorf("no name: %q, %v, want %s", got, err, host)
	}
}
