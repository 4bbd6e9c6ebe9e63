package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// stopped is a gateway whose process stands still, as by SIGSTOP. Its agent goes on.
type stopped struct {
	since  int64
	unread []*exchange.Sums // that its agent sends meanwhile
}

// stop stops a gateway.
func (c *cluster) stop(i int) { c.stopped[i] = &stopped{since: c.now} }

// deadAfter is the time without a message after which an agent gives the link to a gateway up.
const deadAfter = 3 * time.Second

// resume lets it go on. first says what happens first in its process. It finds that its agent has sent nothing for
// long, and then claims or decides a request. Or it reads what the kernel has kept until the agent gave the link up.
// Or the next is what the agent sends on a new link.
func (c *cluster) resume(i int, first string) {
	st, e := c.stopped[i], c.engines[i]
	delete(c.stopped, i)
	switch first {
	case "its timer", "a request":
		var last exchange.Estimator
		last.Set(st.since, st.unread[0])
		if since, isolation, silent := last.Silent(c.now, true, true); silent {
			e.GoOn(since, isolation)
		}
		if first == "its timer" {
			c.publish(i)
		}
	case "old sums":
		for _, s := range st.unread[:min(len(st.unread), int(deadAfter/exchange.DefaultPeriod))] {
			e.SetSums(c.now, s)
		}
		c.publish(i)
	}
}

// A gateway stands still, and goes on. It refuses nothing of a client below its limit that used the others meanwhile,
// and a client above the limit gets no more than without.
func TestAStoppedGatewayGoesOn(t *testing.T) {
	for _, first := range []string{"its timer", "a request", "a new link", "old sums"} {
		for _, d := range []time.Duration{600 * time.Millisecond, 2 * time.Second, 8 * time.Second, 20 * time.Second} {
			for _, l := range []config.Limit{{Rate: 5, Burst: 10}, {Rate: 10, Burst: 10}, {Rate: 60, Burst: 60}} {
				for _, k := range []int{2, 3, 5} {
					playStop(t, fmt.Sprintf("after %v, first %s, limit %v/s %v, %d gateways", d, first, l.Rate, l.Burst, k),
						k, l, d, first)
				}
			}
		}
	}
}

func playStop(t *testing.T, what string, k int, l config.Limit, d time.Duration, first string) {
	l.Name = "l"
	cl := newCluster(t, k, simple(1e6, config.Queue{}, l), Options{})
	cl.rng, cl.delay = rand.New(rand.NewPCG(uint64(d), 1)), 2*ms
	for i := range k {
		cl.agents[i].keys = claims.New(claims.Params{Stale: .25, Forget: 15})
	}
	client := func(name string, part float64) *source {
		n := 0
		s := cl.source("a", name, "api", constant(part*l.Rate), func(float64) int {
			for n++; cl.stopped[n%k] != nil; n++ {
			}
			return n % k
		})
		s.steady = true
		return s
	}
	below, above := client("below", .8), client("above", 3)
	cl.run(5 * time.Second)
	cl.stop(0)
	cl.run(d)
	on := cl.now
	cl.resume(0, first)
	cl.run(10 * time.Second)
	if got := cl.tally(on, cl.now, of(below)); got.rejected > 0 {
		t.Errorf("%s: %d of %d requests of a client below its limit are refused", what, got.rejected, got.offered)
	}
	got := cl.tally(on, cl.now, of(above))
	if got.rate < .95*l.Rate || got.rate > 1.05*l.Rate+float64(k)/10 {
		t.Errorf("%s: %.1f/s of a client above its limit are admitted", what, got.rate)
	}
}
