package process

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/judge"
)

// Rates of the traffic that goes on while something is broken: one client that
// no limit concerns, one at twice its limit, one tenant beyond its quota's max.
const (
	fedRate      = 40
	thirtyOffer  = 60
	thirtyRate   = 30
	thirtyBurst  = 30
	cappedOffer  = 90
	cappedMax    = 60
	longestStage = 120 // s; a stage ends with its test long before
)

func stage() *scenario.Scenario {
	one := func(name string, rate float64, limit *scenario.Limit) []scenario.Client {
		return []scenario.Client{{Name: name, Process: scenario.Constant, Rates: []float64{rate}, Limit: limit}}
	}
	return &scenario.Scenario{
		Version:  scenario.Version,
		Seed:     1,
		Pool:     scenario.Pool{Name: "api", Capacity: 400},
		Gateways: []scenario.Gateway{{Name: "gw-1", Weight: 2}, {Name: "gw-2", Weight: 1}},
		Tenants: []scenario.Tenant{
			{Name: "fed", Weight: 4, Clients: append(one("unlimited", fedRate, nil),
				one("thirty", thirtyOffer, &scenario.Limit{Rate: thirtyRate, Burst: thirtyBurst})...)},
			{Name: "capped", Weight: 1, Clients: one("any", cappedOffer, nil)},
		},
		Phases: []scenario.Phase{{Name: "all", Start: 0, End: longestStage}},
	}
}

// traffic is load that runs during a test.
type traffic struct {
	began time.Time
	stop  context.CancelFunc
	done  chan []trace.Record
}

// begin starts the traffic and returns after a second, so that the next fault hits a system under load.
func (w *system) begin(t *testing.T) *traffic {
	t.Helper()
	s := stage()
	plan := load.NewPlan(s)
	ctx, stop := context.WithCancel(t.Context())
	r := &traffic{began: time.Now(), stop: stop, done: make(chan []trace.Record, 1)}
	go func() {
		records, _ := (&load.Generator{URLs: w.fronts, Timeout: patience}).Run(ctx, s, plan, r.began)
		r.done <- records
	}()
	t.Cleanup(stop)
	r.pass(t, 1)
	return r
}

// pass lets traffic flow for some seconds. It is the one thing here that takes
// the time it takes.
func (r *traffic) pass(t *testing.T, seconds float64) {
	t.Helper()
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case records := <-r.done:
		t.Fatalf("the traffic ended by itself after %d requests", len(records))
	}
}

// figures of a stage.
type figures struct {
	seconds                  float64
	requests, failed, thirty int
	fed, fedRefused          float64 // requests of the unlimited client
	thirtyExcess             float64 // most over rate·t + burst in any window
	cappedExcess             float64 // the same of the tenant over max·t
	first                    string  // failure
	refused                  string  // the last refusal of the unlimited client
	late                     float64 // longest delay of a request behind its time, s
}

// allowance has the numbers of requests that are allowed beyond the bounds. more is for the limited client
// beyond its due rate where the gateways could not count for each other, less is below it. capped is for the
// capped tenant, refused for the unlimited client. A stage with a request that was later than void, in seconds,
// is not judged; 0 judges all.
type allowance struct{ more, less, capped, refused, void float64 }

// end stops the traffic and checks the invariants that hold after any fault. No request failed, the unlimited
// client always passed, no client got more than its limits in any window.
func (r *traffic) end(t *testing.T, a allowance) {
	t.Helper()
	r.stop()
	records := <-r.done
	f := figures{seconds: time.Since(r.began).Seconds()}
	admitted := map[string][]float64{}
	for i := range records {
		x := &records[i]
		if x.Error == trace.Aborted {
			continue // in flight when the stage ended
		}
		f.requests++
		f.late = max(f.late, x.Late)
		if x.Failed() {
			f.failed++
			f.first = x.Error + " " + time.Duration(x.T*1e9).String() + " at " + x.Gateway + " for " + x.Tenant
		}
		if x.Admitted() {
			admitted[x.Client] = append(admitted[x.Client], x.AdmittedAt())
		}
		if x.Client == "unlimited" {
			f.fed++
			if !x.Admitted() {
				f.fedRefused++
				f.refused = fmt.Sprintf("%s after %.1f s at %s", x.Reason, x.T, x.Gateway)
			}
		}
	}
	f.thirty = len(admitted["thirty"])
	f.thirtyExcess = excess(admitted["thirty"], thirtyRate, thirtyBurst)
	f.cappedExcess = excess(admitted["any"], cappedMax, 0)
	t.Logf("%.1f s, %d requests: %d failed, unlimited client %.0f of %.0f refused, limited client %d admitted, %.2f over "+
		"its rate·t + burst; capped tenant %d admitted, %.2f over max·t",
		f.seconds, f.requests, f.failed, f.fedRefused, f.fed, f.thirty, f.thirtyExcess, len(admitted["any"]), f.cappedExcess)
	if a.void > 0 && f.late > a.void {
		t.Skipf("void: a request was %.2f s late; the machine is too busy to say anything", f.late)
	}
	f.judge(t, a)
}

// Slack over the exact limits in this installation, requests. For the client it is the bound of
// docs/guarantees.md, without the part of a cold start. The gateways receive each other's use long before the
// client's burst is spent. For the tenant it has the immediate parts of all flows at both gateways, and a
// bucket there of 5 % of the share. Together they stay within half a second of its max.
const (
	gossipDelay = 10 * time.Millisecond // what loopback and scheduling take at most
	cappedSlack = .5 * cappedMax
)

func thirtySlack() float64 {
	slack, _ := judge.Limit{Rate: thirtyRate, Burst: thirtyBurst}.Slack(gateways, judge.Lag(gateways, gossipDelay, false))
	return slack
}

func (f *figures) judge(t *testing.T, a allowance) {
	t.Helper()
	if f.failed > 0 {
		t.Errorf("%d of %d requests failed, the last: %s", f.failed, f.requests, f.first)
	}
	if f.fedRefused > a.refused {
		t.Errorf("%.0f of %.0f requests were refused of a client that nothing limits, at most %.0f may be; the last one: %s",
			f.fedRefused, f.fed, a.refused, f.refused)
	}
	if slack := thirtySlack() + a.more; f.thirtyExcess > slack {
		t.Errorf("a client with a limit of its own got %.2f over rate·t + burst, at most %.2f may be", f.thirtyExcess,
			slack)
	}
	if slack := cappedSlack + a.capped; f.cappedExcess > slack {
		t.Errorf("a tenant with a max got %.2f over max·t, at most %.2f may be", f.cappedExcess, slack)
	}
	if least := .9*thirtyRate*f.seconds - 2 - a.less; float64(f.thirty) < least {
		t.Errorf("a client at twice its limit got %d requests in %.1f s, at least %.0f are due", f.thirty, f.seconds,
			least)
	}
}

// excess is the most by which the number of events in any window [s, t] exceeds rate·(t−s)
// + burst, counting both ends. A bucket that is full at s gives 0.
func excess(times []float64, rate, burst float64) float64 {
	slices.Sort(times)
	worst, level := math.Inf(-1), 0.0 // level: most over rate·t of the windows that end here
	for i, at := range times {
		if i > 0 {
			level = max(0, level-rate*(at-times[i-1]))
		}
		level++
		worst = max(worst, level-burst)
	}
	return worst
}
