package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/applied"
)

// noon is the coordinator's time of day when a test begins.
const noon = config.Instant(1_800_000_000_000)

const hour = config.Instant(3_600_000)

// exactly makes a configuration with an EXACT limit of 5/s in which clients have 1000/s until some time.
func exactly(until ...config.Instant) *applied.Configuration {
	l := config.Limit{Name: "l", Rate: 5, Burst: 5, Precision: config.Exact, Overrides: map[string]config.RateBurst{}}
	for i, u := range until {
		l.Overrides[fmt.Sprint("c", i)] = config.RateBurst{Rate: 1000, Until: u}
	}
	return &applied.Configuration{Revision: 3, Config: &config.Config{Revision: 3,
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{l}}}}}
}

// An owner's numbers lapse without a coordinator, at the time that the agent is Due, whatever its own clock says. Each
// lapse is another revision for owners, and none for gateways.
func TestOwnersNumbersLapse(t *testing.T) {
	for _, wrong := range []config.Instant{-hour, 0, hour} {
		c := newCore()
		c.GuessClock(0, noon+wrong)
		c.ReceiveClock(0, int64(noon))
		if _, err := c.Configure(exactly(noon+10_000, noon+20_000, 0)); err != nil {
			t.Fatal(err)
		}
		rate := func(client string) float64 {
			_, p, _ := c.allowed(&exchange.KeyName{Tenant: "acme", Limit: "l", Client: client})
			return p.Rate
		}
		revisions := map[int64]bool{}
		var lapsed []time.Duration
		for now := time.Duration(0); now < 30*time.Second; now = c.Due() {
			out := c.Tick(now)
			for range out.Log {
				lapsed = append(lapsed, now)
			}
			revisions[c.revision()] = true
			for i, until := range []time.Duration{10 * time.Second, 20 * time.Second, time.Hour} {
				want := 1000.0
				if now >= until {
					want = 5
				}
				if got := rate(fmt.Sprint("c", i)); got != want {
					t.Fatalf("clock wrong by %d: after %v c%d has %v/s, want %v", wrong, now, i, got, want)
				}
			}
		}
		if len(lapsed) != 2 || lapsed[0] > 10*time.Second+period || lapsed[1] > 20*time.Second+period {
			t.Errorf("lapses are noted after %v", lapsed)
		}
		if len(revisions) != 3 || c.applied.Configuration().Revision() != 3 {
			t.Errorf("owners see the revisions %v, gateways %d", revisions, c.applied.Configuration().Revision())
		}
	}
}

// 100,000 overrides that lapse within a minute are looked at once a second.
func TestManyLapsesAreFew(t *testing.T) {
	c := newCore()
	c.ReceiveClock(0, int64(noon))
	until := make([]config.Instant, 100_000)
	for i := range until {
		until[i] = noon + config.Instant(i*60_000/len(until)) + 1
	}
	if _, err := c.Configure(exactly(until...)); err != nil {
		t.Fatal(err)
	}
	for now := time.Duration(0); now < 62*time.Second; now = c.Due() {
		c.Tick(now)
	}
	if n := c.lapses.count; n < 2 || n > 62 {
		t.Errorf("%d lapses in a minute", n)
	}
	if _, next := c.applied.Lapse(0); next != 0 {
		t.Errorf("the next lapse is at %d", next-noon)
	}
}
