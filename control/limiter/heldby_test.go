package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// An event says what held its request for longer: the limit, or the tenant's share.
func TestEventsSayWhatHeld(t *testing.T) {
	wait := config.Queue{Law: config.DropTail, MaxRequests: 10, MaxWait: 10 * time.Second, DelayTarget: 10 * time.Second}
	for name, tc := range map[string]struct {
		rate, share float64 // of the limit, of the tenant
		want        string
	}{
		"the limit alone":           {2, 1e6, "slow"},
		"the share alone":           {1e6, 2, ShareName},
		"the limit, then the share": {.4, 2, "slow"},
		"the share for longer":      {20, 1, ShareName},
	} {
		e := New(Options{Keys: 1024, Start: 1})
		c := &config.Config{Revision: 1, Pools: []config.Pool{{Name: "api", Capacity: 1e6, Queue: wait}},
			Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: []config.Limit{{Name: "slow", Rate: tc.rate,
				Burst: 1, Queue: wait}}}}}
		if err := e.Apply(c); err != nil {
			t.Fatal(err)
		}
		e.SetShares(&exchange.Shares{Epoch: 1, Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: tc.share}}})
		r := &Request{Tenant: "acme", Client: "a", Pool: "api", Cost: 1}
		var events []Event
		now := int64(1)
		for ticket := uint64(1); ticket <= 4; ticket++ {
			e.Enqueue(now, r, ticket)
		}
		for ; now < int64(20*time.Second); now += 5 * ms {
			events = e.Tick(now, events)
		}
		if len(events) == 0 {
			t.Fatalf("%s: nothing was held", name)
		}
		if got := events[len(events)-1]; got.HeldBy != tc.want {
			t.Errorf("%s: held by %q for %v, want %q", name, got.HeldBy, got.Outcome.Waited, tc.want)
		}
	}
}
