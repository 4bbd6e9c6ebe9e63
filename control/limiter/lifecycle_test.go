package limiter

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// Gateways that are each below the limit alone hold it together.
func TestLimitSumsUpOverGateways(t *testing.T) {
	c := newCluster(t, 3, &config.Config{
		Pools:   []config.Pool{{Name: "api", Capacity: 1e5}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{Name: "user", Rate: 100, Burst: 100}}}},
	}, Options{})
	s := c.source("acme", "u", "api", constant(135), c.weighted(1, 1, 1))
	start := c.now
	c.run(40 * time.Second)
	got := c.tally(start+10*sec, c.now, of(s))
	t.Logf("offered 45/s on each of three: %.1f/s admitted of 100", got.rate)
	if math.Abs(got.rate-100) > 2 {
		t.Errorf("%.1f/s admitted, want 100 within 2 %%", got.rate)
	}
}

// Lost and late gossip costs accuracy for a while, not the mean.
func TestLimitUnderLossyGossip(t *testing.T) {
	c := newCluster(t, 3, &config.Config{
		Pools:   []config.Pool{{Name: "api", Capacity: 1e5}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{Name: "user", Rate: 300, Burst: 300}}}},
	}, Options{})
	c.loss, c.delay = 0.2, 60*ms
	s := c.source("acme", "u", "api", constant(600), c.weighted(6, 3, 1))
	start := c.now
	c.run(40 * time.Second)
	got := c.tally(start+10*sec, c.now, of(s))
	excess := c.excess(of(s), 300, 300)
	t.Logf("mean %.4f of the rate, excess %.0f requests at 20 %% loss and 60 ms", got.rate/300, excess)
	if math.Abs(got.rate/300-1) > 0.02 || excess > 300 {
		t.Errorf("mean %.4f, excess %.0f, want within 2 %% and at most a burst", got.rate/300, excess)
	}
}

// A key that nobody uses any more goes back to its compact form, is withdrawn,
// and its count goes on where it was when it returns.
func TestContendedKeyComesAndGoes(t *testing.T) {
	c := newCluster(t, 2, &config.Config{
		Pools:   []config.Pool{{Name: "api", Capacity: 1e5}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{{Name: "user", Rate: 50, Burst: 20}}}},
	}, Options{})
	on := true
	s := c.source("acme", "u", "api", func(float64) float64 {
		if on {
			return 80
		}
		return 0
	}, c.weighted(1, 1))
	c.run(3 * time.Second)
	e := c.engines[0]
	if n := e.keys.Stats().Contended; n != 1 {
		t.Fatalf("%d contended keys, want 1", n)
	}
	first := c.agents[0].last[hash.Limit(0, "acme", "user", "u")].Admitted
	on = false
	c.run(12 * time.Second)
	for i, e := range c.engines {
		if n := e.keys.Stats().Contended; n != 0 {
			t.Fatalf("gateway %d: %d contended keys after 12 s of silence, want 0", i, n)
		}
	}
	on = true
	start := c.now
	c.run(10 * time.Second)
	if again := c.agents[0].last[hash.Limit(0, "acme", "user", "u")].Admitted; again < first {
		t.Errorf("announced count went from %.1f to %.1f", first, again)
	}
	if got := c.tally(start+2*sec, c.now, of(s)); math.Abs(got.rate/50-1) > 0.03 {
		t.Errorf("%.1f/s after the return, want 50", got.rate)
	}
}

// What a client has given up leaves its place to what it sends next.
func TestAbortedBurstsLeaveRoom(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(25, config.Queue{MaxRequests: 1000, Law: config.DropTail, DelayTarget: 10 * time.Second}))
	now := sec
	for round := range 4 {
		var handles []Handle
		for i := range 200 {
			if i%40 == 0 {
				now += 5 * ms
				e.Tick(now, nil)
			}
			r := &Request{Tenant: "a", Client: "one", Pool: "api"}
			if out, h := e.Enqueue(now, r, uint64(i)); out.Verdict == Wait {
				handles = append(handles, h)
			}
		}
		if len(handles) < 150 {
			t.Errorf("round %d: %d of 200 wait in a queue with room for 250", round, len(handles))
		}
		for range 100 { // they wait for a while
			now += 5 * ms
			e.Tick(now, nil)
		}
		for _, h := range handles {
			e.Cancel(now, h)
		}
	}
}

