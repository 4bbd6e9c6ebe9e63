package applied

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/compile"
	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/store/resource"
)

// Offer is the set of resources that coordinators send, change by change. To compile a
// whole set can take seconds, so it is apart from [State]. Not safe for concurrent use.
type Offer struct {
	book compile.Book
	in   *controlv1.Configuration // in force, without resources; nil: none yet
}

// Offered is the part of one stream in the Offer. Several coordinators send the same changes, each in its own time:
// changes that another stream has brought already are left out.
type Offered struct {
	offer   *Offer
	from    int64                    // revision that its Hello names
	begun   bool                     // it has brought a configuration, or a change
	pending *controlv1.Configuration // chunks of a configuration that is not complete
	// refused is a change that did not compile. The coordinator assumes that this agent has
	// it, so it is tried again together with the next change, which may repair it.
	refused *controlv1.Configuration
}

// Begin begins a stream whose Hello names a revision: its coordinator begins with what this agent lacks
// of what it holds now.
func (o *Offer) Begin(revision int64) *Offered { return &Offered{offer: o, from: revision} }

// ErrKnown says that another stream has brought a configuration already.
var ErrKnown = errors.New("this agent has that configuration already")

// Add takes a chunk of a configuration. After the last chunk it returns the compiled
// configuration, ErrKnown, or an error that says why it is refused; before, nil and nil.
func (o *Offered) Add(c *controlv1.Configuration) (*Configuration, error) {
	if p := o.pending; p == nil || p.GetRevision() != c.GetRevision() || c.GetFull() && !p.GetFull() {
		o.pending = header(c)
	}
	add(o.pending, c)
	if !c.GetLast() {
		return nil, nil
	}
	p := o.pending
	o.pending = nil
	in := o.offer.in
	if in != nil && o.known(p) {
		o.begun, o.refused = true, nil
		return nil, ErrKnown
	}
	switch {
	case p.GetFull():
	case o.refused != nil:
		p = then(o.refused, p)
	case in == nil:
		return nil, fmt.Errorf("configuration %d is a change, and this agent has nothing to change: send it whole",
			c.GetRevision())
	}
	o.begun = true
	compiled, err := o.offer.change(p)
	if o.refused = nil; err != nil {
		o.refused = p
		return nil, fmt.Errorf("configuration %d refused: %w", c.GetRevision(), err)
	}
	return compiled, nil
}

// known reports whether another stream has brought what p brings. The first word of a stream says at least that the
// present configuration is held. A lower one is known if the revision in force is not that of the Hello: another stream
// brought it. Else the coordinator does not believe that revision, and sends what it has. A whole configuration that
// follows others replaces what is held, also one of a higher revision: etcd has another history then.
func (o *Offered) known(p *controlv1.Configuration) bool {
	in := o.offer.in.GetRevision()
	if !o.begun {
		return in != o.from && p.GetRevision() < in
	}
	return !p.GetFull() && p.GetRevision() <= in
}

// header is a configuration without its resources.
func header(c *controlv1.Configuration) *controlv1.Configuration {
	return &controlv1.Configuration{Revision: c.GetRevision(), Full: c.GetFull(), Last: true, Seed: c.GetSeed(),
		Epoch: c.GetEpoch(), Ahead: c.GetAhead()}
}

// add adds the resources of c.
func add(to, c *controlv1.Configuration) {
	to.Resources = append(to.Resources, c.GetResources()...)
	to.Deleted = append(to.Deleted, c.GetDeleted()...)
	to.Unreadable = append(to.Unreadable, c.GetUnreadable()...)
}

// then joins two successive changes, or a whole configuration and its change.
func then(before, c *controlv1.Configuration) *controlv1.Configuration {
	out := header(c)
	out.Full = before.GetFull()
	again := make(map[string]bool, len(c.GetResources()))
	for _, r := range c.GetResources() {
		again[resource.Name(r)] = true
	}
	add(out, before)
	out.Deleted = slices.DeleteFunc(out.Deleted, func(name string) bool { return again[name] })
	add(out, c)
	return out
}

// change compiles a change or a whole configuration.
func (o *Offer) change(c *controlv1.Configuration) (*Configuration, error) {
	out := &Configuration{Revision: c.GetRevision(), Epoch: c.GetEpoch(), Source: c}
	if c.GetFull() || c.GetSeed() != o.in.GetSeed() {
		held := &controlv1.Configuration{Resources: o.book.Named(c.GetUnreadable())}
		if !c.GetFull() {
			b, _ := proto.Marshal(o.book.Resources()) // it came encoded
			_ = proto.Unmarshal(b, held)
		}
		fresh := compile.Book{Seed: c.GetSeed()}
		if _, err := fresh.Change(append(held.GetResources(), c.GetResources()...), c.GetDeleted()); err != nil {
			return nil, err
		}
		o.book = fresh
	} else {
		d, err := o.book.Change(c.GetResources(), c.GetDeleted())
		if err != nil {
			return nil, err
		}
		d.Base, d.Revision = o.in.GetRevision(), c.GetRevision()
		out.Delta = d
	}
	if out.Delta == nil {
		out.Config = o.book.Config()
		out.Config.Revision, out.Config.Seed = c.GetRevision(), c.GetSeed()
	}
	out.LeftOut, out.Resources = o.book.LeftOut(), o.book.Len()
	o.in = header(c)
	return out, nil
}

// Digest returns the digest of the resources of a revision's configuration, 0 if another revision is held.
func (o *Offer) Digest(revision int64) resource.Digest {
	if o.in.GetRevision() != revision {
		return 0
	}
	return o.book.Digest()
}

// SetAhead sets the difference of the clocks that a snapshot is to have, and reports whether it was off by a second.
func (o *Offer) SetAhead(ahead int64) bool {
	off := o.in != nil && max(ahead-o.in.GetAhead(), o.in.GetAhead()-ahead) >= 1000
	if off {
		o.in.Ahead = ahead
	}
	return off
}

// Source is the configuration in force as the coordinator has sent it, whole, to be encoded; nil: none yet.
func (o *Offer) Source() *controlv1.Configuration {
	if o.in == nil {
		return nil
	}
	c := o.book.Resources()
	proto.Merge(c, header(o.in))
	c.Full = true
	return c
}

// Restore takes the configuration of a snapshot, and compiles it.
func (o *Offer) Restore(s *lastgood.Snapshot) (*Configuration, error) {
	var restored Offer
	c, err := restored.change(s.Configuration)
	if err == nil {
		*o = restored
	}
	return c, err
}
