package config_test

import (
	"math"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// A request states a number, or a number with a unit as in the rate of a limit.
func TestParseStatedRate(t *testing.T) {
	for text, want := range map[string]config.StatedRate{
		"50": {Amount: 50}, "0": {}, "2.5": {Amount: 2.5}, "1e3": {Amount: 1000}, "50/s": {Amount: 50, Per: 1},
		"50/min": {Amount: 50, Per: 60}, "100/10s": {Amount: 100, Per: 10}, "7/week": {Amount: 7, Per: 604800},
		"1/366d": {Amount: 1, Per: 366 * 86400}, "1e999": {Amount: math.Inf(1)},
	} {
		if got, ok := config.ParseStatedRate(text); !ok || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "-1", "+1", "gold", "NaN", "Inf", "0x10", "1_0", "5.", " 5", "5 ", "5/", "5/mo",
		"5/0s", "5/05s", "5/-1s", "5/367d", "5/s/s", "5/99999999999999999999s", "5\x00", ".5", strings.Repeat("5", 33)} {
		if got, ok := config.ParseStatedRate(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// Whatever a request states is refused, or the bounds make a rate of it that lies within them.
func FuzzParseStatedRate(f *testing.F) {
	for _, text := range []string{"50", "50/min", "1e3/10s", "-", "1e999", "5/99999999999999999999s", strings.Repeat("9", 40)} {
		f.Add(text)
	}
	bounds := config.RateBounds{Least: .5, Most: 100, Per: 60}
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := config.ParseStatedRate(text)
		if !ok {
			return
		}
		if len(text) > 32 || !(r.Amount >= 0) || !(r.Per >= 0 && r.Per <= 366*86400) {
			t.Fatalf("%q is %+v", text, r)
		}
		if rate, within := bounds.Of(r); !(rate >= .5 && rate <= 100) || !within && rate != .5 && rate != 100 {
			t.Fatalf("%q is %v, %v", text, rate, within)
		}
	})
}

// The bounds hold for a limit with a rate that lies between them, whose burst lets a request pass at the least rate.
func TestRequestedRateIsValid(t *testing.T) {
	of := func(change func(l *config.Limit)) config.Limit {
		l := config.Limit{Name: "l", Rate: 10, Burst: 20, RequestedRate: config.RateBounds{Least: .5, Most: 100, Per: 1}}
		change(&l)
		return l
	}
	for name, c := range map[string]struct {
		l    config.Limit
		want string
	}{
		"as it is":          {of(func(*config.Limit) {}), ""},
		"the default burst": {of(func(l *config.Limit) { l.Burst, l.RequestedRate.Least = 0, 1 }), ""},
		"no least":          {of(func(l *config.Limit) { l.RequestedRate.Least = 0 }), "requested_rate.least"},
		"not a number":      {of(func(l *config.Limit) { l.RequestedRate.Least = math.NaN() }), "requested_rate.least"},
		"a small burst":     {of(func(l *config.Limit) { l.RequestedRate.Least = .4 }), "a burst of at least 25"},
		"a high least":      {of(func(l *config.Limit) { l.RequestedRate.Least = 11 }), "requested_rate.least"},
		"a low most":        {of(func(l *config.Limit) { l.RequestedRate.Most = 9 }), "requested_rate.most"},
		"a huge most":       {of(func(l *config.Limit) { l.RequestedRate.Most = 1e12 }), "requested_rate.most"},
		"no unit":           {of(func(l *config.Limit) { l.RequestedRate.Per = 0 }), "requested_rate.per"},
		"blocked":           {of(func(l *config.Limit) { l.Rate = 0 }), "requested_rate.least"},
		"a concurrency":     {of(func(l *config.Limit) { l.Rate, l.Burst, l.Concurrency = 0, 0, 5 }), "requested_rate"},
	} {
		err := c.l.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if b := of(func(*config.Limit) {}); b.Bucket() != (config.RateBurst{Rate: 100, Burst: 200}) {
		t.Errorf("the bucket is %+v", b.Bucket())
	}
}