// Callers that go away while held leave no backlog and no charge behind.
func TestAbortsWhileHeldLeaveNothing(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(100, config.Queue{MaxRequests: 1000, Law: config.DropTail, DelayTarget: 10 * time.Second},
		config.Limit{Name: "all", PerTenant: true, Rate: ledgerRate, Burst: ledgerBurst}))
	now := sec
	admitted := 0
	for round := range 50 {
		var handles []Handle
		for i := range 40 {
			out, h := e.Enqueue(now, &Request{Tenant: "a", Client: fmt.Sprint(i % 7), Pool: "api"}, uint64(i))
			if out.Verdict == Admit {
				admitted++
			} else {
				handles = append(handles, h)
			}
		}
		for i, h := range handles {
			if i%20 == 10 {
				now += 5 * ms
				admitted += len(e.Tick(now, nil))
			}
			e.Cancel(now, h)
		}
		if f := e.live()[0]; f.queue.Len() != 0 || f.pace.controller.Backlog()+f.pace.pending > 1e-6 &&
			f.pace.pacer.Credit() >= 0 {
			t.Fatalf("round %d: %d wait, S = %g, want nothing", round, f.queue.Len(),
				f.pace.controller.Backlog()+f.pace.pending)
		}
	}
	m := &model{e: e, now: now}
	if got := m.spent(); math.Abs(got-float64(admitted)) > 1e-3 {
		t.Errorf("the limit was charged %.3f, want the %d admitted", got, admitted)
	}
	elapsed := float64(now-sec) / 1e9
	if most := 100*elapsed + 10 + 2; float64(admitted) > most {
		t.Errorf("%d admitted in %.2f s at 100/s, want at most %.0f: aborts mint no credit", admitted, elapsed, most)
	}
}

func TestShadowOffAndReport(t *testing.T) {
	for _, mode := range []config.Mode{config.Enforce, config.Shadow, config.Off} {
		t.Run(mode.String(), func(t *testing.T) {
			conf := simple(100, config.Queue{Law: config.Police})
			conf.Tenants[0].Quotas = []config.Quota{{Pool: "api", Max: config.Unbounded, Mode: mode}}
			c := newCluster(t, 1, conf, Options{})
			s := c.source("a", "x", "api", constant(300), pinned(0))
			c.run(5 * time.Second)
			var r exchange.Report
			c.engines[0].Report(c.now, &r)
			f := r.Flows[0]
			got := c.tally(0, c.now, of(s))
			t.Logf("%+v", f)
			if f.Demand != float64(got.offered) || f.Served != float64(got.admitted) ||
				f.Rejected != float64(got.rejected) {
				t.Errorf("report says demand %g served %g rejected %g; want %d %d %d", f.Demand, f.Served, f.Rejected,
					got.offered, got.admitted, got.rejected)
			}
			if enforced := mode == config.Enforce; (got.rejected > 0) != enforced || f.Limited != enforced {
				t.Errorf("%d rejected, limited %v in mode %v", got.rejected, f.Limited, mode)
			}
			if (f.Shadowed > 0) != (mode == config.Shadow) {
				t.Errorf("%g in shadow in mode %v", f.Shadowed, mode)
			}
			c.engines[0].Report(c.now, &r)
			if len(r.Flows) != 0 {
				t.Errorf("second report: %+v, want nothing to tell", r.Flows)
			}
		})
	}
}

// A client held at its own limit does not make its tenant look hungry.
func TestClientHeldIsNoDemand(t *testing.T) {
	c := newCluster(t, 1, simple(1000, config.Queue{}, config.Limit{Name: "l", Rate: 10, Burst: 1}), Options{})
	c.source("a", "x", "api", constant(500), pinned(0))
	c.run(10 * time.Second)
	var r exchange.Report
	c.engines[0].Report(c.now, &r)
	f := r.Flows[0]
	if f.Demand < 90 || f.Demand > 110 || f.Limited || f.ClientRejected < 4500 {
		t.Errorf("%+v, want a demand of about 100, not limited, 4900 rejected for the client", f)
	}
}

