package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// series is a run of two minutes whose one process grows by that much per minute
// after a steep start, with noise on top.
func series(mibPerMinute, goroutinesPerMinute float64) (all []sample) {
	for i := range 120 {
		at := time.Duration(i) * time.Second
		grown := min(at.Seconds(), 30) + math.Sin(float64(i))*2
		all = append(all, sample{at: at, processes: []process{{
			name: "envoy", most: mostEnvoy, bytes: (50 + grown + mibPerMinute*at.Minutes()) * mib,
			goroutines: 9 + goroutinesPerMinute*at.Minutes(),
		}}})
	}
	return all
}

func TestVerdict(t *testing.T) {
	good := tally{Answered: 10}
	for name, c := range map[string]struct {
		samples []sample
		tally   tally
		left    left
		panics  float64
		fails   string
	}{
		"flat":             {samples: series(0, 0), tally: good},
		"a little":         {samples: series(1, .5), tally: good},
		"memory":           {samples: series(20, 0), tally: good, fails: "envoy: memory"},
		"goroutines":       {samples: series(0, 5), tally: good, fails: "envoy: goroutines"},
		"a failed request": {samples: series(0, 0), tally: tally{Answered: 10, Failed: 1}, fails: "failed requests"},
		"a panic":          {samples: series(0, 0), tally: good, panics: 1, fails: "panics recovered"},
		"held":             {samples: series(0, 0), tally: good, left: left{Held: 1}, fails: "held after the load"},
		"in flight": {samples: series(0, 0), tally: good, left: left{Active: 1},
			fails: "in flight after the load"},
	} {
		c.samples[len(c.samples)-1].panics = c.panics
		v := judge(c.samples, 0, c.tally, faults{}, c.left, 40*time.Second)
		var failed []string
		for _, x := range v.Checks {
			if !x.Pass {
				failed = append(failed, x.Name)
			}
		}
		if got := strings.Join(failed, ", "); got != c.fails || v.Pass != (c.fails == "") {
			t.Errorf("%s: failed %q, pass %v; want %q", name, got, v.Pass, c.fails)
		}
	}
	late := series(20, 0)
	for i := range late {
		late[i].processes[0].grown = 110 * time.Second
	}
	if v := judge(late, 0, good, faults{}, left{}, 40*time.Second); !v.Pass || v.Checks[0].Name == "envoy: memory" {
		t.Errorf("what has its size only at the end is judged: %+v", v)
	}
	if judge(series(0, 0), 0, tally{}, faults{}, left{}, 0).Pass {
		t.Error("nothing answered passes")
	}
}

func TestWrite(t *testing.T) {
	v := judge(series(20, 0), 0, tally{Answered: 10, Failed: 1, Failure: "status 503"}, faults{Reloads: 3}, left{},
		40*time.Second)
	var table, doc bytes.Buffer
	if err := v.write(&table, "table"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"envoy: memory", "3 reloads", "status 503", "\nFAIL\n"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	var back verdict
	if err := v.write(&doc, "json"); err != nil || json.Unmarshal(doc.Bytes(), &back) != nil || back.Load != v.Load ||
		len(back.Checks) != len(v.Checks) {
		t.Errorf("%v: %s", err, doc.String())
	}
}
