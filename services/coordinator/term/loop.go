// Package term is the coordinator's loop over the terms in which it leads: reports
// in, leases out, each with the epoch of its term.
//
// # Model
//
//	Hello, Report ──► round.Round ──Step──► leases (epoch, sequence, soft expiry)
//
// A term begins with nothing known, unless this process led last. Its first leases
// wait until the agents that obeyed an earlier leader had time to report (Settle):
// shares computed from half of the demand would starve the other half. A term that
// has lost etcd is frozen: it renews the shares that it gave last, no more.
//
// # Invariants
//
//   - Sequences rise within an epoch; leases of an epoch come from one term.
//   - No leases without an agent to give them to, or without a configuration.
//   - No I/O and no clock: now comes in, and must not run back.
//
// The simulator runs this very loop on virtual time.
package term

import (
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/round"
)

// MaxRound bounds the time between two rounds. Agents take a coordinator for dead
// after 5 s of silence, and shares follow demand no sooner than a round.
const MaxRound = 2 * time.Second

// Bounds are the round's bounds as the API names them.
var Bounds = map[round.Bound]quotav1.Bound{
	round.ByDemand: quotav1.Bound_DEMAND, round.ByGuarantee: quotav1.Bound_GUARANTEED,
	round.ByMax: quotav1.Bound_MAX, round.ByPool: quotav1.Bound_POOL,
}

// Options of a Loop. All but Log are needed; Withdraw and Nacked may be nil.
type Options struct {
	Params round.Params
	Settle time.Duration // what a term waits for agents of an earlier one
	Expiry time.Duration // soft, of leases
	Log    *slog.Logger  // nil: silent
	Nacked func()        // an agent refused a configuration
	// Withdraw takes back leases that were published, for agents yet to come.
	Withdraw func()
}

// Loop holds the round of the present term and what came out of it. Safe for
// concurrent use.
type Loop struct {
	o Options

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

// New returns a loop without a term.
func New(o Options) *Loop {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Nacked == nil {
		o.Nacked = func() {}
	}
	if o.Withdraw == nil {
		o.Withdraw = func() {}
	}
	return &Loop{o: o}
}

// Begin starts a term, or goes on with what is known if this process led last.
func (l *Loop) Begin(now time.Time, epoch int64, goOn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.seq, l.fresh, l.began = epoch, 0, true, time.Time{}
	if !goOn || l.round == nil {
		l.round = round.New(l.o.Params)
		l.outcome, l.leases, l.began, l.held = nil, nil, now, time.Time{}
	}
	if l.config != nil {
		l.round.Configure(l.config)
	}
}

// Freeze allows renewals only.
func (l *Loop) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fresh = false
}

// Stop ends a term: what is known of demand belongs to the next leader.
func (l *Loop) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.round, l.outcome, l.leases, l.fresh = 0, nil, nil, nil, false
}

// Configure puts a configuration in force from the next step on.
func (l *Loop) Configure(c *round.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config = c
	if l.round != nil && l.fresh {
		l.round.Configure(c)
	}
}

// Hello notes an agent's gateways and whether it has obeyed an earlier leader.
func (l *Loop) Hello(now time.Time, h *controlv1.Hello) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round == nil {
		return
	}
	l.round.Meet(now, h.GetAgent(), replicas(h.GetReplicas()))
	for _, p := range h.GetPools() {
		l.round.Resume(h.GetEpoch(), p.GetPool(), p.GetCapacity())
	}
	if older := h.GetEpoch() > 0 && h.GetEpoch() < l.epoch; older && l.held.IsZero() && now.Sub(l.began) < gathering*l.o.Settle {
		l.held, l.leases = now, nil
		l.o.Withdraw()
	}
}

// gathering times settle is how long after the beginning of a term agents of an
// earlier one are waited for.
const gathering = 5

