package limiter

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// mix is a tenant's clients at one gateway. Rates are in parts of the tenant's share.
type mix struct {
	share  float64   // requests/s
	light  int       // clients that ask for less than their equal part of the share
	part   float64   // what each of them asks for, of the equal part
	greedy []float64 // what the others ask for, of the whole share
}

func (m mix) String() string {
	return fmt.Sprintf("%g/s, %d at %g of the equal part beside %v", m.share, m.light, m.part, m.greedy)
}

// equal is the equal part of a client, requests/s.
func (m mix) equal() float64 { return m.share / float64(m.light+len(m.greedy)) }

var mixes = []mix{
	{100, 1, 0.05, []float64{2.5}},
	{100, 1, 0.5, []float64{5}},
	{100, 1, 0.8, []float64{5}},
	{400, 1, 0.8, []float64{2.5}},
	{400, 40, 0.8, []float64{2.5}},
	{100, 40, 0.8, []float64{5}},
	{300, 2, 0.8, []float64{0.5, 0.5, 1, 2}},
	{100, 1, 0.8, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}},
	{20, 1, 0.5, []float64{5}},
	{20, 3, 0.5, []float64{3}},
	{5, 1, 0.2, []float64{5}},
}

// run plays a mix from cold and returns the outcomes of the light clients and of the others,
// and the worst rejected part of a light client.
func (m mix) run(t testing.TB, law config.Law, d time.Duration) (light, greedy tally, worst float64) {
	c := newCluster(t, 1, &config.Config{
		Pools:   []config.Pool{{Name: "api", Capacity: m.share, Queue: config.Queue{Law: law}}},
		Tenants: []config.Tenant{{Name: "acme"}},
	}, Options{})
	small := map[*source]bool{}
	for i := range m.light {
		small[c.source("acme", fmt.Sprint("light", i), "api", constant(m.part*m.equal()), pinned(0))] = true
	}
	for i, r := range m.greedy {
		c.source("acme", fmt.Sprint("greedy", i), "api", constant(r*m.share), pinned(0))
	}
	start := c.now
	c.run(d)
	for s := range small {
		if got := c.tally(start, c.now, of(s)); got.offered > 50 {
			worst = max(worst, float64(got.rejected)/float64(got.offered))
		}
	}
	return c.tally(start, c.now, func(a answer) bool { return small[a.src] }),
		c.tally(start, c.now, func(a answer) bool { return !small[a.src] }), worst
}

// A client that asks for less than its equal part of the share is not refused, whatever the
// others ask for and whatever the queue's law. The share is used.
func TestLightClientsAreNotRefused(t *testing.T) {
	for _, law := range []config.Law{config.VariableStructure, config.DropTail, config.CoDel, config.Police} {
		for _, m := range mixes {
			light, greedy, worst := m.run(t, law, 60*time.Second)
			refused := float64(light.rejected) / float64(light.offered)
			used := (light.rate + greedy.rate) / m.share
			t.Logf("%-18v %-60v refused %.2f %% (worst %.1f %%) wait p99 %v mean %v; others wait p99 %v; %.3f of the "+
				"share used",
				law, m, 100*refused, 100*worst, light.wait99, light.waitMean, greedy.wait99, used)
			if refused > 0.01 && light.rejected > 1 {
				t.Errorf("%v, %v: %.1f %% refused of those below their equal part, want at most 1 %%", law, m,
					100*refused)
			}
			if used < 0.9 || used > 1.05 {
				t.Errorf("%v, %v: %.3f of the share is used, want 0.90 to 1.05", law, m, used)
			}
		}
	}
}

// Names invented for a few requests each do not crowd out a client that keeps its name
// and asks for little. It gets what it would get if all were refused alike, or more. So
// also when they are too many to be distinguished.
func TestInventedNamesWinNothing(t *testing.T) {
	for i, law := range []config.Law{config.VariableStructure, config.DropTail, config.CoDel, config.Police,
		config.VariableStructure} {
		names := 2000 + i*1000
		c := newCluster(t, 1, &config.Config{
			Pools:   []config.Pool{{Name: "api", Capacity: 100, Queue: config.Queue{Law: law}}},
			Tenants: []config.Tenant{{Name: "acme"}},
		}, Options{})
		honest := c.source("acme", "honest", "api", constant(2), pinned(0))
		for i := range names {
			c.source("acme", fmt.Sprint("invented", i), "api", constant(0.2), pinned(0))
		}
		start := c.now
		c.run(30 * time.Second)
		got := c.tally(start, c.now, of(honest))
		all := c.tally(start, c.now, func(answer) bool { return true })
		alike := float64(all.admitted) / float64(all.offered)
		part := float64(got.admitted) / float64(got.offered)
		t.Logf("%v, %d names: %.2f of the honest client's requests admitted, %.2f of all; %.1f/s used", law, names,
			part, alike, all.rate)
		if part < 0.7*alike {
			t.Errorf("%v: %.2f of the honest client's requests are admitted, want about %.2f as of all", law, part,
				alike)
		}
		if all.rate < 90 || all.rate > 105 {
			t.Errorf("%v: %.1f/s admitted, want 90 to 105", law, all.rate)
		}
	}
}

// A client that is alone and sends more at once than its queue should hold is marked,
// although it is within its part: the queue is its own.
func TestOwnQueueIsMarked(t *testing.T) {
	c := newCluster(t, 1, &config.Config{
		Pools: []config.Pool{{Name: "api", Capacity: 300}}, Tenants: []config.Tenant{{Name: "acme"}},
	}, Options{})
	s := c.source("acme", "only", "api", constant(0), pinned(0))
	for range 60 { // a burst of 60 whenever the one before has gone
		for range 60 {
			c.ask(s, 0, c.now)
		}
		c.run(200 * time.Millisecond)
	}
	if got := c.tally(0, c.now, of(s)); got.marked == 0 {
		t.Errorf("%d admitted, %d refused, none marked", got.admitted, got.rejected)
	}
}
