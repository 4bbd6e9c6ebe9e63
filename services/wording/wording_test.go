package wording_test

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/services/wording"
)

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"1 pool": wording.Count(1, "pool"), "0 pools": wording.Count(0, "pool"),
		"2 queries": wording.Count(uint64(2), "query"), "2 gateways": wording.Count(2, "gateway"),
		"1 error more": wording.Count(1, "error") + " more",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A person says 5.7 per minute, not .095 per second.
func TestRate(t *testing.T) {
	one := func(x float64) string { return fmt.Sprintf("%.3g", x) }
	for perSecond, want := range map[float64]string{0: "0/s", 300: "300/s", 1: "1/s", .095: "5.7/min", 1. / 60: "1/min",
		.5: "30/min", 2. / 3600: "2/h", 5. / 86400: "5/d", .1 / 86400: "0.1/d"} {
		if got := wording.Rate(perSecond, one); got != want {
			t.Errorf("%g per second: %s, want %s", perSecond, got, want)
		}
	}
}

func TestNear(t *testing.T) {
	fields := []string{"capacity", "sharing", "alpha", "queue"}
	for word, want := range map[string]string{"capactiy": "capacity", "Capacity": "capacity", "capacty": "capacity",
		"queues": "queue", "kapazitaet": "", "x": "", "": "", "a": "", "rate": ""} {
		if got := wording.Near(word, fields); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := wording.Near("acmee", []string{"acme", "acmes", "bolt"}); got != "acme" {
		t.Errorf("of two the first is taken: %q", got)
	}
	if got := wording.Near("aa", []string{"ab", "zz"}); got != "ab" {
		t.Errorf("short: %q", got)
	}
}

func TestSpark(t *testing.T) {
	if got := wording.Spark([]float64{0, 1, 4, 8}); got != "·▂▅█" {
		t.Error(got)
	}
	if got := wording.Spark([]float64{0, 0}) + wording.Spark(nil); got != "··" {
		t.Error(got)
	}
}
