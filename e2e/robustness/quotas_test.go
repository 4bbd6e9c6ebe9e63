package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/load"
)

// The zone that coordinators are given has its midnight when it is wanted, to the second.
func TestZoneHasItsMidnight(t *testing.T) {
	for _, at := range []time.Time{time.Unix(1_800_000_000, 0), time.Unix(1_800_030_001, 0), time.Unix(1_800_079_999, 0)} {
		z, err := time.LoadLocationFromTZData(zone, zoneOf(at))
		if err != nil {
			t.Fatal(err)
		}
		if h, m, s := at.In(z).Clock(); h+m+s != 0 {
			t.Errorf("%v is %d:%d:%d there", at, h, m, s)
		}
	}
}

// Each day is judged, and all that is unused, however many faults there were.
func TestDaysAreJudged(t *testing.T) {
	const q, turn = quotas(80), time.Minute // 40 a day
	faults := make([]check.Fault, 30)
	for _, c := range []struct {
		name          string
		before, after int
		faults        []check.Fault
		fails         string
	}{
		{"as it should be", 40, 40, nil, ""},
		{"too many before", 41, 39, nil, "[the day that ends]"},
		{"too many after", 39, 41, nil, "[the day that begins]"},
		{"too many in all", 40, 41, []check.Fault{{Kind: "step-clock"}}, "[both days]"},
		{"a clock was stepped", 30, 50, []check.Fault{{Kind: "step-clock"}}, ""},
		{"one day is lost with many faults", 0, 39, faults, "[both days]"},
		{"not judged", 90, 0, []check.Fault{{Kind: "lying-agent"}}, ""},
	} {
		r := &Result{Faults: c.faults}
		var records []load.Record
		add := func(n int, at time.Duration) {
			for range n {
				records = append(records, load.Record{Client: &load.Client{Tenant: "daily"}, Arrived: at})
			}
		}
		add(c.before, turn/2)
		add(c.after, turn*3/2)
		r.daily(q, turn, records)
		var failed []string
		for _, one := range r.Checks {
			if !one.Pass {
				failed = append(failed, one.Subject)
			}
		}
		if got := fmt.Sprint(failed); got != c.fails && (c.fails != "" || got != "[]") {
			t.Errorf("%s: %s fail, want %s", c.name, got, c.fails)
		}
	}
}
