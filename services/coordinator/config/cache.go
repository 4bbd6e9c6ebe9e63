// Package config keeps the configuration in memory, as the store's watch delivers it. The allocator gets it compiled
// ([Cache.Allocation]). Agents get the whole configuration or what has changed since a revision ([Cache.Since]), or
// since a configuration that an agent holds from another coordinator ([Cache.Resume]).
//
// # Model
//
// A Cache applies the batches of the store in order. It keeps the resources by name and the last 128 batches: an agent
// that is a few revisions behind gets the difference, an agent that is further behind gets everything. The cost of a
// batch is in proportion to its size; a batch that changes tenants or quotas also copies that table.
//
// What an agent holds when it comes is known by its digest and not by its revision. The reason: etcd may have been
// restored meanwhile, and its two histories may have used one revision for two configurations.
//
// # Invariants
//
//   - The revision rises, except by a reset.
//   - Applying Since(r) to the configuration of revision r gives the present one, and so
//     does applying Resume(d) to a configuration with the digest d.
//   - While the configuration is held, nothing changes. A resource whose stored value
//     cannot be read stays as it was.
//   - Resources, configurations and changes are shared and never changed: a caller must not
//     write to them. A change is made and encoded once for all who lack the same.
package config

import (
	"maps"
	"slices"
	"sync"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// history is the number of batches that are kept for agents that are behind. More memory serves agents that are further
// behind with differences.
const history = 128

// Trouble lists the faults of the configuration in etcd.
type Trouble struct {
	Held       string   // why nothing new is delivered, "" if it is
	Unreadable []string // names of stored values that cannot be read, sorted
	Lost       uint64   // how often etcd was found restored from a backup or replaced
}

// Cache is safe for concurrent use.
type Cache struct {
	mu        sync.Mutex
	known     bool
	revision  int64
	resources map[string]*quotav1.Resource
	overrides map[string]int    // by limit, tenant, and "" for all
	digest    resource.Digest   // of resources
	recent    []step            // oldest first, none of them a reset
	floor     int64             // revision before recent[0]
	asked     map[int64]*Change // since the last batch, by the revision that they begin at; −1: everything
	compiler  compiler
	config    *allocation.Config // that it has made
	changed   chan struct{}
	trouble   Trouble
	timed     map[string]time.Time // quotas with an until that has not come, by name
	quotas    calendarQuotas
}

// step is a batch, and the digest of the configuration that it changed.
type step struct {
	store.Batch
	before resource.Digest
}

// New makes an empty cache: no configuration is known yet.
func New() *Cache {
	c := &Cache{resources: map[string]*quotav1.Resource{}, asked: map[int64]*Change{},
		changed: make(chan struct{}), timed: map[string]time.Time{}, overrides: map[string]int{}}
	c.compiler = compiler{resources: c.resources, planOf: map[string]string{}, plans: map[string]*plan{}}
	c.config = c.compiler.whole(0, time.Time{})
	return c
}

// Apply takes one batch.
func (c *Cache) Apply(b store.Batch) {
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
		c.set(resource.Name(r), r)
	}
	for _, name := range b.Deleted {
		c.set(name, nil)
	}
	c.known, c.revision = true, b.Revision
	clear(c.asked)
	if now := time.Now(); b.Reset {
		clear(c.timed)
		c.config = c.compiler.whole(b.Revision, now)
	} else {
		c.config = c.compiler.step(c.config, b.Revision, slices.Values(named(b)), now)
	}
	c.noteTimed(b)
	c.quotas.note(b, c.resources)
	close(c.changed)
	c.changed = make(chan struct{})
}

// set puts a resource in the place of the one of its name; nil deletes it.
func (c *Cache) set(name string, r *quotav1.Resource) {
	before := c.resources[name]
	c.digest = c.digest.Replace(before, r)
	c.count(before, -1)
	c.count(r, 1)
	if c.resources[name] = r; r == nil {
		delete(c.resources, name)
	}
}

// count counts a resource that comes, or goes with −1, if it is an override.
func (c *Cache) count(r *quotav1.Resource, step int) {
	if r.GetOverride() == nil {
		return
	}
	for _, of := range resource.ParentsOf(resource.Name(r)) {
		if c.overrides[of] += step; c.overrides[of] == 0 {
			delete(c.overrides, of)
		}
	}
}

// Overrides is the number of overrides that are resources, of a limit or a tenant, or of all for "".
func (c *Cache) Overrides(parent string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overrides[parent]
}

// named are the names of what a batch changes or deletes. Overrides that it changes are left out: they are no part of
// what shares are computed from.
func named(b store.Batch) (names []string) {
	for _, r := range b.Resources {
		if r.GetOverride() == nil {
			names = append(names, resource.Name(r))
		}
	}
	return append(names, b.Deleted...)
}

// Rehearse is the allocator's configuration as it is, and as a change would make it. O(resources).
func (c *Cache) Rehearse(resources []*quotav1.Resource, deleted []string, at time.Time) (now, next *allocation.Config) {
	c.mu.Lock()
	now, all := c.config, maps.Clone(c.resources)
	c.mu.Unlock()
	for _, r := range resources {
		all[resource.Name(r)] = r
	}
	for _, name := range deleted {
		delete(all, name)
	}
	return now, Compile(now.Revision, all, at)
}

