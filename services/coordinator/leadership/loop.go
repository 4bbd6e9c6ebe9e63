// Package leadership is the coordinator's loop while it leads: reports come in,
// leases go out, each lease with the epoch of the leadership.
//
// # Model
//
//	Hello, Report ──► allocation.Allocator ──Step──► delivery.Publisher ──Next──► one agent's leases
//
// A leadership is the time from an election until another coordinator leads. It begins without knowledge of demand,
// unless this process was the last leader too. Agents that obeyed an earlier leader get no leases until they had time
// to report (Options.Settle). Shares that were computed from half of the demand would starve the other half. A leader
// that has lost etcd is frozen: it renews the last shares and computes no new ones.
//
// Where coordinators share the pools, each leads its part of the configuration (Loop.Part). A change
// of the parts begins an epoch. Pools that a coordinator keeps go on at once. Of pools that it gains
// agents report what they hold of the last leader's leases, and it collects reports for Settle.
//
// # Invariants
//
//   - Sequence numbers rise within an epoch. All leases of an epoch come from one
//     leadership.
//   - There are no leases without an agent to give them to, and none without a
//     configuration.
//   - No I/O and no clock: the caller passes the time, which must not go back.
//
// The simulator runs this loop on virtual time.
package leadership

import (
	"log/slog"
	"sync"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/history"
)

// MaxRound bounds the time between two rounds. Agents take a coordinator for dead
// after 5 s of silence, and shares follow demand no sooner than a round.
const MaxRound = 2 * time.Second

// Options of a Loop. All but Log are needed; Nacked may be nil.
type Options struct {
	Params allocation.Params
	Settle time.Duration // how long a new leader collects reports before its first leases
	Expiry time.Duration // soft expiry of leases
	Log    *slog.Logger  // nil: nothing is logged
	Nacked func()        // an agent refused a configuration
}

// Loop holds the allocator of the present leadership and its last outcome. Safe for concurrent use.
type Loop struct {
	o Options

	mu        sync.Mutex
	allocator *allocation.Allocator
	config    *allocation.Config
	publisher *delivery.Publisher
	zero      time.Time // when its clock stood at 0
	epoch     int64     // 0 = this coordinator does not lead
	frozen    bool      // shares are renewed and not computed
	began     time.Time // zero when this process was the last leader too
	collects  time.Time // since when reports of agents of an earlier epoch are collected
	divided   time.Time // since when reports of pools that another coordinator led are; zero: none
	outcome   *allocation.Outcome
	renewed   time.Time // when shares were last computed
	steady    bool      // the last round has published shares of all demand
	calm      bool      // see Calm
	stirred   chan struct{}
	history   history.History // of this leadership
}

// New returns the loop of a coordinator that does not lead.
func New(o Options) *Loop {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Nacked == nil {
		o.Nacked = func() {}
	}
	return &Loop{o: o, publisher: delivery.New(o.Expiry), stirred: make(chan struct{}, 1)}
}

// Begin starts a leadership. With goOn it keeps what is known of demand: this process was the last leader too.
func (l *Loop) Begin(now time.Time, epoch int64, goOn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again := goOn && epoch == l.epoch && l.allocator != nil; again { // its session ended, and nobody took over
		l.frozen = false
		if l.config != nil {
			l.allocator.Configure(l.config)
		}
		return
	}
	l.epoch, l.frozen, l.began, l.divided = epoch, false, time.Time{}, time.Time{}
	l.publisher.Begin(epoch)
	if l.zero.IsZero() {
		l.zero = now
	}
	if !goOn || l.allocator == nil {
		l.allocator = allocation.New(l.o.Params)
		l.outcome, l.began, l.collects = nil, now, time.Time{}
		l.history = history.History{}
	}
	if l.config != nil {
		l.allocator.Configure(l.config)
	}
}

// Part says which part of the configuration this coordinator leads, after Begin: c has the pools that it leads, nil:
// none is known. Agents have obeyed another leader of the gained pools: nothing is sent of them until Settle has
// passed. The flag says that another coordinator sends the members.
func (l *Loop) Part(now time.Time, c *allocation.Config, gained []string, silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.publisher.Silent(silent)
	if c == nil {
		return
	}
	if c != l.config { // else Begin has configured the allocator
		l.config = c
		l.allocator.Configure(c)
	}
	if l.allocator.Keep(c.Has) { // gained in an epoch before, and not all agents have reported them
		l.divided = now
	}
	switch {
	case len(gained) == 0:
	case l.outcome == nil: // it has sent nothing yet: all is collected
		l.began = now
	default:
		l.allocator.Collect(gained)
		l.divided = now
	}
}

// Freeze renews the last shares from now on and computes no new ones. So nothing of the pools' unused
// capacity is left to use: what is taken of it becomes part of no share.
func (l *Loop) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = true
	l.publisher.ForgetUnused()
}

// Stop ends the leadership and forgets what is known of demand: another coordinator leads.
func (l *Loop) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch, l.allocator, l.outcome, l.frozen, l.history = 0, nil, nil, false, history.History{}
	l.publisher.Withdraw()
}

