package check

import (
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/robustness/load"
)

const second = time.Second

// every gives n arrivals at a constant rate from a time on.
func every(from time.Duration, rate float64, n int) (all []time.Duration) {
	for i := range n {
		all = append(all, from+time.Duration(float64(i)/rate*1e9))
	}
	return all
}

func TestAdmitted(t *testing.T) {
	limit := Bound{Rate: 2, Burst: 4, Slack: 1}
	cold := Bound{Rate: 2, Burst: 4, Slack: 1, Cold: 1}
	cut := []Fault{{From: 20 * second, To: 30 * second, Grace: Grace{More: .5, Bursts: 1, Sides: true,
		Unfair: 10 * second}}}
	exact := Bound{Rate: 2, Burst: 4, Slack: 1, Ledgers: 3, Sides: true}
	near := Bound{Rate: 2, Burst: 4, Slack: 1, Sides: true}
	silent := []Fault{{From: 20 * second, To: 30 * second, Grace: Grace{Ledgers: true, Unfair: 10 * second}}}
	pool := Bound{Rate: 2, Burst: 4, Slack: 1, Frozen: 1}
	noLeader := []Fault{{From: 20 * second, To: 30 * second, Grace: Grace{Freezes: true, Unfair: 10 * second}}}
	for name, c := range map[string]struct {
		arrivals []time.Duration
		bound    Bound
		faults   []Fault
		pass     bool
	}{
		"at the rate":        {every(0, 2, 100), limit, nil, true},
		"burst and slack":    {every(0, 1e6, 5), limit, nil, true},
		"one more":           {every(0, 1e6, 6), limit, nil, false},
		"one more, but cold": {every(0, 1e6, 6), cold, nil, true},
		"one more, warm again": {append(every(0, 1e6, 5), every(60*second, 1e6, 6)...), cold,
			nil, false},
		"half as much again":             {every(0, 3, 100), limit, nil, false},
		"half as much again, partition":  {every(20*second, 3, 60), limit, cut, true},
		"the same, after its grace":      {every(41*second, 3, 60), limit, cut, false},
		"twice as much, also partition":  {every(20*second, 4, 80), limit, cut, false},
		"a burst more in a partition":    {every(25*second, 1e6, 9), limit, cut, true},
		"a burst more before it":         {every(15*second, 1e6, 9), limit, cut, false},
		"two bursts more in a partition": {every(25*second, 1e6, 13), limit, cut, false},
		"half as much again, frozen":     {every(20*second, 3, 60), pool, noLeader, true},
		"the same, after it":             {every(41*second, 3, 60), pool, noLeader, false},
		"the same of a limit":            {every(20*second, 3, 60), limit, noLeader, false},
		"a ledger decides":               {every(22*second, 1e6, 8), exact, silent, true},
		"a ledger decides too much":      {every(22*second, 1e6, 9), exact, silent, false},
		"a ledger decides, after it":     {every(41*second, 1e6, 8), exact, silent, false},
		"a ledger of a LOCAL limit":      {every(22*second, 1e6, 8), limit, silent, false},
		"two sides":                      {every(20*second, 4, 60), exact, cut, true},
		"two sides, near":                {every(20*second, 4, 60), near, cut, true},
		"three sides":                    {every(20*second, 6, 90), exact, cut, false},
	} {
		if got := Admitted(c.arrivals, c.bound, c.faults, nil); (got.Beyond <= 0) != c.pass {
			t.Errorf("%s: %+v, want pass %v", name, got, c.pass)
		}
	}
}

func TestStalls(t *testing.T) {
	limit := Bound{Rate: 10, Burst: 4, Slack: 1}
	stalls := []Span{{20 * second, 22 * second}}
	if got := Admitted(every(22*second, 1e6, 25), limit, nil, stalls); got.Beyond > 0 {
		t.Errorf("what was held up by a stall of 2 s: %+v", got)
	}
	if got := Admitted(every(22*second, 1e6, 26), limit, nil, stalls); got.Beyond <= 0 {
		t.Errorf("one more: %+v", got)
	}
	limit.Ledgers = 3
	if got := Admitted(every(22*second, 1e6, 28), limit, nil, stalls); got.Beyond > 0 {
		t.Errorf("what a ledger decided in a stall of 2 s: %+v", got)
	}
	if got := Stalled(Span{21 * second, 30 * second}, stalls); got != second {
		t.Errorf("stalled for %v", got)
	}
}

