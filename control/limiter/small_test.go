package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// Three gateways with a share of 10 or 33 requests/s each. Requests that ask for less than
// their share wait until chance has passed and are not refused; demand beyond the share uses
// it, and waits no longer than before.
func TestSmallShares(t *testing.T) {
	for _, tc := range []struct {
		each    float64       // requests/s of a gateway
		refused float64       // at most, of a demand of 80 % of the share
		use     float64       // at least, of a demand of twice the share
		wait    time.Duration // at most, its 99th percentile: of one or two requests
	}{{10, .002, .95, 110 * time.Millisecond}, {33, .0005, .99, 90 * time.Millisecond}} {
		t.Run(fmt.Sprint(tc.each), func(t *testing.T) {
			play := func(load float64) tally {
				c := newCluster(t, 3, &config.Config{Pools: []config.Pool{{Name: "api", Capacity: 1e5}},
					Tenants: []config.Tenant{{Name: "acme"}}}, Options{})
				c.share("acme", "api", 3*tc.each)
				for i := range 3 {
					c.source("acme", fmt.Sprint(i), "api", constant(load*tc.each), pinned(i))
				}
				c.run(5 * time.Second)
				warm := c.now
				c.run(200 * time.Second)
				return c.tally(warm, c.now, tenantIs("acme"))
			}
			calm, full := play(.8), play(2)
			if part := float64(calm.rejected) / float64(calm.offered); part > tc.refused {
				t.Errorf("%.2f %% of a demand below the share refused, want at most %.2f %%: %v", 100*part,
					100*tc.refused, calm.reasons)
			}
			if use := full.rate / (3 * tc.each); use < tc.use || use > 1.02 {
				t.Errorf("%.3f of the share used, want %v to 1.02", use, tc.use)
			}
			if full.wait99 > tc.wait {
				t.Errorf("demand beyond the share waits %v at the 99th percentile, want at most %v", full.wait99, tc.wait)
			}
		})
	}
}

func TestBucket(t *testing.T) {
	for _, tc := range []struct{ part, queued, policed float64 }{{0, 1, 1}, {4, 1, 1}, {10, 2, 2.5}, {40, 5, 10},
		{100, 5, 10}, {1000, 50, 50}} {
		if q, p := Bucket(tc.part, false), Bucket(tc.part, true); q != tc.queued || p != tc.policed {
			t.Errorf("a part of %v/s: buckets %v and %v, want %v and %v", tc.part, q, p, tc.queued, tc.policed)
		}
	}
}