func TestOnLoss(t *testing.T) {
	for _, tc := range []struct {
		policy config.OnLoss
		want   float64 // admitted per second at gateway 0 of two, share 100, all the demand there
	}{{config.Freeze, 100}, {config.SafeRate, 50}, {config.Open, 400}} {
		t.Run(tc.policy.String(), func(t *testing.T) {
			conf := simple(100, config.Queue{Law: config.Police})
			conf.Pools[0].OnLoss, conf.Pools[0].HardExpiry = tc.policy, 2*time.Second
			c := newCluster(t, 2, conf, Options{})
			s := c.source("a", "x", "api", constant(400), pinned(0))
			c.share("a", "api", 100)
			c.run(5 * time.Second)
			for _, e := range c.engines {
				e.SetShares(&exchange.Shares{Epoch: c.epoch, Stale: true,
					Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: 100}}})
			}
			c.run(5 * time.Second)
			got := c.tally(c.now-2*sec, c.now, of(s))
			if math.Abs(got.rate/tc.want-1) > 0.06 {
				t.Errorf("%.0f/s after hard expiry, want %.0f", got.rate, tc.want)
			}
			c.share("a", "api", 100)
			c.run(5 * time.Second)
			if got := c.tally(c.now-2*sec, c.now, of(s)); math.Abs(got.rate/100-1) > 0.06 {
				t.Errorf("%.0f/s after recovery, want 100", got.rate)
			}
		})
	}
}

func TestOldEpochIsRefused(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(100, config.Queue{}))
	e.SetShares(&exchange.Shares{Epoch: 5, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: 50}}})
	e.SetShares(&exchange.Shares{Epoch: 4, Flows: []exchange.Share{{Tenant: "a", Pool: "api", Share: 99}}})
	e.Decide(sec, &Request{Tenant: "a", Pool: "api"})
	if f := e.live()[0]; f.terms.vmax != 50 {
		t.Errorf("share %g in force, want the 50 of the newer epoch", f.terms.vmax)
	}
}

// A flow without a share has the pool's idle share, or what fits of its guarantee if
// that is more, and never more than its max.
func TestFlowWithoutAShare(t *testing.T) {
	for _, c := range []struct{ guaranteed, most, scale, want float64 }{
		{0, config.Unbounded, 1, 5}, {20, config.Unbounded, 1, 20}, {20, config.Unbounded, .5, 10},
		{20, config.Unbounded, 0, 5}, {2, 3, 1, 3},
	} {
		e := New(Options{Keys: 1024})
		conf := simple(100, config.Queue{})
		conf.Tenants[0].Quotas = []config.Quota{{Pool: "api", Guaranteed: c.guaranteed, Max: c.most}}
		mustApply(t, e, conf)
		e.SetShares(&exchange.Shares{Epoch: 1,
			Pools: []exchange.PoolShare{{Pool: "api", IdleShare: 5, GuaranteeScale: c.scale}}})
		e.Decide(sec, &Request{Tenant: "a", Pool: "api"})
		if got := e.live()[0].terms.vmax; got != c.want {
			t.Errorf("%+v: the flow has %v", c, got)
		}
	}
}

// A request that costs more than the bucket holds passes, and is paid for.
func TestRequestLargerThanTheBucket(t *testing.T) {
	for _, law := range []config.Law{config.DropTail, config.Police} {
		e := New(Options{Keys: 1024})
		mustApply(t, e, simple(100, config.Queue{Law: law, MaxWait: 10 * time.Second}))
		now, cost, waiting := sec, 0.0, false
		for range 2000 {
			now += 5 * ms
			for range e.Tick(now, nil) {
				cost += 80
				waiting = false
			}
			r := &Request{Tenant: "a", Pool: "api", Cost: 80}
			if waiting {
				continue
			}
			out := e.Decide(now, r)
			if out.Verdict == Wait {
				out, _ = e.Enqueue(now, r, 1)
			}
			if out.Verdict == Admit {
				cost += 80
			}
			waiting = out.Verdict == Wait
		}
		if got := cost / 10; got < 85 || got > 110 {
			t.Errorf("%v: %.0f units/s of requests of 80 at a share of 100", law, got)
		}
	}
}