func TestQuiet(t *testing.T) {
	faults := []Fault{
		{From: 40 * second, To: 42 * second, Grace: Grace{Unfair: 3 * second}},
		{From: 10 * second, To: 15 * second, Grace: Grace{Unfair: 10 * second}},
		{From: 12 * second, To: 13 * second},
		{From: 30 * second, To: 31 * second, Grace: Grace{Fair: true}},
	}
	got := Quiet(faults, 2*second, 47*second, 5*second)
	want := []Span{{2 * second, 10 * second}, {25 * second, 40 * second}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("quiet %v, want %v", got, want)
	}
}

func TestRequests(t *testing.T) {
	c := &load.Client{Tenant: "a", Name: "b"}
	killed := []Fault{{Gateway: "gw1", From: 10 * second, To: 12 * second, Grace: Grace{Fails: true, Blocks: true}}}
	for name, r := range map[string]struct {
		record          load.Record
		failed, blocked bool
	}{
		"fine":       {load.Record{Gateway: "gw1", Sent: second, Status: 200}, false, false},
		"under way":  {load.Record{Gateway: "gw1", Sent: 9 * second, Took: second, Err: "EOF"}, false, false},
		"before":     {load.Record{Gateway: "gw1", Sent: 8 * second, Took: second, Err: "EOF"}, true, false},
		"at another": {load.Record{Gateway: "gw2", Sent: 9 * second, Took: 5 * second, Err: "EOF"}, true, true},
		"slow":       {load.Record{Gateway: "gw1", Sent: 2 * second, Took: 5 * second, Status: 200}, false, true},
		"slow in the span": {load.Record{Gateway: "gw1", Sent: 9 * second, Took: 5 * second, Status: 200}, false,
			false},
	} {
		r.record.Client = c
		all := []load.Record{r.record}
		if got := len(Failed(all, killed)) > 0; got != r.failed {
			t.Errorf("%s: failed %v", name, got)
		}
		if got := len(Blocked(all, killed, nil, 3*second)) > 0; got != r.blocked {
			t.Errorf("%s: blocked %v", name, got)
		}
	}
}

func TestEntitled(t *testing.T) {
	heavy, light := &load.Client{Tenant: "heavy", Name: "h"}, &load.Client{Tenant: "light", Name: "l"}
	var records []load.Record
	add := func(c *load.Client, offered, admitted int) {
		for i := range 10 * offered {
			r := load.Record{Client: c, Sent: time.Duration(i) * 10 * second / time.Duration(10*offered)}
			if i%offered < admitted {
				r.Arrived = r.Sent + time.Millisecond
			}
			records = append(records, r)
		}
	}
	add(heavy, 40, 20) // of 30 that are due to it
	add(light, 10, 10)
	got := Entitled(records, []Span{{0, 10 * second}}, nil, 40,
		[]Tenant{{Name: "heavy", Weight: 1, Most: 0}, {Name: "light", Weight: 1, Most: 0}},
		func(*load.Client) float64 { return 0 })
	if got[0].Due != 30 || got[0].Pass || got[1].Due != 10 || !got[1].Pass {
		t.Errorf("%+v", got)
	}
	if due := shares(40, []Tenant{{Name: "heavy", Weight: 1, Most: 15}, {Name: "light", Weight: 1, Most: 0}},
		map[string]float64{"heavy": 40, "light": 100}); due["heavy"] != 15 || due["light"] != 25 {
		t.Errorf("%v", due)
	}
}

func TestInFlight(t *testing.T) {
	stay := func(from, to time.Duration) load.Stay { return load.Stay{From: from, To: to} }
	stays := []load.Stay{stay(0, 5*second), stay(second, 3*second), stay(3*second, 6*second), stay(4*second, 9*second)}
	cut := []Fault{{From: 3 * second, To: 5 * second, Grace: Grace{Sides: true}}}
	for _, c := range []struct {
		limit  int
		faults []Fault
		found  int
	}{{3, nil, 0}, {2, nil, 1}, {2, cut, 0}, {1, cut, 2}} {
		most, found := InFlight(stays, c.limit, c.faults)
		if most != 3 || len(found) != c.found {
			t.Errorf("limit %d: most %d, %v", c.limit, most, found)
		}
	}
}
