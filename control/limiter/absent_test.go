package limiter

import (
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// The part that a gateway that was cut off for long may still use is not given to the others.
// This holds for a flow that all claim, and for a flow that nobody else claims.
func TestAbsentKeepTheirPart(t *testing.T) {
	for name, sums := range map[string][]exchange.FlowSum{
		"claimed by another": {{Key: hash.Flow(7, "a", "api"), Claims: 100, Active: 1}},
		"claimed by nobody":  nil,
	} {
		e := New(Options{Keys: 1024})
		mustApply(t, e, simple(300, config.Queue{Law: config.Police}))
		e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: 300}}})
		e.SetSums(1, &exchange.Sums{Full: true, Replicas: 3, TotalWeight: 3, Weight: 1, Absent: 1, Lag: 50 * time.Millisecond,
			Flows: sums})
		admitted := 0.0
		var claims exchange.Claims
		for now := int64(1); now < 20e9; now += 1e6 {
			if out := e.Decide(now, &Request{Tenant: "a", Pool: "api"}); out.Verdict == Admit && now > 10e9 {
				admitted++
			}
			if now%5e6 == 1 {
				e.Tick(now, nil)
			}
			if now%50e6 == 1 {
				e.Claims(now, &claims)
			}
		}
		want := 200.0 // all but the absent third
		if sums != nil {
			want = 100
		}
		if rate := admitted / 10; math.Abs(rate-want) > .03*want {
			t.Errorf("%s: %.1f/s of 300, want %.0f", name, rate, want)
		}
	}
}
