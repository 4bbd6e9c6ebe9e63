package config

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Instant is a time of day and date, in milliseconds since 1970 UTC. 0: none.
type Instant int64

// InstantOf returns the instant of a time.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time returns the time of an instant that is not 0, in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// String is as a document has it.
func (i Instant) String() string { return i.Time().Format(time.RFC3339Nano) }

// Over reports whether what holds until i has lapsed at an instant. Neither lapses at the instant 0: the time is not
// known.
func (i Instant) Over(at Instant) bool { return i != 0 && at >= i }

// lastInstant bounds what a document may say: it catches milliseconds that were written as seconds.
const lastInstant = Instant(7_258_118_400_000) // the year 2200

func (i Instant) validate(path string) error {
	if i < 0 || i > lastInstant {
		return &FieldError{join(path, "until"), i,
			"a time from 1970 to 2200 with its zone, such as 2026-12-01T00:00:00Z"}
	}
	return nil
}

// lapses reports whether a limit, or one of its overrides, has lapsed at an instant.
func (l *Limit) lapses(at Instant) bool {
	if l.Until.Over(at) {
		return true
	}
	for _, rb := range l.Overrides {
		if rb.Until.Over(at) {
			return true
		}
	}
	return false
}

// limitsAt returns the limits of a list that hold at an instant, with the overrides that hold. The list stays as it
// is; it is returned if all of it holds.
func limitsAt(list []Limit, at Instant) []Limit {
	if !slices.ContainsFunc(list, func(l Limit) bool { return l.lapses(at) }) {
		return list
	}
	var out []Limit
	for _, l := range list {
		if l.Until.Over(at) {
			continue
		}
		if l.lapses(at) {
			l.Overrides = maps.Clone(l.Overrides)
			maps.DeleteFunc(l.Overrides, func(_ string, rb RateBurst) bool { return rb.Until.Over(at) })
		}
		out = append(out, l)
	}
	return out
}

// At returns what of a tenant holds at an instant. The tenant stays as it is.
func (t *Tenant) At(at Instant) Tenant {
	out := *t
	out.Limits = limitsAt(t.Limits, at)
	if lapsed := overAt(at); slices.ContainsFunc(t.Quotas, lapsed) {
		out.Quotas = slices.DeleteFunc(slices.Clone(t.Quotas), lapsed)
	}
	return out
}

func overAt(at Instant) func(Quota) bool { return func(q Quota) bool { return q.Until.Over(at) } }