// noteTimed notes the quotas of a batch that lapse.
func (c *Cache) noteTimed(b store.Batch) {
	for _, r := range b.Resources {
		delete(c.timed, resource.Name(r))
		if until := r.GetQuota().GetUntil(); until != nil {
			c.timed[resource.Name(r)] = until.AsTime()
		}
	}
	for _, name := range b.Deleted {
		delete(c.timed, name)
	}
}

// Lapse takes quotas that have lapsed out of the allocator's configuration. Resources stay as they are stored. Call it
// each round.
func (c *Cache) Lapse(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lapsed []string
	for name, until := range c.timed {
		if !now.Before(until) {
			lapsed = append(lapsed, name)
			delete(c.timed, name)
		}
	}
	if len(lapsed) > 0 {
		c.config = c.compiler.step(c.config, c.revision, slices.Values(lapsed), now)
	}
}

// reset removes all resources except those whose stored value cannot be read.
func (c *Cache) reset(b store.Batch) {
	maps.DeleteFunc(c.resources, func(name string, _ *quotav1.Resource) bool {
		return !slices.Contains(b.Unreadable, name)
	})
	c.digest = 0
	clear(c.overrides)
	for _, r := range c.resources {
		c.digest = c.digest.Replace(nil, r)
		c.count(r, 1)
	}
	c.recent, c.floor = nil, b.Revision
}

// note keeps what a batch says is wrong with etcd.
func (c *Cache) note(b store.Batch) {
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

// Trouble returns the present faults.
func (c *Cache) Trouble() Trouble {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

func (c *Cache) remember(b store.Batch) {
	c.recent = append(c.recent, step{b, c.digest})
	if len(c.recent) > history {
		c.floor = c.recent[0].Revision
		c.recent = slices.Delete(c.recent, 0, 1)
	}
}

// Allocation is the configuration compiled for the allocator. known is false before the
// first batch. The channel closes when the configuration changes.
func (c *Cache) Allocation() (config *allocation.Config, known bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config, c.known, c.changed
}

// Since returns what a receiver with the given revision lacks: the difference, or everything. ok is false if the
// receiver is up to date or no configuration is known. A receiver without a configuration asks with −1.
func (c *Cache) Since(revision int64) (change *Change, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.known || revision == c.revision:
		return nil, false
	case revision < c.floor || revision > c.revision:
		return c.change(everything), true
	default:
		return c.change(revision), true
	}
}

// Resume returns what a receiver lacks whose configuration has the digest: the difference, which
// may be empty, if that was one of the last configurations here, otherwise everything. A receiver
// without a configuration has the digest 0. ok is false if no configuration is known.
func (c *Cache) Resume(digest resource.Digest) (change *Change, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil, false
	}
	return c.change(c.revisionOf(digest)), true
}

// everything is the beginning of a change that replaces all that a receiver has.
const everything = -1

// maxAsked bounds the changes that are kept with the whole configuration for receivers of the same revision. Each may
// be as large as the whole.
const maxAsked = 4

// change is the one from a revision to the present. It is made once for all who ask for it.
func (c *Cache) change(from int64) *Change {
	if c.asked[from] != nil {
		return c.asked[from]
	}
	if len(c.asked) > maxAsked {
		maps.DeleteFunc(c.asked, func(r int64, _ *Change) bool { return r != everything })
	}
	if from == everything {
		c.asked[from] = c.whole()
	} else {
		c.asked[from] = c.difference(from)
	}
	return c.asked[from]
}

// revisionOf is the latest revision whose configuration had the digest; everything: none had.
func (c *Cache) revisionOf(digest resource.Digest) int64 {
	switch digest {
	case 0:
		return everything
	case c.digest:
		return c.revision
	}
	for i, s := range slices.Backward(c.recent) {
		switch {
		case s.before != digest:
		case i == 0:
			return c.floor
		default:
			return c.recent[i-1].Revision
		}
	}
	return everything
}

// Before reports whether a configuration is known and older than the revision.
func (c *Cache) Before(revision int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known && c.revision < revision
}

func (c *Cache) whole() *Change {
	change := &Change{Revision: c.revision, Full: true, Resources: make([]*quotav1.Resource, 0, len(c.resources))}
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

// difference combines the batches after the revision: of several changes of a resource the last counts.
func (c *Cache) difference(revision int64) *Change {
	if n := len(c.recent); revision < c.revision && (n == 1 || c.recent[n-2].Revision <= revision) { // one batch
		return &Change{Revision: c.revision, Resources: c.recent[n-1].Resources, Deleted: c.recent[n-1].Deleted}
	}
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
	change := &Change{Revision: c.revision}
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		if r := c.resources[name]; r != nil {
			change.Resources = append(change.Resources, r)
		} else if !slices.Contains(c.trouble.Unreadable, name) {
			change.Deleted = append(change.Deleted, name)
		}
	}
	return change
}
