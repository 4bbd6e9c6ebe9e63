package orders

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/agent/compile"
	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/store/resource"
)

// defaultSoftExpiry holds for leases that name none.
const defaultSoftExpiry = 3 * time.Second

// StaleEpochError tells that leases or a configuration come from a coordinator that
// was replaced.
type StaleEpochError struct{ Got, Obeyed int64 }

// Error names both epochs.
func (e *StaleEpochError) Error() string {
	return fmt.Sprintf("epoch %d refused: epoch %d was obeyed already; the coordinator takes a higher one when it leads", e.Got, e.Obeyed)
}

// errOlder: leases that were overtaken; no harm is done.
var errOlder = errors.New("leases are older than those in force")

// Orders is safe for concurrent use.
type Orders struct {
	mu      sync.Mutex
	offered compile.Book
	whole   bool // offered began with a snapshot
	pending *controlv1.Configuration
	config  *config.Config
	left    []config.LeftOut         // out of config
	source  *controlv1.Configuration // of config, full

	leases  *controlv1.Leases
	shares  *exchange.Shares
	renewed time.Duration
	epoch   int64
	seq     uint64
}

// Configuration takes in a chunk. After the last one of a revision it returns
// the acknowledgement to send, and the configuration if it is in force now. A
// *StaleEpochError means that the stream's coordinator leads no more; a coordinator
// that is too old to say its epoch is believed.
func (o *Orders) Configuration(c *controlv1.Configuration) (*config.Config, *controlv1.Ack, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := c.GetEpoch(); e > 0 && e < o.epoch {
		return nil, nil, &StaleEpochError{Got: e, Obeyed: o.epoch}
	}
	if p := o.pending; p == nil || p.GetRevision() != c.GetRevision() || c.GetFull() && !p.GetFull() {
		o.pending = &controlv1.Configuration{Revision: c.GetRevision(), Full: c.GetFull(), Seed: c.GetSeed(), Epoch: c.GetEpoch()}
	}
	o.pending.Resources = append(o.pending.Resources, c.GetResources()...)
	o.pending.Deleted = append(o.pending.Deleted, c.GetDeleted()...)
	o.pending.Unreadable = append(o.pending.Unreadable, c.GetUnreadable()...)
	if !c.GetLast() {
		return nil, nil, nil
	}
	p := o.pending
	o.pending = nil
	if err := o.apply(p); err != nil {
		return nil, &controlv1.Ack{Nonce: c.GetNonce(), Error: err.Error()}, nil
	}
	if p.GetEpoch() > o.epoch {
		o.epoch, o.seq = p.GetEpoch(), 0
	}
	return o.config, &controlv1.Ack{Nonce: c.GetNonce()}, nil
}

func (o *Orders) apply(c *controlv1.Configuration) error {
	switch {
	case c.GetFull():
		o.offered.Replace(append(o.kept(c.GetUnreadable()), c.GetResources()...))
		o.whole = true
	case !o.whole:
		return fmt.Errorf("configuration %d is a change, and this agent has nothing to change: send it whole", c.GetRevision())
	default:
		o.offered.Change(c.GetResources(), c.GetDeleted())
	}
	config, left, err := o.offered.Config(c.GetRevision(), c.GetSeed())
	if err != nil {
		return fmt.Errorf("configuration %d refused: %w", c.GetRevision(), err)
	}
	o.config, o.left = config, left
	o.source = &controlv1.Configuration{Revision: c.GetRevision(), Full: true, Last: true, Seed: c.GetSeed(), Epoch: c.GetEpoch(), Resources: o.offered.Resources()}
	return nil
}

// kept is what this agent has of what the coordinator cannot read.
func (o *Orders) kept(names []string) []*quotav1.Resource {
	var out []*quotav1.Resource
	for _, r := range o.offered.Resources() {
		if slices.Contains(names, resource.Name(r)) {
			out = append(out, r)
		}
	}
	return out
}

// Reset forgets a configuration that a broken stream left half sent.
func (o *Orders) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = nil
}

// Grant is what leases that were obeyed say.
type Grant struct {
	Shares  *exchange.Shares
	Members []*controlv1.Replica
	Changed bool          // Members are not those of the leases before
	Until   time.Duration // soft expiry
}

// Leases obeys leases, nil if they are older than those in force. A
// *StaleEpochError means that the stream's coordinator leads no more; other
// errors mean that these leases are not usable and the older ones hold.
func (o *Orders) Leases(now time.Duration, l *controlv1.Leases) (*Grant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l.GetEpoch() < o.epoch {
		return nil, &StaleEpochError{Got: l.GetEpoch(), Obeyed: o.epoch}
	}
	shares, err := o.shareOut(l)
	if errors.Is(err, errOlder) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g := &Grant{Shares: shares, Members: l.GetMembers(), Until: now + softExpiry(l),
		Changed: !slices.EqualFunc(l.GetMembers(), o.leases.GetMembers(), sameReplica)}
	o.leases, o.shares, o.renewed = l, shares, now
	o.epoch, o.seq = l.GetEpoch(), l.GetSeq()
	return g, nil
}

