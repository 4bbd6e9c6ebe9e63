package limiter

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
)

// The time that a refusal states is the time after which a request is admitted. A client that waits for it and
// asks once is admitted, and a client that asks noticeably earlier is refused. Meanwhile nobody else asks.

// retryCase is a limit in use, and how far off the said time may be.
type retryCase struct {
	limit    config.Limit
	gateways int
	paced    bool // the pacer of several gateways decides
	// late and early are by how much a request may be admitted later and earlier than said.
	late, early func(said int64) int64
}

const retryLag = 90 * ms // of the cluster

func drawRetryCase(t *rapid.T) *retryCase {
	c := &retryCase{gateways: rapid.SampledFrom([]int{1, 2, 3, 10}).Draw(t, "gateways")}
	c.limit = drawRetryLimit(t, "first")
	c.limit.Strict = rapid.Bool().Draw(t, "strict")
	return c
}

func drawRetryLimit(t *rapid.T, name string) config.Limit {
	return config.Limit{Name: "l", Precision: config.Local,
		Rate:  rapid.SampledFrom([]float64{2. / 86400, 96. / 86400, 10. / 60, 1, 5, 100}).Draw(t, name+" rate"),
		Burst: rapid.SampledFrom([]float64{1, 2, 10, 96}).Draw(t, name+" burst")}
}

// tolerate sets how exact the time is. It is exact with one gateway, and where the burst is so large that the
// pacer does not decide, but for two lags in which others may be saturated. Otherwise it may be late by one lag,
// in which news of others comes, and early by a tenth, once claims have faded.
func (c *retryCase) tolerate() {
	c.paced = c.gateways > 1 && (c.limit.Strict || c.limit.Burst < 3+c.limit.Rate*float64(retryLag)*1e-9)
	c.late = func(int64) int64 { return ms }
	switch {
	case c.gateways == 1:
		c.early = func(int64) int64 { return 2 * ms }
	case !c.paced:
		c.early = func(int64) int64 { return 2*retryLag + 2*ms }
	default:
		c.late = func(said int64) int64 { return retryLag + said/50 }
		c.early = func(said int64) int64 {
			const fade = 9 * sec
			if early := said/10 + fade; said-early > fade {
				return early
			}
			return said
		}
	}
}

// let lets time pass in which nobody asks: step by step while claims fade, then faster.
func (c *cluster) let(until int64) {
	until = (until + ms - 1) / ms * ms // the cluster's clock
	c.run(time.Duration(max(0, min(until-c.now, 15*sec))))
	delay := c.delay
	for c.delay = 0; c.now < until; {
		c.now = min(until, c.now+max((until-c.now)/4/ms*ms, sec))
		for i := range c.engines {
			c.publish(i)
		}
		c.deliver()
		for i := range c.engines {
			c.sendSums(i)
		}
	}
	c.delay = delay
}

