package applied

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/lastgood"
)

// defaultSoftExpiry holds for leases that name none.
const defaultSoftExpiry = 3 * time.Second

// StaleEpochError is the refusal of leases or of a configuration of a coordinator that was replaced.
type StaleEpochError struct{ Got, Applied int64 }

// Error names both epochs.
func (e *StaleEpochError) Error() string {
	return fmt.Sprintf("epoch %d refused: epoch %d was applied already; a coordinator takes a higher epoch when it "+
		"becomes the leader", e.Got, e.Applied)
}

// Configuration is a configuration that compiled.
type Configuration struct {
	Revision, Epoch int64
	Resources       int // how many it has
	// Config is the whole; nil: Delta is what has changed.
	Config  *config.Config
	Delta   *config.Delta
	LeftOut []config.LeftOut         // what of it is not valid, and not in force
	Source  *controlv1.Configuration // as the coordinator has sent it: a change, or full
}

// State is the configuration and the leases in force. Not safe for concurrent use.
type State struct {
	config  config.Set
	latest  *Configuration    // that was put in force, whole or a change; nil: none yet
	pools   map[string]holder // whose leases of each pool are in force
	holders []*Stream         // whose leases of some pool are in force, or the latest sender
	rest    Stream            // leases that nobody renews: of the snapshot, or of a pool between two leaders
	members membership        // of the leases of the highest epoch
	leases  *controlv1.Leases // in force, of all pools
	shares  *exchange.Shares
	lapses  config.Lapses // of config
	epoch   int64         // the highest obeyed
	lapsed  bool          // shares leave out the unused capacity of some pool

	reconfigured bool // after the last leases: the configuration may have lost pools
}

// CheckEpoch returns a *StaleEpochError if a configuration comes from a coordinator that
// was replaced. A coordinator that is too old to send its epoch (0) is believed.
func (o *State) CheckEpoch(epoch int64) error {
	if epoch > 0 && epoch < o.epoch {
		return &StaleEpochError{Got: epoch, Applied: o.epoch}
	}
	return nil
}

// Configure puts a configuration in force, or a change of the present one. Errors: a *StaleEpochError, or a
// *config.BaseError for a change of another one.
func (o *State) Configure(c *Configuration) error {
	if err := o.CheckEpoch(c.Epoch); err != nil {
		return err
	}
	if err := o.take(c); err != nil {
		return err
	}
	o.epoch = max(o.epoch, c.Epoch)
	return nil
}

func (o *State) take(c *Configuration) error {
	if c.Config != nil {
		o.config.Replace(c.Config)
		o.lapses.Replace(c.Config, 0)
	} else if err := o.config.Change(c.Delta); err != nil {
		return err
	} else {
		o.lapses.Change(c.Delta, 0)
	}
	o.latest, o.reconfigured = c, true
	return nil
}

// Lapse reports whether something has lapsed by an instant since the last call, and when the next lapse is; 0: never.
func (o *State) Lapse(at config.Instant) (has bool, next config.Instant) {
	lapsed := o.lapses.Take(&o.config, at)
	return lapsed.Any(), o.lapses.Next()
}

// Expire returns the shares when they have just become stale, marked as such, or when pools in them have
// just lost their unused capacity; nil otherwise. Call it each period.
func (o *State) Expire(now time.Duration) *exchange.Shares {
	switch {
	case o.shares == nil || o.shares.Stale:
		return nil
	case o.expired(now):
		o.freeze()
	case !o.lapse(now):
		return nil
	}
	return o.shares
}

func (o *State) freeze() {
	stale := *o.shares
	stale.Stale = true
	o.shares = &stale
}

// Configuration returns what gateways are to enforce now; nil is nothing yet.
func (o *State) Configuration() *config.Set {
	if o.latest == nil {
		return nil
	}
	return &o.config
}

// Delta returns the change from the previous configuration to the one in force, nil if it came whole.
func (o *State) Delta() *config.Delta {
	if o.latest == nil {
		return nil
	}
	return o.latest.Delta
}

// Shares returns the shares in force; nil is none yet.
func (o *State) Shares() *exchange.Shares { return o.shares }

// Status is a summary of the state in force.
type Status struct {
	Revision  int64 // of the configuration, 0 = none
	Resources int
	LeftOut   []config.LeftOut       // of the configuration, by this agent
	Epoch     int64                  // highest applied
	Leases    int                    // flows with a share
	Members   int                    // of the last leases
	Version   uint64                 // of the list of members, 0 = it has none
	Pools     []*controlv1.PoolLease // of the last leases
	Stale     bool                   // leases are past their soft expiry, or there are none
	Age       time.Duration          // since the oldest was renewed; negative = never in this life
}

// Status returns what is in force.
func (o *State) Status(now time.Duration) Status {
	s := Status{Epoch: o.epoch, Leases: len(o.leases.GetLeases()), Members: len(o.members.list),
		Version: o.members.version, Pools: o.leases.GetPools(),
		Stale: o.shares == nil || o.shares.Stale, Age: -1}
	if c := o.latest; c != nil {
		s.Revision, s.Resources, s.LeftOut = c.Revision, c.Resources, c.LeftOut
	}
	for _, h := range o.holders {
		if h.renewed > 0 {
			s.Age = max(s.Age, now-h.renewed)
		}
	}
	return s
}

// LastLeases are the leases in force, nil before the first.
func (o *State) LastLeases() *controlv1.Leases { return o.leases }

// Restore puts a snapshot in force, whose configuration compiled to c; its leases are
// stale. An error says why it cannot be used; nothing has changed then.
func (o *State) Restore(s *lastgood.Snapshot, c *Configuration) error {
	if err := checkNumbers(s.Leases); err != nil {
		return err
	}
	if err := o.take(c); err != nil {
		return err
	}
	o.epoch = c.Epoch
	if s.Leases != nil {
		o.restore(s.Leases)
	}
	return nil
}

// restore puts the leases of a snapshot in force, which nobody renews.
func (o *State) restore(l *controlv1.Leases) {
	sortLeases(l.GetLeases())
	o.rest = Stream{state: o, leases: l, renewed: -softExpiry(l)}
	o.holders, o.pools = []*Stream{&o.rest}, map[string]holder{}
	for name := range poolsOf(l) {
		o.pools[name] = holder{l.GetEpoch(), &o.rest}
	}
	for _, p := range l.GetPools() {
		if p.GetEpoch() > 0 {
			o.pools[p.GetPool()] = holder{p.GetEpoch(), &o.rest}
		}
	}
	o.epoch, o.leases = max(o.epoch, l.GetEpoch()), l
	o.members = membership{l.GetMembers(), l.GetMembersVersion()}
	o.shares = o.sharesOf(l, 0)
	o.freeze()
}
