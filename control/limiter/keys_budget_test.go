package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// trio is three engines that exchange their changes each period.
type trio struct {
	now     int64
	engines []*Engine
	latest  []map[uint64]exchange.KeyClaim
}

func newTrio(t testing.TB, o Options, l config.Limit) *trio {
	c := &trio{now: sec}
	for i := range 3 {
		o.Replica = fmt.Sprint("gateway-", i)
		e := New(o)
		mustApply(t, e, simple(1e12, config.Queue{}, l))
		e.SetSums(c.now, &exchange.Sums{Full: true, Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 125 * time.Millisecond})
		c.engines, c.latest = append(c.engines, e), append(c.latest, map[uint64]exchange.KeyClaim{})
	}
	return c
}

// ask makes one request and reports whether it was admitted.
func (c *trio) ask(gateway int, client string) bool {
	return c.engines[gateway].Decide(c.now, &Request{Tenant: "a", Client: client, Pool: "api",
		Cost: 1}).Verdict == Admit
}

// pass lets time pass, in periods; each is called in each of them.
func (c *trio) pass(d int64, each func()) {
	for end := c.now + d; c.now < end; {
		c.now += 50 * ms
		each()
		c.exchange()
	}
}

func (c *trio) exchange() {
	changed := map[uint64]bool{}
	for i, e := range c.engines {
		var cl exchange.Claims
		e.Claims(c.now, &cl)
		for _, k := range cl.Keys {
			c.latest[i][k.Key], changed[k.Key] = k, true
		}
		for _, k := range cl.Withdrawn {
			c.latest[i][k] = exchange.KeyClaim{Key: k, Admitted: c.latest[i][k].Admitted}
			changed[k] = true
		}
	}
	for i, e := range c.engines {
		s := &exchange.Sums{Full: true, Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 125 * time.Millisecond}
		for k := range changed {
			sum := exchange.KeySum{Key: k, Epoch: 1}
			for j := range c.engines {
				if x := c.latest[j][k]; j != i {
					sum.Admitted, sum.Claims, sum.Active = sum.Admitted+x.Admitted, sum.Claims+x.Claim,
						sum.Active+x.Active
					sum.Unsaturated, sum.Spent = sum.Unsaturated+x.Unsaturated, max(sum.Spent, x.Spent)
				}
			}
			s.Keys = append(s.Keys, sum)
		}
		e.SetSums(c.now, s)
	}
}

// Who invents names uses up the states of keys. A real client beyond them gets no more
// than its limit and a few requests over all gateways, whether the invented ones have
// asked once or have spent their bursts. Without names it gets its whole limit, and the
// invented ones cost nothing when they sleep.
func TestInventedNames(t *testing.T) {
	const burst, rate = 5., 5. / 3600
	for each, names := range map[int]int{0: 0, 1: 200_000, 5: 50_000} {
		t.Run(fmt.Sprint("requests each ", each), func(t *testing.T) {
			c := newTrio(t, Options{Keys: 250_000, Contended: 3000}, config.Limit{Name: "l", Rate: rate, Burst: burst})
			n := 0
			invent := func() {
				for range 500 * min(each, 1) {
					for range each {
						c.ask(n%3, fmt.Sprint("nobody-", n))
					}
					n++
				}
			}
			for n < names {
				c.pass(50*ms, invent)
			}
			start, admitted := c.now, 0
			c.pass(2*60*sec, func() {
				if n = n + 1; each > 0 {
					c.ask(n%3, fmt.Sprint("nobody-", n))
				}
				if c.now%sec == 0 {
					for g := range c.engines {
						if c.ask(g, "real") {
							admitted++
						}
					}
				}
			})
			seconds := float64(c.now-start) / 1e9
			if most := rate*seconds + burst + 3; float64(admitted) > most {
				t.Errorf("%d admitted of a real client in %.0f s, want %.1f at most", admitted, seconds, most)
			}
			if admitted < 3 {
				t.Errorf("%d admitted, want its part at each gateway", admitted)
			}
			c.bounded(t, each)
		})
	}
}