// A limit raised while requests wait for it frees them by the new numbers.
func TestLimitChangeReachesTheHeld(t *testing.T) {
	e := New(Options{Keys: 1024})
	q := config.Queue{MaxRequests: 100, MaxWait: 60 * time.Second}
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: 1, Burst: 1, Queue: q}))
	now, held := sec, 0
	for i := range 30 {
		if out, _ := e.Enqueue(now, &Request{Tenant: "a", Client: "x", Pool: "api"}, uint64(i)); out.Verdict == Wait {
			held++
		}
	}
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: 1000, Burst: 100, Queue: q}))
	var got []uint64
	for range 40 {
		now += 5 * ms
		for _, ev := range e.Tick(now, nil) {
			got = append(got, ev.Ticket)
		}
	}
	if held != 29 || len(got) != held || !slices.IsSorted(got) {
		t.Errorf("%d held, released %v within 200 ms, want all, in order", held, got)
	}
}

// Ticks find nothing to do when nothing happens.
func TestQuietEngineRests(t *testing.T) {
	c := newCluster(t, 2, simple(100, config.Queue{}), Options{})
	c.source("a", "x", "api", func(at float64) float64 {
		if at < 3 {
			return 300
		}
		return 0
	}, c.weighted(1, 1))
	c.run(time.Second)
	if !c.engines[0].Busy() {
		t.Error("not busy under overload")
	}
	c.run(15 * time.Second)
	for _, e := range c.engines {
		if e.Busy() || len(e.lists.running) != 0 {
			t.Errorf("busy %v, %d flows in the ticker's list, want rest", e.Busy(), len(e.lists.running))
		}
	}
}

func TestDrainEndsAllWaiting(t *testing.T) {
	for _, boot := range []BootPolicy{BootOpen, BootClosed} {
		e := New(Options{Keys: 1024, Boot: boot})
		mustApply(t, e, simple(100, config.Queue{Law: config.DropTail, DelayTarget: 10 * time.Second},
			config.Limit{Name: "l", Rate: 1, Burst: 1, Overrides: map[string]config.RateBurst{"free": {Rate: 1000,
				Burst: 1000}}, Queue: config.Queue{MaxRequests: 10, MaxWait: 10 * time.Second}}))
		held := 0
		for i := range 30 {
			client := "free"
			if i%3 == 0 {
				client = "x"
			}
			r := &Request{Tenant: "a", Client: client, Pool: "api"}
			if out, _ := e.Enqueue(sec, r, uint64(i)); out.Verdict == Wait {
				held++
			}
		}
		events := e.Drain(sec+ms, nil)
		want := Admit
		if boot == BootClosed {
			want = Reject
		}
		for _, ev := range events {
			if ev.Outcome.Verdict != want {
				t.Errorf("%+v, want %v", ev, want)
			}
		}
		if len(events) != held || held == 0 || e.waiting.Load() != 0 {
			t.Errorf("%d events for %d held, %d left", len(events), held, e.waiting.Load())
		}
	}
}

// Cut off for long, a gateway falls to its static part, for limits and shares.
func TestSplitFallsToTheStaticPart(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(300, config.Queue{Law: config.Police},
		config.Limit{Name: "l", Rate: 90, Burst: 9,
			Overrides: map[string]config.RateBurst{"free": {Rate: 1e6, Burst: 1e6}}}))
	cut := func(i exchange.Isolation) {
		e.SetSums(sec, &exchange.Sums{Full: true, Replicas: 3, Weight: 1, TotalWeight: 3, Lag: 100 * time.Millisecond,
			Isolation: i})
	}
	cut(exchange.Connected)
	cut(exchange.Split)
	cut(exchange.Alone)
	admitted := map[string]int{}
	now := sec
	var c exchange.Claims
	for i := range 10_000 { // 10 s
		now += ms
		for _, client := range []string{"x", "free"} {
			if e.Decide(now, &Request{Tenant: "a", Client: client, Pool: "api"}).Verdict == Admit {
				admitted[client]++
			}
		}
		if i%5 == 0 {
			e.Tick(now, nil)
		}
		if i%50 == 0 {
			c.Reset()
			e.Claims(now, &c)
		}
	}
	if n := admitted["x"]; n > 300+3 || n < 250 {
		t.Errorf("limit: %d in 10 s, want about a third of 900", n)
	}
	if n := admitted["x"] + admitted["free"]; n > 1000+25 || n < 950 {
		t.Errorf("share: %d in 10 s, want about a third of 3000", n)
	}
}
