package leadership_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/leadership"
)

// sharedRun is two coordinators that share three pools, and agents whose requests come by chance.
type sharedRun struct {
	t      *testing.T
	now    time.Time
	random *rand.Rand
	whole  *allocation.Config
	loops  [2]*leadership.Loop
	leads  map[string]int // which loop leads a pool
	epoch  int64
	gains  [2][]string // pools that are given to the loop in the next report
	held   map[allocation.Flow]*controlv1.Lease
	pools  map[string]*controlv1.PoolLease
}

const sharedAgents = 4

func newSharedRun(t *testing.T) *sharedRun {
	r := &sharedRun{t: t, now: time.Unix(1_700_000_000, 0), random: rand.New(rand.NewPCG(5, 6)),
		whole: &allocation.Config{Revision: 1, Tenants: map[string]float64{"a": 1, "b": 2, "c": 1},
			Quotas: map[allocation.Flow]allocation.Quota{}},
		held: map[allocation.Flow]*controlv1.Lease{}, pools: map[string]*controlv1.PoolLease{}}
	for _, p := range []struct {
		name     string
		capacity float64
	}{{"full", 300}, {"slack", 2000}, {"other", 300}} {
		r.whole.Pools = append(r.whole.Pools, allocation.Pool{Name: p.name, Capacity: p.capacity})
	}
	for i := range r.loops {
		r.loops[i] = leadership.New(leadership.Options{Params: allocation.Defaults(), Settle: 2 * time.Second,
			Expiry: 10 * time.Second})
	}
	r.share(map[string]int{"full": 0, "slack": 0, "other": 1})
	return r
}

// share begins an epoch in which the pools are led like this.
func (r *sharedRun) share(leads map[string]int) {
	before := r.leads
	r.leads = leads
	r.epoch++
	for i, l := range r.loops {
		r.gains[i] = nil
		for _, p := range r.whole.Pools {
			if before != nil && leads[p.Name] == i && before[p.Name] != i {
				r.gains[i] = append(r.gains[i], p.Name)
			}
		}
		l.Begin(r.now, r.epoch, before != nil)
		l.Part(r.now, r.whole.Part(func(pool string) bool { return leads[pool] == i }), r.gains[i], i > 0)
		if before == nil {
			for k := range sharedAgents {
				l.Hello(r.now, &controlv1.Hello{Agent: fmt.Sprint("agent-", k)})
			}
		}
	}
}

// asked returns a tenant's demand in a pool, of all agents, per second.
func asked(tenant, pool string) float64 {
	if pool == "other" {
		return 2 * asked(tenant, "full")
	}
	return map[string]float64{"a": 60, "b": 300, "c": 150}[tenant]
}

// round is a round of reports of each agent to both, and of shares. It returns the outcomes.
func (r *sharedRun) round() (outcomes [2]*allocation.Outcome) {
	r.now = r.now.Add(exchange.ReportEvery)
	for i, l := range r.loops {
		for k := range sharedAgents {
			report := &controlv1.Report{Interval: durationpb.New(exchange.ReportEvery),
				Replicas: []*controlv1.Replica{{Name: fmt.Sprint("gw-", k), Weight: 1}}}
			for _, pool := range r.gains[i] {
				report.Pools = append(report.Pools, r.pools[pool])
				for key, lease := range r.held {
					if key.Pool == pool {
						report.Leases = append(report.Leases, lease)
					}
				}
			}
			for tenant := range r.whole.Tenants {
				for _, p := range r.whole.Pools {
					if r.leads[p.Name] == i {
						rate := benchPoisson(r.random, asked(tenant, p.Name)/sharedAgents/4) * 4
						report.Flows = append(report.Flows, &controlv1.FlowReport{Tenant: tenant, Pool: p.Name,
							Gateway: fmt.Sprint("gw-", k), Demand: rate, Served: rate})
					}
				}
			}
			l.Report(r.now, fmt.Sprint("agent-", k), report)
		}
		r.gains[i] = nil
		l.Step(r.now)
		if outcomes[i] = l.View(r.now).Outcome; outcomes[i] == nil {
			continue
		}
		for _, p := range outcomes[i].Pools {
			r.pools[p.Pool] = &controlv1.PoolLease{Pool: p.Pool, IdleShare: p.IdleShare, Loss: float32(p.Loss), Epoch: r.epoch}
		}
		for _, f := range outcomes[i].Flows {
			r.held[f.Flow] = &controlv1.Lease{Tenant: f.Tenant, Pool: f.Pool, Share: f.Share, Demand: float32(f.Demand)}
		}
	}
	return outcomes
}

