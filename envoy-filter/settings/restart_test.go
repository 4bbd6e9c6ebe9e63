package settings

import (
	"strings"
	"testing"
)

func TestRestartEpoch(t *testing.T) {
	for line, want := range map[string]int{
		"envoy -c x": 0, "envoy --restart-epoch 3 -c x": 3, "envoy --restart-epoch=12": 12, "envoy --restart-epoch": 0,
		"envoy --restart-epoch -1": 0, "envoy --restart-epoch x": 0,
	} {
		if got := RestartEpoch(strings.Fields(line)); got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
}
