// Package slots assigns a slot to each name of an identity, class or cost in this process.
//
// # Model
//
// Limits, pools and filters refer to identities, classes and costs by name. A request carries them as
// array elements and bits: an index is a slot. When Envoy loads the configuration of a
// filter or route, it acquires slots for its names; when Envoy destroys the
// configuration, it releases them. A name has one slot, however many configurations use
// it.
//
// # Invariants
//
//   - A name keeps its slot as long as one configuration uses it.
//   - A slot that no configuration uses keeps its name until another name needs the
//     slot, so a reload that destroys first and loads later changes nothing.
//   - Acquire gives a configuration all its slots or none.
//   - A change is published before Acquire returns, so no request carries a slot whose
//     name the engine does not know.
package slots

import (
	"fmt"
	"sync"

	"github.com/titrate/titrate/control/limiter"
)

// Registry has the slots of a process. Safe for concurrent use.
type Registry struct {
	mu         sync.Mutex
	identities table
	classes    table
	costs      table
	published  limiter.Names
	publish    func(limiter.Names)
}

// New returns a registry that publishes each change.
func New(publish func(limiter.Names)) *Registry {
	return &Registry{
		identities: table{kind: "identities", slots: make([]slot, limiter.MaxIdentities)},
		classes:    table{kind: "classes", slots: make([]slot, limiter.MaxClasses)},
		costs:      table{kind: "costs", slots: make([]slot, limiter.MaxCosts)},
		publish:    publish,
	}
}

// Acquired are the slots of one configuration.
type Acquired struct {
	Identities, Classes, Costs []int  // slots, in the order of the names
	IdentityBits               uint32 // the same slots as bits
	ClassBits, CostBits        uint32
}

// Acquire finds slots for names, each of which occurs once. It fails if the process has
// no free slot left.
func (r *Registry) Acquire(identities, classes, costs []string) (a Acquired, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Identities, a.IdentityBits, err = r.identities.acquire(identities); err != nil {
		return Acquired{}, err
	}
	if a.Classes, a.ClassBits, err = r.classes.acquire(classes); err != nil {
		r.identities.release(a.IdentityBits)
		return Acquired{}, err
	}
	if a.Costs, a.CostBits, err = r.costs.acquire(costs); err != nil {
		r.identities.release(a.IdentityBits)
		r.classes.release(a.ClassBits)
		return Acquired{}, err
	}
	if n := r.names(); n != r.published {
		r.published = n
		r.publish(n)
	}
	return a, nil
}

// Release ends one configuration's use of its slots.
func (r *Registry) Release(identities, classes, costs uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.identities.release(identities)
	r.classes.release(classes)
	r.costs.release(costs)
}

// Names returns the name of each slot, "" for none.
func (r *Registry) Names() limiter.Names {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names()
}

func (r *Registry) names() (n limiter.Names) {
	for i := range n.Identities {
		n.Identities[i] = r.identities.slots[i].name
	}
	for i := range n.Classes {
		n.Classes[i] = r.classes.slots[i].name
	}
	for i := range n.Costs {
		n.Costs[i] = r.costs.slots[i].name
	}
	return n
}

// slot is a name and the number of configurations that use it.
type slot struct {
	name  string
	users int
}

type table struct {
	kind  string
	slots []slot
}

// acquire counts one more user of each name.
func (t *table) acquire(names []string) (at []int, bits uint32, err error) {
	for _, name := range names {
		i := t.find(name)
		if i < 0 {
			t.release(bits)
			return nil, 0, fmt.Errorf("titrate: no slot is free for %q of %s: "+
				"all configurations in use by this Envoy may name %d %s together", name, t.kind, len(t.slots), t.kind)
		}
		s := &t.slots[i]
		s.name = name
		s.users++
		at, bits = append(at, i), bits|1<<i
	}
	return at, bits, nil
}

// find returns the slot of a name, or else a free one, or else −1. It prefers a free slot
// without a name: the other names may be used again after a reload.
func (t *table) find(name string) int {
	free := -1
	for i, s := range t.slots {
		switch {
		case s.name == name:
			return i
		case s.users == 0 && (free < 0 || s.name == "" && t.slots[free].name != ""):
			free = i
		}
	}
	return free
}

func (t *table) release(bits uint32) {
	for i := range t.slots {
		if bits>>i&1 != 0 {
			t.slots[i].users--
		}
	}
}