// Report takes what an agent's gateways saw.
func (l *Loop) Report(now time.Time, agent string, r *controlv1.Report) {
	report := &round.Report{
		Interval: r.GetInterval().AsDuration(), GossipDelay: r.GetGossipDelay().AsDuration(),
		Replicas: replicas(r.GetReplicas()), Flows: make([]round.FlowReport, len(r.GetFlows())),
	}
	for i, f := range r.GetFlows() {
		report.Flows[i] = round.FlowReport{
			Flow: round.Flow{Tenant: f.GetTenant(), Pool: f.GetPool()}, Gateway: f.GetGateway(),
			Demand: f.GetDemand(), Served: f.GetServed(), Waiting: f.GetWaiting(), Limited: f.GetLimited(),
			Completed: f.GetCompleted(), Residence: f.GetResidence(), Shed: f.GetShed(), InFlight: f.GetInFlight(),
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round != nil {
		l.round.Observe(now, agent, report)
	}
}

// Nack notes that an agent refused a configuration.
func (l *Loop) Nack(agent string, revision int64, reason string) {
	l.o.Log.Error("an agent refuses the configuration; the one before stays in force there",
		"agent", agent, "revision", revision, "reason", reason)
	l.o.Nacked()
}

func replicas(in []*controlv1.Replica) []round.Replica {
	out := make([]round.Replica, len(in))
	for i, r := range in {
		out[i] = round.Replica{Name: r.GetName(), Weight: r.GetWeight(), Gossip: r.GetGossip()}
	}
	return out
}

// Step computes the shares as of now, or renews the last ones, and returns the
// leases to publish: nil while there are none to give.
func (l *Loop) Step(now time.Time) *controlv1.Leases {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round == nil || l.config == nil {
		return nil
	}
	outcome := l.round.Step(now)
	if !l.fresh { // what is known of demand stays current, for the next term
		return l.renew()
	}
	if l.round.Agents() == 0 || now.Sub(l.held) < l.o.Settle {
		return nil // nobody to give to, or not everybody heard yet
	}
	l.outcome, l.renewed = outcome, now
	l.seq++
	l.leases = l.message(outcome)
	return l.leases
}

// renew is the last leases again, with the next sequence number.
func (l *Loop) renew() *controlv1.Leases {
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

func (l *Loop) message(o *round.Outcome) *controlv1.Leases {
	m := &controlv1.Leases{
		Epoch: l.epoch, Seq: l.seq, Revision: o.Revision, SoftExpiry: durationpb.New(l.o.Expiry),
		Leases:  make([]*controlv1.Lease, len(o.Flows)),
		Pools:   make([]*controlv1.PoolLease, len(o.Pools)),
		Members: make([]*controlv1.Replica, len(o.Members)),
	}
	for i := range o.Flows {
		f := &o.Flows[i]
		m.Leases[i] = &controlv1.Lease{Tenant: f.Tenant, Pool: f.Pool, Share: f.Share, BoundBy: Bounds[f.Bound]}
	}
	for i := range o.Pools {
		p := &o.Pools[i]
		m.Pools[i] = &controlv1.PoolLease{Pool: p.Pool, Price: p.Price, FairRate: p.FairRate, IdleShare: p.IdleShare, Capacity: p.Estimate}
	}
	for i, r := range o.Members {
		m.Members[i] = &controlv1.Replica{Name: r.Name, Weight: r.Weight, Gossip: r.Gossip}
	}
	return m
}

// Every is the time between rounds: T_c = max(least, 2.5·(τ+P)), at most MaxRound. τ is
// the median of what agents report.
func (l *Loop) Every(least, period time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outcome == nil {
		return least
	}
	return min(max(least, (l.outcome.Delay+period)*5/2), MaxRound)
}

// View is what the loop knows now; Outcome is nil before the first shares.
type View struct {
	Outcome *round.Outcome
	Epoch   int64
	Stale   bool // the shares are past their soft expiry
	Members int
}

// View returns what is known at now.
func (l *Loop) View(now time.Time) View {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := View{Outcome: l.outcome, Epoch: l.epoch}
	if l.outcome != nil {
		v.Stale, v.Members = now.Sub(l.renewed) > l.o.Expiry, len(l.outcome.Members)
	}
	return v
}

// Parts are a flow's use per gateway.
func (l *Loop) Parts(f round.Flow) []round.Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round == nil {
		return nil
	}
	return l.round.Parts(f)
}

// Pool finds a pool by its ID, nil if there is none.
func (v *View) Pool(id string) *round.PoolShare {
	if v.Outcome == nil {
		return nil
	}
	return v.Outcome.Pool(id)
}

// Flow is a flow's lease, nil if it has none of its own.
func (v *View) Flow(key round.Flow) *round.FlowShare {
	if v.Outcome == nil {
		return nil
	}
	return v.Outcome.Flow(key)
}