// bounded checks what the keys cost.
func (c *trio) bounded(t *testing.T, each int) {
	t.Helper()
	for i, e := range c.engines {
		var s Stats
		e.Stats(c.now, &s)
		if s.Contended > 3000 || e.keys.Stats().Own > 2250 {
			t.Errorf("gateway %d: %d states, %d of them by its own use, want 3000 and 2250 at most", i, s.Contended,
				e.keys.Stats().Own)
		}
		if (s.Unpromoted > 0) != (each > 0) {
			t.Errorf("gateway %d: %d requests beyond the states counted", i, s.Unpromoted)
		}
		var cl exchange.Claims
		for range 20 { // the state of the last client falls asleep
			c.now += 50 * ms
			cl.Reset()
			e.SetSums(c.now, &exchange.Sums{Full: true, Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 125 * time.Millisecond})
			e.Claims(c.now, &cl)
		}
		if n := len(cl.Keys); n > 3000/64+20 {
			t.Errorf("gateway %d: %d keys announced in a period in which nobody asks, want a 64th of them", i, n)
		}
	}
}

// A key that has spent much takes the state of a key that has spent little, whose count goes on
// from its spent part.
func TestTheLeastSpentMakesRoom(t *testing.T) {
	c := newTrio(t, Options{Keys: 4096, Contended: 32}, config.Limit{Name: "l", Rate: 10. / 3600, Burst: 10})
	for i := range 24 { // three quarters of 32
		for range 2 {
			c.ask(0, fmt.Sprint("light-", i))
		}
	}
	admitted := 0
	for range 20 {
		if c.ask(0, "heavy") {
			admitted++
		}
	}
	e := c.engines[0]
	if _, contended := e.key("heavy"); !contended || e.keys.Stats().Displaced == 0 {
		t.Errorf("the heavy client has no state: %d made room", e.keys.Stats().Displaced)
	}
	if admitted < 9 || admitted > 10 {
		t.Errorf("%d admitted of the heavy client, want its burst of 10", admitted)
	}
	without := 0
	for i := range 24 {
		name := fmt.Sprint("light-", i)
		if spent, contended := e.key(name); !contended {
			without++
			if spent < 1.9 || spent > 2.1 {
				t.Errorf("%s made room with %.2f spent, want the 2 that it had", name, spent)
			}
		}
	}
	if without != 1 {
		t.Errorf("%d made room, want 1", without)
	}
	var cl exchange.Claims
	e.Claims(c.now, &cl)
	if len(cl.Keys) != 24 {
		t.Errorf("%d keys announced, want 24", len(cl.Keys))
	}
}

// key returns what a client has spent of limit l of tenant a, and whether it has a state.
func (e *Engine) key(client string) (spent float64, contended bool) {
	x := e.Explain(sec, &Request{Tenant: "a", Client: client, Pool: "api", Cost: 1})
	return x.Limits[0].Burst - x.Limits[0].Free, x.Limits[0].Claimed != nil
}

// The limit of a tenant as a whole has a state, whatever clients have spent.
func TestATenantsLimitHasAState(t *testing.T) {
	e := New(Options{Keys: 4096, Contended: 30})
	mustApply(t, e, simple(1e12, config.Queue{}, config.Limit{Name: "l", Rate: 5. / 3600, Burst: 5},
		config.Limit{Name: "all", PerTenant: true, Rate: 1000, Burst: 1000}))
	e.SetSums(sec, &exchange.Sums{Full: true, Replicas: 3, TotalWeight: 3, Weight: 1, Lag: 125 * time.Millisecond})
	for i := range 1000 {
		e.Decide(sec, &Request{Tenant: "a", Client: fmt.Sprint("spends-all-", i/5), Pool: "api", Cost: 1})
	}
	for _, l := range e.Explain(sec, &Request{Tenant: "a", Client: "real", Pool: "api", Cost: 1}).Limits {
		if l.Name == "all" && l.Claimed == nil {
			t.Error("1000 requests of all clients, and the tenant's limit has no state")
		}
	}
}
