package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// cutOff is a gateway that receives nothing of the others any more: its agent is dead, or it lives and is
// cut off. The others have claimed something of one key.
type cutOff struct {
	*Engine
	agent         bool // it lives
	weight, total float64
	claims        float64 // of the others, cost units/s
	spent         float64 // at the others, as last received
	now           int64
}

const cutAt = 10 * sec

// cutOffGateway is one with a limit of a rate and as much burst, that it shares with two others.
func cutOffGateway(t *testing.T, l config.Limit, weight, total, claims float64, agent bool) *cutOff {
	c := &cutOff{Engine: New(Options{Keys: 1024}), agent: agent, weight: weight, total: total, claims: claims, now: cutAt}
	l.Name = "l"
	mustApply(t, c.Engine, simple(1e9, config.Queue{}, l))
	c.tell(exchange.Connected, 0)
	return c
}

// tell makes the agent send the sums of the others, who have admitted so much since the cut.
func (c *cutOff) tell(is exchange.Isolation, more float64) {
	c.SetSums(c.now, &exchange.Sums{Replicas: 3, Weight: c.weight, TotalWeight: c.total, Lag: 125 * time.Millisecond,
		Isolation: is, Keys: []exchange.KeySum{{Key: hash.Limit(7, "a", "l", "x"), Claims: c.claims, Unsaturated: c.claims,
			Admitted: 1000 + more, Spent: c.spent, Epoch: 1}}})
}

// run lets time pass until a time after the cut. The client asks evenly; run returns how many of
// its requests passed, and how many were refused.
func (c *cutOff) run(until time.Duration, rate float64) (passed, refused int) {
	at := float64(c.now)
	for ; c.now < cutAt+int64(until); c.now += ms {
		after := time.Duration(c.now - cutAt)
		if c.now%(50*ms) == 0 {
			is := exchange.Frozen
			switch {
			case after >= exchange.DefaultForgetAfter && !c.agent:
				is = exchange.Alone
			case after >= exchange.DefaultSplitAfter:
				is = exchange.Split
			}
			if c.agent {
				c.tell(is, c.claims*min(after, exchange.DefaultForgetAfter).Seconds())
			} else {
				c.GoOn(cutAt, is)
			}
			var out exchange.Claims
			c.Claims(c.now, &out)
		}
		for ; at <= float64(c.now); at += 1e9 / rate {
			if c.Decide(int64(at), &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}).Verdict == Admit {
				passed++
			} else {
				refused++
			}
		}
	}
	return passed, refused
}

// A client below its limit at all gateways is refused nothing at a gateway that is cut off. The
// condition is that this gateway uses no more than its part by weight.
func TestCutOffGatewayRefusesNothingOfItsPart(t *testing.T) {
	for _, agent := range []bool{false, true} {
		for _, precision := range []config.Precision{config.Local, config.Exact} {
			for _, rate := range []float64{5, 10, 100, 1000} {
				for _, weight := range []float64{1, 2, 4} { // of a total of 6
					l := config.Limit{Rate: rate, Burst: rate / 2, Precision: precision}
					own := .8 * rate * weight / 6
					c := cutOffGateway(t, l, weight, 6, .8*rate-own, agent)
					if _, refused := c.run(time.Minute, own); refused > 0 {
						t.Errorf("agent lives %v, %v, %g/s, weight %g of 6: %d of its requests were refused", agent, precision,
							rate, weight, refused)
					}
				}
			}
		}
	}
}

// The gateway has what the others left in their last sums, and its part by weight if that
// is more. STRICT has the former until T1, and both have the part from then on.
func TestCutOffGatewayKeepsToWhatOthersLeave(t *testing.T) {
	for _, agent := range []bool{false, true} {
		for _, strict := range []bool{false, true} {
			for _, part := range []float64{0, .25, .5, .9, 1} {
				const rate, burst, wants = 100., 50., 400.
				c := cutOffGateway(t, config.Limit{Rate: rate, Burst: burst, Strict: strict}, 1, 4, part*rate, agent)
				what := fmt.Sprintf("agent lives %v, STRICT %v, the others claim %g", agent, strict, c.claims)
				left := rate - c.claims
				if !strict {
					left = max(left, rate/4)
				}
				bound := func(phase string, until time.Duration, rate, burst float64) {
					seconds := (until - time.Duration(c.now-cutAt)).Seconds()
					if n, _ := c.run(until, wants); float64(n) > rate*seconds+burst+1 || float64(n) < .85*rate*seconds {
						t.Errorf("%s, %s: %d in %g s, want %g/s and %g", what, phase, n, seconds, rate, burst)
					}
				}
				slack := 3 + rate*.125 // the room of the ledger's pacer
				bound("before T1", exchange.DefaultSplitAfter-50*time.Millisecond, left, burst+slack)
				bound("after T1", time.Minute, rate/4, burst/4+1)
			}
		}
	}
}

// When the others are reachable again the key has what is left of one bucket.
func TestCutOffGatewayIsBack(t *testing.T) {
	for _, agent := range []bool{false, true} {
		c := cutOffGateway(t, config.Limit{Rate: 10, Burst: 10}, 1, 3, 5, agent)
		if _, refused := c.run(40*time.Second, 3); refused > 0 {
			t.Errorf("agent lives %v: %d refused while it is cut off", agent, refused)
		}
		counted := 40.
		if agent { // until T2: beyond it the others' own ledgers have repaid what they admitted
			counted = exchange.DefaultForgetAfter.Seconds()
		}
		c.tell(exchange.Connected, 5*counted)
		if left := c.Explain(c.now, &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}).Limits[0]; left.Free < 8 {
			t.Errorf("agent lives %v: %.1f of 10 left when the others are heard again", agent, left.Free)
		}
	}
}