// Configure puts a configuration in force from the next step on. If it already is in force, the call costs nothing:
// call it each round.
func (l *Loop) Configure(c *allocation.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c == l.config { // the allocator has it, or gets it with Begin
		return
	}
	l.config = c
	if l.allocator != nil && !l.frozen {
		l.allocator.Configure(c)
	}
}

// Step computes the shares as of now, or renews the last ones. It reports whether there is
// something to send agents: call Next for each.
func (l *Loop) Step(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calm, l.steady = false, false
	if l.allocator == nil || l.config == nil {
		return false
	}
	if !l.frozen && now.Sub(l.collects) < l.o.Settle {
		return false // not all agents have reported yet: demands are counted when they have
	}
	if !l.divided.IsZero() && now.Sub(l.divided) >= l.o.Settle {
		l.allocator.Collected()
		l.divided = time.Time{}
	}
	outcome := l.allocator.Step(now)
	if l.frozen { // the step keeps demand current for a leadership that goes on from here
		return l.publisher.Renew()
	}
	if l.allocator.Agents() == 0 {
		return false // no agent to give leases to
	}
	l.outcome, l.renewed, l.steady = outcome, now, l.divided.IsZero()
	l.publisher.Publish(now.Sub(l.zero), outcome, l.allocator.Agents())
	l.history.Add(now, outcome)
	return true
}

// Rehearse returns what the next round would decide under two configurations. Supposed demands are of the second one.
// It is nil if this coordinator does not lead, or does not know the demand yet.
func (l *Loop) Rehearse(now time.Time, a, b *allocation.Config, supposed map[allocation.Flow]float64) (
	before, after *allocation.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allocator == nil || l.outcome == nil && !l.alone(now) {
		return nil, nil
	}
	return l.allocator.Rehearse(a, nil), l.allocator.Rehearse(b, supposed)
}

// alone reports whether there is no agent whose demand might not be known yet.
func (l *Loop) alone(now time.Time) bool {
	return l.allocator.Agents() == 0 && now.Sub(l.began) >= l.o.Params.Membership
}

// Next returns what an agent is to be sent now, nil if it has everything.
func (l *Loop) Next(now time.Time, r *delivery.Receiver) []delivery.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allocator == nil {
		return nil
	}
	used := func(yield func(*allocation.Lease)) { l.allocator.Used(r.Agent(), yield) }
	return l.publisher.Next(now.Sub(l.zero), r, used)
}

// Again makes the next leases of an agent complete: it says that it has missed some.
func (l *Loop) Again(r *delivery.Receiver, reason string) {
	l.o.Log.Warn("an agent has missed leases and is sent all of its own again", "agent", r.Agent(), "reason", reason)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.publisher.Again(r)
}

// Delivery are the counts of what agents are sent.
func (l *Loop) Delivery() delivery.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.publisher.Stats()
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

// CalmRound is the time between rounds while Calm: as long as an agent is without a renewal of its leases.
const CalmRound = delivery.Renew

// Calm reports whether the next round decides what the last one did, because nobody asks for anything. It may
// come after CalmRound then, or at once when Stirred says that something has come.
func (l *Loop) Calm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calm = l.steady && l.allocator != nil && l.allocator.Calm()
	return l.calm
}

// Stirred gets a token when it is calm no more.
func (l *Loop) Stirred() <-chan struct{} { return l.stirred }

// stir notes that it is calm no more, if it is so. l.mu is locked.
func (l *Loop) stir() {
	if l.calm && l.allocator.Stirred() {
		l.calm = false
		select {
		case l.stirred <- struct{}{}:
		default:
		}
	}
}

// View is the present state of the loop; Outcome is nil before the first shares.
type View struct {
	Outcome *allocation.Outcome
	Epoch   int64
	Stale   bool // the shares do not follow demand: they are frozen, or past their soft expiry
	Members int
}

// View returns what is known at now.
func (l *Loop) View(now time.Time) View {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := View{Outcome: l.outcome, Epoch: l.epoch}
	if l.outcome != nil {
		v.Stale, v.Members = l.frozen || now.Sub(l.renewed) > l.o.Expiry, len(l.outcome.Members)
	}
	return v
}

// History returns the last hour of a pool, nil if this coordinator does not lead it or knows nothing yet.
func (l *Loop) History(pool string) *quotav1.PoolHistory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history.Of(pool)
}

// Parts are a flow's use per gateway.
func (l *Loop) Parts(f allocation.Flow) []allocation.Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allocator == nil {
		return nil
	}
	return l.allocator.Parts(f)
}

// DemandByAgent returns the demand of each pool by agent, cost units/s.
func (l *Loop) DemandByAgent() map[string]map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allocator == nil {
		return nil
	}
	return l.allocator.DemandByAgent()
}

// Pool finds a pool by its ID, nil if there is none.
func (v *View) Pool(id string) *allocation.PoolShare {
	if v.Outcome == nil {
		return nil
	}
	return v.Outcome.Pool(id)
}

// Flow returns a flow's lease, nil if it has none.
func (v *View) Flow(key allocation.Flow) *allocation.FlowShare {
	if v.Outcome == nil {
		return nil
	}
	return v.Outcome.Flow(key)
}
