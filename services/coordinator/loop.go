package coordinator

import (
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/round"
)

// loop holds the round of the present term and what came out of it. Safe for
// concurrent use; the clock is the caller's.
type loop struct {
	params round.Params
	settle time.Duration
	expiry time.Duration
	log    *slog.Logger
	nacked func()
	// withdraw takes back leases that were published, for agents yet to come.
	withdraw func()

	mu      sync.Mutex
	round   *round.Round
	config  *round.Config
	epoch   int64 // 0 = no term
	seq     uint64
	fresh   bool      // shares may be computed, not only renewed
	began   time.Time // of the term; zero when it goes on from the one before
	held    time.Time // since when leases wait for agents that obeyed an earlier epoch
	outcome *round.Outcome
	leases  *controlv1.Leases
	renewed time.Time // when shares were last computed
}

// begin starts a term, or goes on with what is known if this process led last.
func (l *loop) begin(epoch int64, goOn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.seq, l.fresh, l.began = epoch, 0, true, time.Time{}
	if !goOn || l.round == nil {
		l.round = round.New(l.params)
		l.outcome, l.leases, l.began, l.held = nil, nil, time.Now(), time.Time{}
	}
	if l.config != nil {
		l.round.Configure(l.config)
	}
}

// freeze allows renewals only.
func (l *loop) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fresh = false
}

// stop ends a term: what is known of demand belongs to the next leader.
func (l *loop) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.round, l.outcome, l.leases, l.fresh = 0, nil, nil, nil, false
}

// configure puts a configuration in force from the next step on.
func (l *loop) configure(c *round.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config = c
	if l.round != nil && l.fresh {
		l.round.Configure(c)
	}
}

// Hello notes an agent's gateways and whether it has obeyed an earlier leader.
func (l *loop) Hello(h *controlv1.Hello) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round == nil {
		return
	}
	now := time.Now()
	l.round.Meet(now, h.GetAgent(), replicas(h.GetReplicas()))
	if older := h.GetEpoch() > 0 && h.GetEpoch() < l.epoch; older && l.held.IsZero() && now.Sub(l.began) < gathering*l.settle {
		l.held, l.leases = now, nil
		l.withdraw()
	}
}

// gathering times settle is how long after the beginning of a term agents of an
// earlier one are waited for.
const gathering = 5

// Report takes what an agent's gateways saw.
func (l *loop) Report(agent string, r *controlv1.Report) {
	report := &round.Report{
		Interval: r.GetInterval().AsDuration(), GossipDelay: r.GetGossipDelay().AsDuration(),
		Replicas: replicas(r.GetReplicas()), Flows: make([]round.FlowReport, len(r.GetFlows())),
	}
	for i, f := range r.GetFlows() {
		report.Flows[i] = round.FlowReport{
			Flow: round.Flow{Tenant: f.GetTenant(), Pool: f.GetPool()}, Gateway: f.GetGateway(),
			Demand: f.GetDemand(), Served: f.GetServed(), Waiting: f.GetWaiting(), Limited: f.GetLimited(),
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round != nil {
		l.round.Observe(time.Now(), agent, report)
	}
}

// Nack notes that an agent refused a configuration.
func (l *loop) Nack(agent string, revision int64, reason string) {
	l.log.Error("an agent refuses the configuration; the one before stays in force there",
		"agent", agent, "revision", revision, "reason", reason)
	l.nacked()
}

func replicas(in []*controlv1.Replica) []round.Replica {
	out := make([]round.Replica, len(in))
	for i, r := range in {
		out[i] = round.Replica{Name: r.GetName(), Weight: r.GetWeight()}
	}
	return out
}

// step computes the shares as of now, or renews the last ones, and returns the
// leases to publish: nil while there are none to give.
func (l *loop) step(now time.Time) *controlv1.Leases {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round == nil || l.config == nil {
		return nil
	}
	outcome := l.round.Step(now)
	if !l.fresh { // what is known of demand stays current, for the next term
		return l.renew()
	}
	if l.round.Agents() == 0 || now.Sub(l.held) < l.settle {
		return nil // nobody to give to, or not everybody heard yet
	}
	l.outcome, l.renewed = outcome, now
	l.seq++
	l.leases = l.message(outcome)
	return l.leases
}

// renew is the last leases again, with the next sequence number.
func (l *loop) renew() *controlv1.Leases {
	if l.leases == nil {
		return nil
	}
	l.seq++
	last := l.leases
	l.leases = &controlv1.Leases{
		Epoch: last.Epoch, Seq: l.seq, Revision: last.Revision, SoftExpiry: last.SoftExpiry,
		Leases: last.Leases, Pools: last.Pools, Members: last.Members,
	}
	return l.leases
}

func (l *loop) message(o *round.Outcome) *controlv1.Leases {
	m := &controlv1.Leases{
		Epoch: l.epoch, Seq: l.seq, Revision: o.Revision, SoftExpiry: durationpb.New(l.expiry),
		Leases:  make([]*controlv1.Lease, len(o.Flows)),
		Pools:   make([]*controlv1.PoolLease, len(o.Pools)),
		Members: make([]*controlv1.Replica, len(o.Members)),
	}
	for i := range o.Flows {
		f := &o.Flows[i]
		m.Leases[i] = &controlv1.Lease{Tenant: f.Tenant, Pool: f.Pool, Share: f.Share, BoundBy: bounds[f.Bound]}
	}
	for i := range o.Pools {
		p := &o.Pools[i]
		m.Pools[i] = &controlv1.PoolLease{Pool: p.Pool, Price: p.Price, FairRate: p.FairRate, IdleShare: p.IdleShare}
	}
	for i, r := range o.Members {
		m.Members[i] = &controlv1.Replica{Name: r.Name, Weight: r.Weight}
	}
	return m
}

// every is the time between rounds: T_c = max(least, 2.5·(τ+P)).
func (l *loop) every(least, period time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outcome == nil {
		return least
	}
	return min(max(least, (l.outcome.Delay+period)*5/2), maxRound)
}

// view is what the loop knows now; outcome is nil before the first shares.
type view struct {
	outcome *round.Outcome
	epoch   int64
	stale   bool // the shares are past their soft expiry
	members int
}

func (l *loop) view(now time.Time) view {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := view{outcome: l.outcome, epoch: l.epoch}
	if l.outcome != nil {
		v.stale, v.members = now.Sub(l.renewed) > l.expiry, len(l.outcome.Members)
	}
	return v
}

// parts are a flow's use per gateway.
func (l *loop) parts(f round.Flow) []round.Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round == nil {
		return nil
	}
	return l.round.Parts(f)
}
