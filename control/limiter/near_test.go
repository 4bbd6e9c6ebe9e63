package limiter

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// announced holds the key claims that the engines of a fleet have announced, by engine.
type announced []map[uint64]exchange.KeyClaim

// gossip sends each engine the claims that the others have announced until now, and whether limits
// that state no precision are EXACT.
func (f *exactFleet) gossip(now int64, near bool) {
	for i, e := range f.engines {
		var c exchange.Claims
		e.Claims(now, &c)
		if f.told == nil {
			f.told = make(announced, len(f.engines))
		}
		if f.told[i] == nil {
			f.told[i] = map[uint64]exchange.KeyClaim{}
		}
		for _, k := range c.Keys {
			f.told[i][k.Key] = k
		}
		for _, k := range c.Withdrawn {
			gone := f.told[i][k]
			f.told[i][k] = exchange.KeyClaim{Key: k, Admitted: gone.Admitted}
		}
	}
	for i, e := range f.engines {
		sums := map[uint64]exchange.KeySum{}
		for j, of := range f.told {
			for key, k := range of {
				if j != i {
					s := sums[key]
					s.Key, s.Epoch, s.Gap = key, 1, f.gap
					s.Admitted, s.Claims, s.Active = s.Admitted+k.Admitted, s.Claims+k.Claim, s.Active+k.Active
					s.Unsaturated, s.Spent = s.Unsaturated+k.Unsaturated, max(s.Spent, k.Spent)
					sums[key] = s
				}
			}
		}
		n := float64(len(f.engines))
		s := &exchange.Sums{Full: true, Replicas: len(f.engines), TotalWeight: n, Weight: 1,
			Lag: 125 * time.Millisecond, Exact: near}
		for _, k := range sums {
			s.Keys = append(s.Keys, k)
		}
		e.SetSums(now, s)
	}
}

func unstated(rate, burst float64) *config.Config {
	return simple(1000, config.Queue{}, config.Limit{Name: "l", Rate: rate, Burst: burst})
}

// A limit that states no precision is held by tokens while the agents are near, else by the ledger;
// one with a queue, LOCAL, or not enforced, never.
func TestUnstatedPrecision(t *testing.T) {
	f := newExactFleet(t, 2, unstated(1, 10))
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	e, revision := f.engines[0], int64(1)
	exact := func(c *config.Config) bool {
		revision++
		c.Revision = revision
		mustApply(t, e, c)
		return e.Explain(sec, &r).Limits[0].Exact
	}
	if exact(unstated(1, 10)) || e.Decide(sec, &r).Verdict != Admit {
		t.Error("EXACT before anybody says so")
	}
	f.gossip(sec, true)
	if !exact(unstated(1, 10)) || e.Decide(sec, &r).Verdict != Wait {
		t.Error("not EXACT though the agents are near")
	}
	for name, l := range map[string]config.Limit{
		"LOCAL":  {Name: "l", Rate: 1, Burst: 10, Precision: config.Local},
		"SHADOW": {Name: "l", Rate: 1, Burst: 10, Mode: config.Shadow},
		"queue":  {Name: "l", Rate: 1, Burst: 10, Queue: config.Queue{MaxRequests: 5, MaxWait: time.Second}},
	} {
		if exact(simple(1000, config.Queue{}, l)) || e.Decide(sec, &r).Verdict == Wait {
			t.Errorf("%s: EXACT", name)
		}
	}
	f.gossip(sec, false)
	if exact(unstated(1, 10)) {
		t.Error("EXACT though the agents are far")
	}
	r.Pool = "no such pool" // it has no flow
	if out := e.Decide(sec, &r); out.Verdict != Admit {
		t.Errorf("unknown pool: %+v", out)
	}
}

