package limiter

import (
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// A client's global limit, offered twice over on three gateways at 6:3:1.
func TestGlobalLimitOverThreeGateways(t *testing.T) {
	for _, tc := range []struct {
		rate, burst float64
		queue       config.Queue
		strict      bool
		name        string
	}{
		{name: "300/s police", rate: 300, burst: 300},
		{name: "300/s strict", rate: 300, burst: 300, strict: true},
		{name: "300/s queue", rate: 300, burst: 30, queue: config.Queue{MaxRequests: 100,
			MaxWait: 300 * time.Millisecond}},
		{name: "50/s police", rate: 50, burst: 50},
		{name: "5/s burst 10", rate: 5, burst: 10},
		{name: "5/s queue", rate: 5, burst: 10, queue: config.Queue{MaxRequests: 10, MaxWait: 3 * time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, 3, &config.Config{
				Pools: []config.Pool{{Name: "api", Capacity: 1e5}},
				Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{
					Name: "user", Rate: tc.rate, Burst: tc.burst, Queue: tc.queue, Strict: tc.strict,
				}}}},
			}, Options{})
			s := c.source("acme", "u", "api", constant(2*tc.rate), c.weighted(6, 3, 1))
			start := c.now
			c.run(60 * time.Second)
			settled := start + 10*sec
			got := c.tally(settled, c.now, of(s))
			excess := c.excess(of(s), tc.rate, tc.burst)
			t.Logf("mean %.4f of the rate, excess over rate·t+burst %.1f requests, %v, wait mean %v p99 %v",
				got.rate/tc.rate, excess, got.reasons, got.waitMean, got.wait99)
			if dev := math.Abs(got.rate/tc.rate - 1); dev > 0.02 {
				t.Errorf("mean is off the rate by %.1f %%, want at most 2 %%", 100*dev)
			}
			if most := 2*tc.burst + 10; excess > most {
				t.Errorf("excess %.1f, want at most %.0f", excess, most)
			}
		})
	}
}

// Clients that stay below their limit are never rejected: pinned to a gateway
// with bursts from idle, or spread evenly at 80 % of the rate.
func TestNoWrongfulReject(t *testing.T) {
	conf := &config.Config{
		Pools: []config.Pool{{Name: "api", Capacity: 1e5}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{
			Name: "user", Rate: 100, Burst: 100,
			Overrides: map[string]config.RateBurst{"small": {Rate: 5, Burst: 10}, "queued": {Rate: 100, Burst: 100}},
		}}}},
	}
	c := newCluster(t, 3, conf, Options{})
	pinnedBurst := c.source("acme", "pinned", "api", func(t float64) float64 {
		if math.Mod(t, 4) < 0.3 { // 90 requests from idle
			return 300
		}
		return 0
	}, pinned(1))
	pinnedBurst.steady = true
	small := c.source("acme", "small", "api", constant(4), pinned(2))
	small.steady = true
	even := c.source("acme", "even", "api", constant(60), c.weighted(1, 1, 1))
	even.steady = true
	uneven := c.source("acme", "uneven", "api", constant(60), c.weighted(6, 3, 1))
	uneven.steady = true
	rotating := c.source("acme", "rotating", "api", constant(60), func(t float64) int { return int(t/2) % 3 })
	rotating.steady = true
	start := c.now
	c.run(60 * time.Second)
	for _, s := range []*source{pinnedBurst, small, even, uneven, rotating} {
		got := c.tally(start, c.now, of(s))
		t.Logf("%-9s offered %d rejected %d", s.req.Client, got.offered, got.rejected)
		if got.rejected > 0 {
			t.Errorf("%s: %d wrongful rejects of %d", s.req.Client, got.rejected, got.offered)
		}
	}
}

// Tenants that share a pool: the tenants that want more than their share get it, and the
// tenant that wants less does not wait.
func TestTenantShares(t *testing.T) {
	for _, law := range []config.Law{config.VariableStructure, config.DropTail, config.Police, config.CoDel} {
		t.Run(law.String(), func(t *testing.T) {
			conf := &config.Config{Pools: []config.Pool{{Name: "api", Capacity: 1000, Queue: config.Queue{Law: law}}}}
			for _, name := range []string{"greedy", "fair", "small"} {
				conf.Tenants = append(conf.Tenants, config.Tenant{Name: name})
			}
			c := newCluster(t, 3, conf, Options{})
			c.share("greedy", "api", 400)
			c.share("fair", "api", 400)
			c.share("small", "api", 200)
			for i := range 4 {
				c.source("greedy", string(rune('a'+i)), "api", constant(400), c.weighted(6, 3, 1))
				c.source("fair", string(rune('a'+i)), "api", constant(130), c.weighted(6, 3, 1))
				c.source("small", string(rune('a'+i)), "api", constant(20), c.weighted(6, 3, 1))
			}
			start := c.now
			c.run(20 * time.Second)
			for name, want := range map[string]float64{"greedy": 400, "fair": 400, "small": 0} {
				got := c.tally(start+5*sec, c.now, tenantIs(name))
				if want == 0 {
					want = float64(got.offered) / 15
				}
				t.Logf("%-6s %.1f/s of %.0f, %v marked %d, wait mean %v p99 %v", name, got.rate, want, got.reasons,
					got.marked, got.waitMean, got.wait99)
				if dev := math.Abs(got.rate/want - 1); dev > 0.05 {
					t.Errorf("%s gets %.1f/s, want %.0f within 5 %%", name, got.rate, want)
				}
				if name == "small" && (got.rejected*200 > got.offered || got.waitMean > time.Millisecond) {
					t.Errorf("small: %d rejects, mean wait %v, want at most 0.5 %% and below 1 ms", got.rejected,
						got.waitMean)
				}
			}
		})
	}
}

// Within its share a tenant on one gateway waits for nothing.
func TestNoDelayWithinTheRate(t *testing.T) {
	c := newCluster(t, 1, &config.Config{
		Pools:   []config.Pool{{Name: "api", Capacity: 1000}},
		Tenants: []config.Tenant{{Name: "a"}},
	}, Options{})
	c.source("a", "x", "api", constant(700), pinned(0))
	start := c.now
	c.run(20 * time.Second)
	got := c.tally(start, c.now, tenantIs("a"))
	t.Logf("%+v", got)
	if got.rejected > 0 || got.wait99 > 0 {
		t.Errorf("%d rejects, p99 wait %v, want none", got.rejected, got.wait99)
	}
}
