package rlqs

import (
	"testing"
	"time"
)

// reports is the time of two reports, and a moment.
const reports = 11 * time.Second

// Loads come at random times: bounds are four standard deviations of their numbers away, or more. The bound of
// the sum is a promise of docs/how-to/rate-limit-quota.md.

// limit is the rate of each client, requests/s, and its burst. The sum of shares is at most over times the limit.
const limit, over = 100, 1.06

// most returns the promised bound of the sum over a time, requests/s.
func most(during time.Duration) float64 { return over*limit + limit/during.Seconds() }

// TestLoads gives three Envoys at two agents other loads, and a lower limit.
func TestLoads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1)
	w.run()

	w.loads(90, 45, 15)
	time.Sleep(3 * reports)
	each, sum := w.rates(30 * time.Second)
	t.Logf("steady: %.1f", each)
	w.between("steady, all", sum, 94, most(30*time.Second))
	w.between("the Envoy that asks for least", each[2], 12, 18)
	w.between("the first of the others", each[0], 36, 52)

	w.loads(15, 45, 90)
	time.Sleep(reports)
	each, sum = w.rates(20 * time.Second)
	t.Logf("after a shift: %.1f", each)
	w.between("two reports after a shift, all", sum, 90, most(20*time.Second))
	w.between("the Envoy that asks for most", each[2], 42, 58)

	w.loads(80, 80, 80)
	time.Sleep(2 * reports)
	w.must(w.in.Apply(t.Context(),
		"{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/acme/limits/each, spec: {rate: 40/s, burst: 40}}"))
	time.Sleep(2 * time.Second)
	_, sum = w.rates(8 * time.Second)
	w.between("two seconds after a lower limit, all", sum, 30, 50)
}

// TestRestart kills an Envoy of three at two agents, and starts it again.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1)
	w.run()
	w.loads(45, 45, 45)
	time.Sleep(3 * reports)
	w.envoys[0].Kill()
	time.Sleep(reports)
	each, sum := w.rates(15 * time.Second)
	t.Logf("one killed: %.1f", each)
	w.between("two Envoys after the third was killed, all", sum, 80, 100)
	w.must(w.envoys[0].Start(t.Context()))
	time.Sleep(2 * reports)
	each, sum = w.rates(20 * time.Second)
	t.Logf("back: %.1f", each)
	w.between("three again, all", sum, 94, most(20*time.Second))
}

// TestExpiry kills the only agent: assignments expire without a stall, and Envoys have new ones when it is back.
func TestExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.run()
	w.loads(80, 80)
	time.Sleep(2 * reports)
	_, sum := w.rates(10 * time.Second)
	w.between("with the agent, all", sum, 92, most(10*time.Second))
	w.agents[0].Kill()
	_, sum = w.rates(10 * time.Second)
	w.between("without it, all", sum, 92, most(10*time.Second))
	_, _ = w.rates(25 * time.Second)
	for _, e := range w.envoys {
		if slowest := time.Duration(e.slowest.Load()); slowest > time.Second || e.failed.Load() > 0 {
			t.Errorf("%s: %v for a request while assignments expired, %d failed", e.Name, slowest, e.failed.Load())
		}
	}
	_, sum = w.rates(5 * time.Second)
	w.between("expired, all", sum, 135, 185)
	w.must(w.agents[0].Start(t.Context()))
	time.Sleep(2 * reports)
	_, sum = w.rates(15 * time.Second)
	w.between("with the agent again, all", sum, 90, most(15*time.Second))
}

// TestShare holds a tenant to its share of a pool, which no limit restricts.
func TestShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	shared := "shared"
	for _, e := range w.envoys {
		e.tenant.Store(&shared)
	}
	w.run()
	w.loads(80, 20)
	time.Sleep(3 * reports)
	each, sum := w.rates(30 * time.Second)
	t.Logf("%.1f", each)
	w.between("a share of 60/s, all", sum, 54, 63)
	w.between("the Envoy that asks for less", each[1], 16, 24)
}