// A pool goes to another coordinator: its shares are sent again after Settle, and are as they
// were. Pools that stay are sent in the next round.
func TestPoolsAreHandedOver(t *testing.T) {
	r := newSharedRun(t)
	for range 80 {
		r.round()
	}
	before := map[allocation.Flow]float64{}
	for key, lease := range r.held {
		before[key] = lease.GetShare()
	}
	r.share(map[string]int{"full": 1, "slack": 1, "other": 1})
	first := r.round()
	if first[0] == nil || len(first[0].Pools) != 0 || first[1].Pool("other") == nil || first[1].Pool("full") != nil {
		t.Fatalf("in the first round: %+v, %+v", first[0], first[1])
	}
	rounds := 1
	for out := first; out[1].Pool("full") == nil; rounds++ {
		if out = r.round(); rounds > 12 {
			t.Fatal("the pools that were gained are never sent")
		}
	}
	if took := time.Duration(rounds) * exchange.ReportEvery; took < 2*time.Second || took > 2500*time.Millisecond {
		t.Errorf("sent after %s, want Settle", took)
	}
	most := 0.0
	for key, was := range before {
		switch is := r.held[key].GetShare(); {
		case key.Pool == "slack": // what is left of it is given out by chance, round by round
			if is < asked(key.Tenant, key.Pool) {
				t.Errorf("the share of %v fell from %.1f to %.1f", key, was, is)
			}
		case math.Abs(is/was-1) > .03:
			t.Errorf("the share of %v moved from %.1f to %.1f", key, was, is)
		default:
			most = math.Max(most, math.Abs(is/was-1))
		}
	}
	t.Logf("no share of a full pool moved by more than %.1f %%", 100*most)
	// And back, while agents still name what the first one did.
	r.share(map[string]int{"full": 0, "slack": 1, "other": 1})
	out := r.round()
	if out[0].Pool("full") != nil || out[1].Pool("slack") == nil {
		t.Errorf("back: %+v, %+v", out[0].Pools, out[1].Pools)
	}
	for range 10 {
		out = r.round()
	}
	if out[0].Pool("full") == nil || len(out[0].Suspects)+len(out[1].Suspects) > 0 {
		t.Errorf("back after Settle: %+v, %+v", out[0], out[1])
	}
}

// Another epoch begins within Settle: what was gained in the first is collected still, and is sent with
// what is gained in the second. What is led elsewhere since is not.
func TestPoolsAreCollectedOverEpochs(t *testing.T) {
	r := newSharedRun(t)
	for range 80 {
		r.round()
	}
	r.share(map[string]int{"full": 1, "slack": 0, "other": 1})
	r.round()
	r.share(map[string]int{"full": 1, "slack": 1, "other": 1})
	rounds := 0
	for sent := false; !sent; rounds++ {
		out := r.round()
		full, slack := out[1].Pool("full") != nil, out[1].Pool("slack") != nil
		if sent = full; full != slack || out[1].Pool("other") == nil {
			t.Fatalf("sent: full %v, slack %v, %+v", full, slack, out[1])
		}
		if rounds > 12 {
			t.Fatal("the pools that were gained are never sent")
		}
	}
	if took := time.Duration(rounds) * exchange.ReportEvery; took < 2*time.Second {
		t.Errorf("sent after %s, want Settle", took)
	}
	// A pool that goes on to another one before it was sent, and back.
	r.share(map[string]int{"full": 0, "slack": 1, "other": 1})
	r.round()
	r.share(map[string]int{"full": 1, "slack": 1, "other": 1})
	if out := r.round(); out[1].Pool("full") != nil || len(out[0].Pools) > 0 || out[1].Pool("slack") == nil {
		t.Errorf("gone on: %+v, %+v", out[0], out[1])
	}
}

// An epoch that goes on without another leader between does not restart: what agents were sent last is not overtaken by
// lower numbers.
func TestTheSameEpochGoesOn(t *testing.T) {
	r := newSharedRun(t)
	hello := r.loops[0].Hello(r.now, &controlv1.Hello{Agent: "agent-0", Changes: true})
	last := uint64(0)
	next := func() {
		for _, m := range r.loops[0].Next(r.now, hello) {
			if seq := m.Leases().GetSeq(); seq <= last {
				t.Errorf("number %d after %d", seq, last)
			} else {
				last = seq
			}
		}
	}
	for range 8 {
		r.round()
		next()
	}
	r.loops[0].Freeze()
	r.loops[0].Begin(r.now, r.epoch, true)
	for range 8 {
		r.round()
		next()
	}
	if last < 10 {
		t.Errorf("the last number is %d", last)
	}
}
