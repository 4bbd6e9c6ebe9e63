package process

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
)

// What the slow upstream can serve, requests/s, at ten at a time; what is offered.
const (
	slowCapacity = 200
	slowService  = "50ms"
	goldOffer    = 300
	silverOffer  = 200
)

// upstreamOfUnknownCapacity: the upstream serves a third of the example document's initial capacity, and the
// load is far above. Shares must come down to the served rate, 3:1 for gold and silver, and requests must not
// wait there for long.
func (w *system) upstreamOfUnknownCapacity(t *testing.T) {
	w.swapUpstream("--capacity", strconv.Itoa(slowCapacity), "--service-time", slowService, "--queue", "400")
	defer func() {
		w.swapUpstream("--capacity", "2000", "--service-time", "5ms", "--queue", "2000")
		w.apply(documents)
		w.inForce(t, patience)
		// A flow that becomes active just after other demand has ended has a small share at first.
		eventually(t, "the coordinator forgets the load", patience, func() string {
			if _, out, _ := w.bin.run(t, "", "get", "pools/api", "--server", w.API(), "-o", "yaml"); strings.Contains(out,
				"demand:") {
				return out
			}
			return ""
		})
	}()
	text, err := os.ReadFile("../../deploy/adaptive.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.apply(string(text))
	w.inForce(t, patience)
	r := w.offer(t, "gold", goldOffer, "silver", silverOffer)
	eventually(t, "the shares follow the upstream", patience, func() string {
		if c := w.capacity(t); c < .6*slowCapacity || c > 1.3*slowCapacity {
			return fmt.Sprintf("capacity %.0f of %d", c, slowCapacity)
		}
		return ""
	})
	r.pass(t, 9) // the first look at an upstream without a backlog is over
	from := time.Since(r.began).Seconds()
	const windows, long = 3, 6 // s; other work of the machine may spoil one of them
	r.pass(t, windows*long+2)
	r.stop()
	records := <-r.done
	var wrong []string
	for n := range windows {
		begin := from + float64(n*long)
		complaint := slowShares(t, records, begin, begin+long)
		if complaint == "" {
			return
		}
		wrong = append(wrong, complaint)
	}
	t.Errorf("in none of %d windows of %d s was the upstream shared well: %s", windows, long, strings.Join(wrong, "; "))
}

// slowShares says what was wrong with the shares of the slow upstream between two
// moments of a load, s.
func slowShares(t *testing.T, records []trace.Record, from, until float64) string {
	admitted, stays, turned := map[string]float64{}, []float64{}, 0
	for i := range records {
		x := &records[i]
		if x.T < from || x.T > until {
			continue
		}
		if x.Status == 503 {
			turned++
		}
		if x.Status == 200 {
			admitted[x.Tenant]++
			stays = append(stays, x.Latency-(x.AdmittedAt()-x.T))
		}
	}
	if len(stays) == 0 {
		return "nothing was served"
	}
	gold, silver := admitted["gold"]/(until-from), admitted["silver"]/(until-from)
	slices.Sort(stays)
	median, late := stays[len(stays)/2], stays[len(stays)*99/100]
	t.Logf("of %d/s: gold %.0f/s, silver %.0f/s; at the upstream %.0f ms, 99 %% within %.0f ms; %d turned away there",
		slowCapacity, gold, silver, 1e3*median, 1e3*late, turned)
	if sum := gold + silver; sum < .8*slowCapacity || sum > 1.05*slowCapacity {
		return fmt.Sprintf("%.0f/s served of %d/s", sum, slowCapacity)
	}
	if ratio := gold / silver; ratio < 2.4 || ratio > 3.6 {
		return fmt.Sprintf("gold got %.2f times of silver, 3 is fair", ratio)
	}
	if turned > 0 || late > 1 {
		return fmt.Sprintf("%d requests turned away by the upstream, 1 %% stayed there for more than %.0f ms", turned, 1e3*late)
	}
	return ""
}

// swapUpstream replaces the upstream by one of another capacity.
func (w *system) swapUpstream(args ...string) {
	w.t.Helper()
	w.Upstream.Kill()
	listen := slices.Index(w.Upstream.Args, "--listen")
	w.Upstream.Args = slices.Concat(w.Upstream.Args[:1], w.Upstream.Args[listen:listen+2], args)
	w.Upstream.Name = "upstream " + args[1]
	w.start(w.Upstream)
}

var capacityShown = regexp.MustCompile(`(?m)^status:(?:\n +.*)*?\n +capacity: ([0-9.e+]+)`)

// capacity returns the capacity shared now, as users see it.
func (w *system) capacity(t *testing.T) float64 {
	t.Helper()
	status, out, complaint := w.bin.run(t, "", "get", "pools/api", "--server", w.API(), "-o", "yaml")
	found := capacityShown.FindStringSubmatch(out)
	if status != 0 || found == nil {
		t.Fatalf("titrate get pools/api: exit status %d, %s, no capacity in its status:\n%s", status, complaint, out)
	}
	v, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// offer starts a load of two tenants, evenly on both gateways.
func (w *system) offer(t *testing.T, a string, rateA float64, b string, rateB float64) *traffic {
	t.Helper()
	one := func(name string, rate float64) scenario.Tenant {
		return scenario.Tenant{Name: name, Weight: 1,
			Clients: []scenario.Client{{Name: name, Process: scenario.Constant, Rates: []float64{rate}}}}
	}
	s := stage()
	s.Tenants = []scenario.Tenant{one(a, rateA), one(b, rateB)}
	s.Gateways = []scenario.Gateway{{Name: "gw-1", Weight: 1}, {Name: "gw-2", Weight: 1}}
	ctx, stop := context.WithCancel(t.Context())
	r := &traffic{began: time.Now(), stop: stop, done: make(chan []trace.Record, 1)}
	go func() {
		records, _ := (&load.Generator{URLs: w.fronts, Timeout: patience}).Run(ctx, s, load.NewPlan(s), r.began)
		r.done <- records
	}()
	t.Cleanup(stop)
	return r
}
