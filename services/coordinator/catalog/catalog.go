// Package catalog is the configuration in memory: what the store's watch has
// delivered, for the round (compiled) and for the streams (whole, or what has
// changed since a revision).
//
// # Model
//
// The catalog applies batches of the store in order. It keeps the resources by
// name and the last batches, so that an agent that is a few revisions behind gets
// the difference and one that is further behind gets everything.
//
// # Invariants
//
//   - Revision never goes back, but for a reset that says so.
//   - Applying Since(r) to the configuration of revision r gives the present one.
//   - While the configuration is held, and for what cannot be read, what was known
//     stays in force.
//   - Resources are shared, never changed: whoever gets one must not write to it.
package catalog

import (
	"maps"
	"slices"
	"sync"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/round"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// history is how many batches are kept for agents that lag. More serves longer
// lags with differences, at that much memory.
const history = 128

// Change is a configuration, or the difference to an older one.
type Change struct {
	Revision  int64
	Full      bool // replaces everything
	Resources []*quotav1.Resource
	Deleted   []string
	// Unreadable names, with Full: the catalog does not know what is stored there, and
	// a holder keeps what it has of them.
	Unreadable []string
}

// Trouble is what is wrong with the configuration in etcd.
type Trouble struct {
	Held       string   // why nothing new is delivered, "" = it is
	Unreadable []string // names of stored values that cannot be read, sorted
	Lost       uint64   // how often etcd's history was found to be another one
}

// Catalog is safe for concurrent use.
type Catalog struct {
	mu        sync.Mutex
	known     bool
	revision  int64
	resources map[string]*quotav1.Resource
	recent    []store.Batch // oldest first, none of them a reset
	floor     int64         // revision before recent[0]
	config    *round.Config
	changed   chan struct{}
	trouble   Trouble
}

// New makes a catalog that knows nothing yet.
func New() *Catalog {
	return &Catalog{resources: map[string]*quotav1.Resource{}, changed: make(chan struct{}), config: &round.Config{}}
}

// Apply takes one batch.
func (c *Catalog) Apply(b store.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(b)
	if b.Held != "" {
		return
	}
	if b.Reset {
		c.reset(b)
	} else {
		c.remember(b)
	}
	for _, r := range b.Resources {
		c.resources[resource.Name(r)] = r
	}
	for _, name := range b.Deleted {
		delete(c.resources, name)
	}
	c.known, c.revision = true, b.Revision
	c.config = compile(b.Revision, c.resources)
	close(c.changed)
	c.changed = make(chan struct{})
}

// reset forgets all but what the batch cannot tell.
func (c *Catalog) reset(b store.Batch) {
	maps.DeleteFunc(c.resources, func(name string, _ *quotav1.Resource) bool { return !slices.Contains(b.Unreadable, name) })
	c.recent, c.floor = nil, b.Revision
}

// note keeps what a batch says of the trouble with etcd.
func (c *Catalog) note(b store.Batch) {
	t := &c.trouble
	t.Held = b.Held
	if b.Lost != "" {
		t.Lost++
	}
	if b.Held != "" {
		return
	}
	unreadable := map[string]bool{}
	for _, name := range b.Unreadable {
		unreadable[name] = true
	}
	for _, name := range t.Unreadable {
		unreadable[name] = unreadable[name] || !b.Reset
	}
	for _, r := range b.Resources {
		delete(unreadable, resource.Name(r))
	}
	for _, name := range b.Deleted {
		delete(unreadable, name)
	}
	maps.DeleteFunc(unreadable, func(_ string, is bool) bool { return !is })
	t.Unreadable = slices.Sorted(maps.Keys(unreadable))
}

// Trouble is what is wrong now.
func (c *Catalog) Trouble() Trouble {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

func (c *Catalog) remember(b store.Batch) {
	c.recent = append(c.recent, b)
	if len(c.recent) > history {
		c.floor = c.recent[0].Revision
		c.recent = slices.Delete(c.recent, 0, 1)
	}
}

// Config is the configuration as the round wants it, and whether any is known; the
// channel closes when it changes.
func (c *Catalog) Config() (config *round.Config, known bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config, c.known, c.changed
}

// Since is what a holder of the given revision lacks: nothing (ok false) if it is
// up to date or the catalog knows nothing, a difference, or everything. A holder
// of nothing asks with -1.
func (c *Catalog) Since(revision int64) (change Change, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.known || revision == c.revision:
		return Change{}, false
	case revision < c.floor || revision > c.revision:
		return c.full(), true
	default:
		return c.difference(revision), true
	}
}

// Before tells whether the catalog is known and older than a revision.
func (c *Catalog) Before(revision int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known && c.revision < revision
}

func (c *Catalog) full() Change {
	change := Change{Revision: c.revision, Full: true, Resources: make([]*quotav1.Resource, 0, len(c.resources))}
	for _, name := range slices.Sorted(maps.Keys(c.resources)) {
		change.Resources = append(change.Resources, c.resources[name])
	}
	for _, name := range c.trouble.Unreadable {
		if c.resources[name] == nil {
			change.Unreadable = append(change.Unreadable, name)
		}
	}
	return change
}

// difference folds the batches after revision: of several changes the last counts.
func (c *Catalog) difference(revision int64) Change {
	touched := map[string]bool{}
	for _, b := range c.recent {
		if b.Revision <= revision {
			continue
		}
		for _, r := range b.Resources {
			touched[resource.Name(r)] = true
		}
		for _, name := range b.Deleted {
			touched[name] = true
		}
	}
	change := Change{Revision: c.revision}
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		if r := c.resources[name]; r != nil {
			change.Resources = append(change.Resources, r)
		} else if !slices.Contains(c.trouble.Unreadable, name) {
			change.Deleted = append(change.Deleted, name)
		}
	}
	return change
}