// tenantsAt returns what of some tenants holds at an instant. The list stays as it is; it is returned if all of it
// holds.
func tenantsAt(list []Tenant, at Instant) []Tenant {
	out := list
	for i := range list {
		t := &list[i]
		if !slices.ContainsFunc(t.Quotas, overAt(at)) &&
			!slices.ContainsFunc(t.Limits, func(l Limit) bool { return l.lapses(at) }) {
			continue
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		out[i] = t.At(at)
	}
	return out
}

// At returns what of a configuration holds at an instant. The configuration stays as it is.
func (c *Config) At(at Instant) *Config {
	out := *c
	out.Defaults, out.Plans, out.Tenants = limitsAt(c.Defaults, at), tenantsAt(c.Plans, at), tenantsAt(c.Tenants, at)
	out.Overrides = slices.Clone(c.Overrides)
	for i := range out.Overrides {
		out.Overrides[i].Table = out.Overrides[i].Table.At(at)
	}
	return &out
}

// At returns what of a delta, whose overrides are resolved, holds at an instant. The delta stays as it is.
func (d *Delta) At(at Instant) *Delta {
	out := *d
	out.Plans, out.Tenants = tenantsAt(d.Plans, at), tenantsAt(d.Tenants, at)
	out.Overrides = slices.Clone(d.Overrides)
	for i := range out.Overrides {
		out.Overrides[i].table = out.Overrides[i].table.At(at)
	}
	if d.Shared != nil {
		shared := d.Shared.At(at)
		out.Shared = &shared
	}
	return &out
}

// At returns what of the shared part holds at an instant.
func (s Shared) At(at Instant) Shared {
	return Shared{s.Pools, limitsAt(s.Defaults, at), tenantsAt(s.Plans, at)}
}

// OverrideAt returns a client's override, if there is one and it holds at an instant.
func (l *Limit) OverrideAt(client string, at Instant) (rb RateBurst, found bool) {
	if rb, found = l.Overrides[client]; found && !rb.Until.Over(at) {
		return rb, true
	}
	return RateBurst{}, false
}

// Lapses is the calendar of a [Set]: when its parts lapse next. The zero value belongs to an empty set. Nothing is
// kept of a tenant without an Until.
type Lapses struct {
	shared  Instant            // the earliest of the defaults and the plans that has not come; 0: none
	tenants map[string]Instant // the same by tenant; no 0 in it
	over    map[OverridesOf]Instant
}

// Replace takes in a whole configuration, of which all that lapses by an instant has lapsed. O(configuration).
func (l *Lapses) Replace(c *Config, at Instant) {
	l.shared, l.tenants = Shared{nil, c.Defaults, c.Plans}.next(at), map[string]Instant{}
	l.put(c.Tenants, at)
	l.over = map[OverridesOf]Instant{}
	for _, one := range c.Overrides {
		l.putOverrides(one.OverridesOf, one.Table, at)
	}
}

// Change takes in a delta, whose overrides are resolved, in the same way. O(delta).
func (l *Lapses) Change(d *Delta, at Instant) {
	if d.Shared != nil {
		l.shared = d.Shared.next(at)
	}
	for i := range d.Plans { // a part that was replaced may be next: Take finds out
		l.shared = earlier(l.shared, d.Plans[i].next(at), at)
	}
	l.put(d.Tenants, at)
	for _, name := range d.Removed {
		delete(l.tenants, name)
	}
	for _, c := range d.Overrides {
		l.putOverrides(c.OverridesOf, c.table, at)
	}
}

func (l *Lapses) putOverrides(of OverridesOf, table *Overrides, at Instant) {
	next := table.next(at)
	if next == 0 {
		delete(l.over, of)
		return
	}
	if l.over == nil {
		l.over = map[OverridesOf]Instant{}
	}
	l.over[of] = next
}

func (l *Lapses) put(list []Tenant, at Instant) {
	for i := range list {
		t := &list[i]
		next := t.next(at)
		if next == 0 {
			delete(l.tenants, t.Name)
			continue
		}
		if l.tenants == nil {
			l.tenants = map[string]Instant{}
		}
		l.tenants[t.Name] = next
	}
}

// next is the earliest instant after at, at which something of the defaults or the plans lapses; 0: nothing does.
func (s Shared) next(at Instant) Instant {
	next := nextOf(s.Defaults, at)
	for i := range s.Plans {
		next = earlier(next, s.Plans[i].next(at), at)
	}
	return next
}

// next is the same of a tenant's own.
func (t *Tenant) next(at Instant) Instant {
	next := nextOf(t.Limits, at)
	for _, q := range t.Quotas {
		next = earlier(next, q.Until, at)
	}
	return next
}

// nextOf is the earliest instant after at, at which a limit of a list or an override lapses; 0: none does.
func nextOf(list []Limit, at Instant) (next Instant) {
	for i := range list {
		next = earlier(next, list[i].Until, at)
		for _, rb := range list[i].Overrides {
			next = earlier(next, rb.Until, at)
		}
	}
	return next
}

// earlier is the earlier of next and an instant, which counts if it is after at.
func earlier(next, one, at Instant) Instant {
	if one == 0 || one.Over(at) || next != 0 && next <= one {
		return next
	}
	return one
}

// Next returns the earliest instant at which something lapses; 0: nothing does. O(tenants with an Until).
func (l *Lapses) Next() Instant {
	next := l.shared
	for _, one := range l.tenants {
		next = earlier(next, one, 0)
	}
	for _, one := range l.over {
		next = earlier(next, one, 0)
	}
	return next
}

// Lapsed says of whom something has lapsed.
type Lapsed struct {
	Shared    bool // the defaults or plans
	Tenants   []string
	Overrides []OverridesOf
}

// Any reports whether something has lapsed.
func (l *Lapsed) Any() bool { return l.Shared || len(l.Tenants)+len(l.Overrides) > 0 }

// Take returns of whom in a set something has lapsed by an instant, and was not returned before. O(tenants and tables
// of overrides with an Until, and the configuration of those returned).
func (l *Lapses) Take(in *Set, at Instant) (out Lapsed) {
	if out.Shared = l.shared.Over(at); out.Shared {
		l.shared = in.Shared().next(at)
	}
	for name, one := range l.tenants {
		if one.Over(at) {
			out.Tenants = append(out.Tenants, name)
		}
	}
	slices.SortFunc(out.Tenants, strings.Compare)
	for _, name := range out.Tenants {
		if t := in.Tenant(name); t != nil {
			l.put([]Tenant{*t}, at)
		} else {
			delete(l.tenants, name)
		}
	}
	for of, one := range l.over {
		if one.Over(at) {
			out.Overrides = append(out.Overrides, of)
		}
	}
	slices.SortFunc(out.Overrides, OverridesOf.Compare)
	for _, of := range out.Overrides {
		l.putOverrides(of, in.Overrides(of), at)
	}
	return out
}

// LapsedDelta is a change of a set, of the same revision, in which the named is as it is: At leaves out of it what has
// lapsed.
func (s *Set) LapsedDelta(of *Lapsed) *Delta {
	d := &Delta{Base: s.Revision(), Revision: s.Revision()}
	for _, name := range of.Tenants {
		if t := s.Tenant(name); t != nil {
			d.Tenants = append(d.Tenants, *t)
		}
	}
	for _, one := range of.Overrides {
		d.Overrides = append(d.Overrides, OverrideChange{OverridesOf: one, table: s.over[one], known: true})
	}
	return d
}
