package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// The steady phase of the demo on virtual time: saturated tenants wait for about
// their target, over all gateways together.
func TestSaturatedTenantsWaitForTheirTarget(t *testing.T) {
	for _, law := range []config.Law{config.VariableStructure, config.DropTail, config.CoDel} {
		const target = 200 * time.Millisecond
		most := target * 3 / 2
		if law == config.CoDel { // it acts on what has waited already
			most = target * 8 / 5
		}
		conf := &config.Config{Pools: []config.Pool{{Name: "api", Capacity: 300,
			Queue: config.Queue{Law: law, DelayTarget: target}}}}
		tenants := []struct {
			name           string
			clients        int
			offered, share float64
		}{{"acme", 5, 150, 117.7}, {"bolt", 4, 100, 78.5}, {"dart", 4, 100, 39.2}}
		for _, x := range tenants {
			conf.Tenants = append(conf.Tenants, config.Tenant{Name: x.name})
		}
		c := newCluster(t, 3, conf, Options{})
		for _, x := range tenants {
			c.share(x.name, "api", x.share)
			for i := range x.clients {
				c.source(x.name, fmt.Sprint(x.name, i), "api", constant(x.offered/float64(x.clients)),
					c.weighted(6, 3, 1))
			}
		}
		start := c.now
		c.run(63 * time.Second)
		for _, x := range tenants {
			got := c.tally(start+3*sec, c.now, tenantIs(x.name))
			t.Logf("%v %s: %.1f/s of %.1f, wait mean %v p99 %v, marked %d, %v", law, x.name, got.rate, x.share,
				got.waitMean, got.wait99, got.marked, got.reasons)
			if got.wait99 > most {
				t.Errorf("%v, %s: waits %v at the 99th percentile, want at most %v for a target of %v", law, x.name,
					got.wait99, most, target)
			}
			if got.rate < 0.95*x.share {
				t.Errorf("%v, %s: gets %.1f/s of %.1f", law, x.name, got.rate, x.share)
			}
		}
	}
}

// A gateway whose demand is new is not measured by what the others have left of the
// share: they make room within a second.
func TestNewDemandIsLetWait(t *testing.T) {
	for _, law := range []config.Law{config.VariableStructure, config.DropTail, config.CoDel} {
		c := newCluster(t, 2, &config.Config{Pools: []config.Pool{{Name: "api", Capacity: 400,
			Queue: config.Queue{Law: law, DelayTarget: 10 * time.Second, MaxWait: 30 * time.Second}}},
			Tenants: []config.Tenant{{Name: "acme"}}}, Options{})
		c.share("acme", "api", 50)
		first := c.source("acme", "client", "api", constant(0), pinned(0))
		then := c.source("acme", "client", "api", constant(0), pinned(1))
		flood := func(s *source, gateway int) {
			for range 200 {
				c.ask(s, gateway, c.now)
			}
			c.run(200 * time.Millisecond)
		}
		c.run(3 * time.Second)
		flood(first, 0)
		flood(then, 1)
		if n := c.tally(0, c.now, of(then)).rejected; n > 0 {
			t.Errorf("%v: %d of 200 refused at the second gateway, whose queue may hold 250 at half the share", law, n)
		}
	}
}