func sameReplica(a, b *controlv1.Replica) bool {
	return a.GetName() == b.GetName() && a.GetWeight() == b.GetWeight()
}

func (o *Orders) shareOut(l *controlv1.Leases) (*exchange.Shares, error) {
	if l.GetEpoch() == o.epoch && l.GetSeq() <= o.seq && o.seq > 0 {
		return nil, errOlder
	}
	s := &exchange.Shares{Epoch: l.GetEpoch(), Revision: l.GetRevision()}
	for _, x := range l.GetLeases() {
		if !usable(x.GetShare()) {
			return nil, fmt.Errorf("leases of epoch %d: share of tenant %q in pool %q is %v, want >= 0", l.GetEpoch(), x.GetTenant(), x.GetPool(), x.GetShare())
		}
		s.Flows = append(s.Flows, exchange.Share{Tenant: x.GetTenant(), Pool: x.GetPool(), Share: x.GetShare()})
	}
	for _, p := range l.GetPools() {
		if !usable(p.GetPrice()) || !usable(p.GetIdleShare()) {
			return nil, fmt.Errorf("leases of epoch %d: pool %q has price %v and idle share %v, want both >= 0", l.GetEpoch(), p.GetPool(), p.GetPrice(), p.GetIdleShare())
		}
		s.Pools = append(s.Pools, exchange.PoolShare{Pool: p.GetPool(), Price: p.GetPrice(), IdleShare: p.GetIdleShare()})
	}
	return s, nil
}

func usable(v float64) bool { return v >= 0 && !math.IsNaN(v) }

func softExpiry(l *controlv1.Leases) time.Duration {
	if d := l.GetSoftExpiry().AsDuration(); d > 0 {
		return d
	}
	return defaultSoftExpiry
}

// Expire returns the shares flagged as stale when they have just become so, nil
// otherwise. Call it every now and then.
func (o *Orders) Expire(now time.Duration) *exchange.Shares {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shares == nil || o.shares.Stale || now < o.renewed+softExpiry(o.leases) {
		return nil
	}
	o.freeze()
	return o.shares
}

func (o *Orders) freeze() {
	stale := *o.shares
	stale.Stale = true
	o.shares = &stale
}

// InForce returns what gateways are to enforce now; nil is nothing yet.
func (o *Orders) InForce() (*config.Config, *exchange.Shares) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.config, o.shares
}

// Status is what is in force, in brief.
type Status struct {
	Revision  int64 // of the configuration, 0 = none
	Resources int
	LeftOut   []config.LeftOut       // of the configuration, by this agent
	Epoch     int64                  // highest obeyed
	Leases    int                    // flows with a share
	Members   int                    // of the last leases
	Pools     []*controlv1.PoolLease // of the last leases
	Stale     bool                   // leases are past their soft expiry, or there are none
	Age       time.Duration          // since they were renewed; negative = never in this life
}

// Status returns what is in force.
func (o *Orders) Status(now time.Duration) Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := Status{Revision: o.source.GetRevision(), Resources: len(o.source.GetResources()), LeftOut: o.left, Epoch: o.epoch,
		Leases: len(o.leases.GetLeases()), Members: len(o.leases.GetMembers()), Pools: o.leases.GetPools(), Stale: o.shares == nil || o.shares.Stale, Age: -1}
	if o.renewed > 0 {
		s.Age = now - o.renewed
	}
	return s
}

// Snapshot returns what is worth keeping on disk, nil before the first
// configuration.
func (o *Orders) Snapshot() *lastgood.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.source == nil {
		return nil
	}
	return &lastgood.Snapshot{Configuration: o.source, Leases: o.leases}
}

// Restore puts a snapshot in force; its leases are stale. An error says why it
// cannot be used; nothing has changed then.
func (o *Orders) Restore(s *lastgood.Snapshot) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b compile.Book
	b.Replace(s.Configuration.GetResources())
	config, left, err := b.Config(s.Configuration.GetRevision(), s.Configuration.GetSeed())
	if err != nil {
		return err
	}
	var shares *exchange.Shares
	if s.Leases != nil {
		if shares, err = o.shareOut(s.Leases); err != nil {
			return err
		}
	}
	o.offered, o.whole, o.config, o.left, o.source = b, true, config, left, s.Configuration
	o.epoch = s.Configuration.GetEpoch()
	if shares != nil {
		o.leases, o.shares = s.Leases, shares
		if s.Leases.GetEpoch() >= o.epoch {
			o.epoch, o.seq = s.Leases.GetEpoch(), s.Leases.GetSeq()
		}
		o.freeze()
	}
	return nil
}