func TestRetryAfterIsWhenARequestPasses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		use := drawRetryCase(rt)
		c := newCluster(t, use.gateways, simple(1e9, config.Queue{}, use.limit), Options{})
		r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
		all := rapid.Bool().Draw(rt, "all are asked")
		spend := func() {
			for i, e := range c.engines {
				for (all || i == 0) && e.Decide(c.now, &r).Verdict == Admit {
				}
			}
			c.run(300 * time.Millisecond)
		}
		c.run(time.Second)
		spend()
		if rapid.Bool().Draw(rt, "changed") {
			strict := use.limit.Strict
			use.limit = drawRetryLimit(rt, "then")
			use.limit.Strict = strict
			for _, e := range c.engines {
				mustApply(t, e, simple(1e9, config.Queue{}, use.limit))
			}
			c.run(300 * time.Millisecond)
			spend()
		}
		for range rapid.IntRange(0, 20).Draw(rt, "more") { // which are refused
			for i, e := range c.engines {
				if out, _ := e.Peek(c.now, &r); out.Verdict == Reject && (all || i == 0) {
					e.Decide(c.now, &r)
				}
			}
			c.run(50 * time.Millisecond)
		}
		e := c.engines[rapid.IntRange(0, use.gateways-1).Draw(rt, "at")]
		if out, _ := e.Peek(c.now, &r); out.Verdict == Admit {
			return
		}
		use.tolerate()
		from, said := c.now, int64(e.Decide(c.now, &r).RetryAfter)
		if use.paced && said > 14*sec { // let would skip times in which agents forget each other
			return
		}
		if early := from + said - use.early(said); early > from {
			c.let(early)
		}
		if out, _ := e.Peek(c.now, &r); out.Verdict != Reject {
			rt.Errorf("%+v at %d gateways: admitted after %v, said %v", use.limit, use.gateways,
				time.Duration(c.now-from), time.Duration(said))
		}
		c.let(from + said + use.late(said))
		if out := e.Decide(c.now, &r); out.Verdict != Admit {
			rt.Errorf("%+v at %d gateways: refused after %v, said %v; wait for %v more", use.limit, use.gateways,
				time.Duration(c.now-from), time.Duration(said), out.RetryAfter)
		}
	})
}

// Others are refused, too: the whole burst was spent at one gateway, and all gateways go on asking.
func TestRetryAfterWhileOthersAreRefused(t *testing.T) {
	for _, n := range []int{1, 2, 4, 10} {
		c := newCluster(t, n, simple(1e9, config.Queue{},
			config.Limit{Name: "l", Rate: 4. / 86400, Burst: 4, Precision: config.Local}), Options{})
		c.run(time.Second)
		r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
		for range 4 {
			c.engines[0].Decide(c.now, &r)
		}
		c.run(200 * time.Millisecond)
		for range 20 {
			c.run(100 * time.Millisecond)
			for i, e := range c.engines {
				if out := e.Decide(c.now, &r); out.Verdict != Reject || out.RetryAfter > 21600*time.Second ||
					out.RetryAfter < 21595*time.Second {
					t.Errorf("%d gateways: %v at gateway %d: %v, want 21,600 s", n, out.Verdict, i, out.RetryAfter)
				}
			}
		}
	}
}

func TestRetryAfterOfExactLimits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		use := drawRetryCase(rt)
		limited := func() *config.Config {
			use.limit.Precision = config.Exact
			return simple(1e9, config.Queue{}, use.limit)
		}
		f := newExactFleet(t, use.gateways, limited())
		now := sec
		ask := func(i int) (out Outcome) {
			f.events = nil
			f.gossip(now, false)
			out, _ = f.ask(i, now, Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}, 9)
			for end := now + sec; out.Verdict == Wait && now < end; now += ms { // an owner may be asked again
				if f.settle(now); len(f.events) > 0 {
					out = f.events[0].Outcome
					break
				}
				f.events = f.engines[i].Tick(now, f.events)
			}
			f.settle(now)
			return out
		}
		spend := func() {
			f.gossip(now, false)
			for i := range use.gateways {
				for ask(i).Verdict == Admit {
				}
			}
		}
		spend()
		if rapid.Bool().Draw(rt, "changed") {
			now += ms
			use.limit = drawRetryLimit(rt, "then")
			f.replace(now, limited())
			spend()
		}
		i := rapid.IntRange(0, use.gateways-1).Draw(rt, "at")
		said := int64(ask(i).RetryAfter)
		early := min(said, said/1000+100*ms)
		if now += said - early; early < said && ask(i).Verdict != Reject {
			rt.Errorf("%+v at %d gateways: admitted before %v", use.limit, use.gateways, time.Duration(said))
		}
		now += early + early
		if out := ask(i); out.Verdict != Admit {
			rt.Errorf("%+v at %d gateways: %v after %v, wait for %v", use.limit, use.gateways, out.Verdict,
				time.Duration(said), out.RetryAfter)
		}
	})
}
