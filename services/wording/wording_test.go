package wording_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/wording"
)

// Numbers have no exponent where a person would write none.
func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1e9: "1000000000", 1e-6: "0.000001", 2.5: "2.5", -1e6: "-1000000",
		1e15: "1e+15", 1e-7: "1e-07"} {
		if got := wording.Number(x); got != want {
			t.Errorf("Number(%g) = %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{1234.4: "1234", 99.96: "100", 12.34: "12.3", .01234: "0.0123", 1e-5: "0.00001",
		-1e9: "-1000000000"} {
		if got := wording.Rough(x, 3); got != want {
			t.Errorf("Rough(%g) = %s, want %s", x, got, want)
		}
	}
	if one, two := wording.Does(1, "limit", "is", "are"), wording.Does(2, "limit", "is", "are"); one != "1 limit is" ||
		two != "2 limits are" {
		t.Error(one, two)
	}
}

// A message repeats the beginning of a long text.
func TestCut(t *testing.T) {
	for text, want := range map[string]string{"": "", "acme": "acme", strings.Repeat("é", 80): strings.Repeat("é", 80),
		strings.Repeat("é", 81): strings.Repeat("é", 80) + "…", strings.Repeat("\xff", 1e6): strings.Repeat("\xff", 80) + "…",
	} {
		if got := wording.Cut(text); got != want {
			t.Errorf("Cut: %q, want %q", got, want)
		}
	}
	if got, want := wording.Quote(strings.Repeat("\n", 1e6)), `"`+strings.Repeat(`\n`, 80)+`"…`; got != want {
		t.Errorf("Quote: %s", got)
	}
	if got := wording.Quote("a\xff"); got != `"a\xff"` {
		t.Errorf("Quote: %s", got)
	}
}

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
