package applied

import (
	"fmt"
	"slices"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/agent/compile"
	"github.com/titrate/titrate/services/agent/lastgood"
	"github.com/titrate/titrate/services/store/resource"
)

// Offer is the set of resources that the coordinator sends, change by change. To compile
// it can take a second, so it is apart from [State]. Not safe for concurrent use.
type Offer struct {
	resources compile.Book
	whole     bool // resources began with a full configuration
	pending   *controlv1.Configuration
}

// Add takes a chunk of a configuration. After the last chunk it returns the compiled
// configuration, or an error that says why it is refused; before, nil and nil.
func (o *Offer) Add(c *controlv1.Configuration) (*Configuration, error) {
	if p := o.pending; p == nil || p.GetRevision() != c.GetRevision() || c.GetFull() && !p.GetFull() {
		o.pending = &controlv1.Configuration{Revision: c.GetRevision(), Full: c.GetFull(), Seed: c.GetSeed(),
			Epoch: c.GetEpoch()}
	}
	o.pending.Resources = append(o.pending.Resources, c.GetResources()...)
	o.pending.Deleted = append(o.pending.Deleted, c.GetDeleted()...)
	o.pending.Unreadable = append(o.pending.Unreadable, c.GetUnreadable()...)
	if !c.GetLast() {
		return nil, nil
	}
	p := o.pending
	o.pending = nil
	return o.change(p)
}

func (o *Offer) change(c *controlv1.Configuration) (*Configuration, error) {
	switch {
	case c.GetFull():
		o.resources.Replace(append(o.kept(c.GetUnreadable()), c.GetResources()...))
		o.whole = true
	case !o.whole:
		return nil, fmt.Errorf("configuration %d is a change, and this agent has nothing to change: send it whole",
			c.GetRevision())
	default:
		o.resources.Change(c.GetResources(), c.GetDeleted())
	}
	compiled, err := o.compile(&controlv1.Configuration{Revision: c.GetRevision(), Full: true, Last: true,
		Seed: c.GetSeed(), Epoch: c.GetEpoch(), Resources: o.resources.Resources()})
	if err != nil {
		return nil, fmt.Errorf("configuration %d refused: %w", c.GetRevision(), err)
	}
	return compiled, nil
}

func (o *Offer) compile(source *controlv1.Configuration) (*Configuration, error) {
	config, left, err := o.resources.Config(source.GetRevision(), source.GetSeed())
	if err != nil {
		return nil, err
	}
	return &Configuration{Config: config, LeftOut: left, Source: source}, nil
}

// kept returns the resources that this agent has and the coordinator cannot read.
func (o *Offer) kept(names []string) []*quotav1.Resource {
	var out []*quotav1.Resource
	for _, r := range o.resources.Resources() {
		if slices.Contains(names, resource.Name(r)) {
			out = append(out, r)
		}
	}
	return out
}

// Reset forgets a configuration of which a stream that broke has sent a part.
func (o *Offer) Reset() { o.pending = nil }

// Restore takes the resources of a snapshot, and compiles them.
func (o *Offer) Restore(s *lastgood.Snapshot) (*Configuration, error) {
	restored := Offer{whole: true}
	restored.resources.Replace(s.Configuration.GetResources())
	c, err := restored.compile(s.Configuration)
	if err != nil {
		return nil, err
	}
	*o = restored
	return c, nil
}
