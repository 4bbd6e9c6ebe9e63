// Package places keeps which name of an identity or class has which place in
// this process.
//
// # Model
//
// Limits and filters know identities and classes by name; per request they are
// bits and array elements. The two meet here: each configuration of a filter or
// route takes places for its names when it is read and gives them back when
// Envoy destroys it. A name has one place however many configurations use it.
//
// # Invariants
//
//   - A name keeps its place as long as one configuration uses it.
//   - A place that nobody uses keeps its name until another one needs it, so a
//     reload that destroys first and reads later changes nothing.
//   - Take takes all places of a configuration or none.
//   - Whoever keeps the names is told of a change before Take returns: no request
//     carries a place that is not yet known.
package places

import (
	"fmt"
	"sync"

	"github.com/titrate/titrate/control/limiter"
)

// Registry keeps the places of a process. Safe for concurrent use.
type Registry struct {
	mu         sync.Mutex
	identities table
	classes    table
	told       limiter.Names
	tell       func(limiter.Names)
}

// New returns a registry that tells of each change.
func New(tell func(limiter.Names)) *Registry {
	return &Registry{
		identities: table{kind: "identities", slots: make([]slot, limiter.MaxIdentities)},
		classes:    table{kind: "classes", slots: make([]slot, limiter.MaxClasses)},
		tell:       tell,
	}
}

// Held are the places that one configuration has taken.
type Held struct {
	Identities, Classes []int  // places, in the order of the names
	IdentityBits        uint32 // the same as masks
	ClassBits           uint32
}

// Take takes places for names, each of which must occur once. It fails when the
// process has no place left.
func (r *Registry) Take(identities, classes []string) (h Held, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.Identities, h.IdentityBits, err = r.identities.take(identities); err != nil {
		return Held{}, err
	}
	if h.Classes, h.ClassBits, err = r.classes.take(classes); err != nil {
		r.identities.give(h.IdentityBits)
		return Held{}, err
	}
	if n := r.names(); n != r.told {
		r.told = n
		r.tell(n)
	}
	return h, nil
}

// Give gives places back.
func (r *Registry) Give(identities, classes uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.identities.give(identities)
	r.classes.give(classes)
}

// Names are the names of all places as they are.
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
	return n
}

// slot is one place.
type slot struct {
	name  string
	users int
}

type table struct {
	kind  string
	slots []slot
}

// take counts one user more of each name.
func (t *table) take(names []string) (at []int, bits uint32, err error) {
	for _, name := range names {
		i := t.find(name)
		if i < 0 {
			t.give(bits)
			return nil, 0, fmt.Errorf("titrate: %s has no place: all configurations in use by this Envoy may name %d %s together", name, len(t.slots), t.kind)
		}
		s := &t.slots[i]
		s.name = name
		s.users++
		at, bits = append(at, i), bits|1<<i
	}
	return at, bits, nil
}

// find returns the place of a name, or one that it may have: one without a name
// before one that somebody may come back for. -1: there is none.
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

func (t *table) give(bits uint32) {
	for i := range t.slots {
		if bits>>i&1 != 0 {
			t.slots[i].users--
		}
	}
}