// What a client has spent stays spent when its limit becomes EXACT, and when it becomes LOCAL:
// also what gateways have at that time of the owner's bucket.
func TestSwitchKeepsWhatIsSpent(t *testing.T) {
	f := newExactFleet(t, 3, unstated(1, 20))
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	now := sec
	for range 4 {
		f.gossip(now, false)
	}
	sum := f.total(0, now, r, 6) + f.total(1, now, r, 6)
	for range 4 {
		now += 50 * ms
		f.gossip(now, false)
	}
	f.gossip(now, true)
	sum += f.total(1, now, r, 2) + f.total(2, now, r, 2)
	if sum != 16 {
		t.Errorf("%d admitted, want all 16 of the burst of 20", sum)
	}
	for range 4 {
		now += 50 * ms
		f.gossip(now, true)
	}
	f.gossip(now, false)
	f.settle(now)
	var s Stats
	for i, e := range f.engines {
		if e.Stats(now, &s); s.Exact.Keys != 0 {
			t.Errorf("gateway %d keeps %d keys", i, s.Exact.Keys)
		}
	}
	sum += f.total(0, now, r, 20)
	for range 4 {
		now += 50 * ms
		f.gossip(now, false)
	}
	sum += f.total(1, now, r, 20)
	f.gossip(now, true)
	sum += f.total(2, now, r, 20)
	if sum < 20 || sum > 22 {
		t.Errorf("%d admitted within 0.6 s at 1/s, want the burst of 20 once and at most 2 more", sum)
	}
}

// advance plays so many steps of 5 ms, with a period of 50 ms, and returns what was admitted in each.
func (f *exactFleet) advance(now int64, near bool, steps int) (admitted []int) {
	for i := range steps {
		now += 5 * ms
		if i%10 == 9 {
			f.gossip(now, near)
		}
		for key, k := range f.owners {
			if due := k.Due(); due != 0 && due <= now {
				k.Tick(now, exactOutbox{f, key})
			}
		}
		f.settle(now)
		for _, e := range f.engines {
			f.events = e.Tick(now, f.events)
		}
		admitted = append(admitted, f.ended())
	}
	return admitted
}

// ended counts the waits that have ended with an admission, and forgets the events.
func (f *exactFleet) ended() (admitted int) {
	for _, e := range f.events {
		f.waits--
		if e.Outcome.Verdict == Admit {
			admitted++
		}
	}
	f.events = f.events[:0]
	return admitted
}

// However often limits become EXACT and LOCAL, and at whatever gateway requests come, a bound holds.
// When the others have learned of it before they are asked, no more is admitted than a LOCAL limit
// allows. Each request that waits gets a decision.
func TestPropertySwitch(t *testing.T) {
	const rate, burst = 20.0, 30.0
	c := unstated(rate, burst)
	c.Pools[0].Queue = config.Queue{Law: config.Police}
	rapid.Check(t, func(rt *rapid.T) {
		f := newExactFleet(t, 3, c)
		r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
		now, near := sec, false
		level, worst := 0.0, 0.0
		for range rapid.IntRange(1, 40).Draw(rt, "rounds") {
			if rapid.IntRange(0, 2).Draw(rt, "switch") == 0 {
				near = !near
				f.gossip(now, near)
			}
			gateway := rapid.IntRange(0, 2).Draw(rt, "gateway")
			for range rapid.IntRange(0, 40).Draw(rt, "requests") {
				switch out, _ := f.ask(gateway, now, r, 1); out.Verdict {
				case Admit:
					level++
				case Wait:
					f.waits++
				}
			}
			f.settle(now)
			level += float64(f.ended())
			worst = max(worst, level-burst)
			steps := rapid.IntRange(50, 80).Draw(rt, "steps")
			for _, n := range f.advance(now, near, steps) {
				level = max(0, level-rate*0.005) + float64(n)
				worst = max(worst, level-burst)
			}
			now += int64(steps) * 5 * ms
			if f.waits != 0 {
				rt.Fatalf("%d requests wait for ever", f.waits)
			}
		}
		// docs/guarantees.md, OPTIMISTIC: r·δ = 2.5, k = 3, p = 1.
		if most := 2 + 3*2.5 + 2*burst; worst > most {
			rt.Fatalf("%.1f more than one bucket, at most %.1f by the ledger", worst, most)
		}
	})
}
