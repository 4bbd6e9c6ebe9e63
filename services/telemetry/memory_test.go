package telemetry

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// The limit is nine tenths of the container's; without one there is none.
func TestMemoryLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.max")
	if got := memoryLimit(path); got != math.MaxInt64 {
		t.Errorf("without a control group: %d", got)
	}
	for text, want := range map[string]int64{"1000000\n": 900000, "max\n": math.MaxInt64, "": math.MaxInt64} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := memoryLimit(path); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
