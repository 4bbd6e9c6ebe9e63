package slots

import (
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
)

// The agents come and go, and with them the owners of keys.

const (
	// margin is added to slots.ExpireAfter for the time in which agents learn of a change.
	margin = 200 * time.Millisecond
	// unknownFor is the longest time for which a gateway that no owner knows may start requests, see rule 3.
	unknownFor = time.Duration(slots.ExpireAfter) + margin
	// maxEarlier bounds the lists of agents that are remembered.
	maxEarlier = 16
)

// Changed notes the agents among which keys have owners, by the lives that gateways here know, and a digest of their
// names. The first call is at the start of this agent, whose gateways may have slots of an earlier process.
func (d *Desk) Changed(now time.Duration, lives map[uint64]string, digest uint64) {
	d.now = now
	switch {
	case d.settled:
		d.earlier = []exchange.Owners{d.owners}
	case len(d.earlier) == maxEarlier:
		d.earlier = []exchange.Owners{{}} // the owners before are not known
	default:
		d.earlier = append(d.earlier, d.owners)
	}
	names, owners := map[string]uint64{}, exchange.Owners{}
	for life, name := range lives {
		names[name] = life
		owners.List = append(owners.List, exchange.Owner{Hash: exchange.OwnerHash(name), Life: life})
		d.came = d.came || d.names[name] != life
	}
	if len(d.names) == 0 {
		d.gone = now + unknownFor
	}
	for name := range d.names {
		if _, here := names[name]; !here {
			d.gone = now + unknownFor
		}
	}
	d.lives, d.names, d.digest, d.owners = lives, names, digest, owners
	d.listen, d.settled = now+unknownFor, false
	for _, k := range d.keys {
		switch away := d.o.Owner(k.hash) != d.o.Agent; {
		case away:
			k.away = true
			k.o.Suspend()
			d.due.Set(k.hash, 0)
		case k.away:
			k.away = false
			k.o.Resume(d.listenUntil(k.hash))
			d.schedule(k)
		}
	}
}

// SetPart notes that so many of all agents are reached. All include agents that failed lately. The others may be on
// the other side of a cut, with owners of their own. So the owners here have their part of each limit's slots only, at
// least one. All sides together have no more than there are, if each agent reaches all others of its side, and if there
// are as many slots as sides.
func (d *Desk) SetPart(now time.Duration, reached, all int) {
	if int64(reached) == d.reached && int64(all) == d.all {
		return
	}
	d.now, d.reached, d.all = now, int64(reached), int64(all)
	for _, hash := range slices.Sorted(maps.Keys(d.keys)) {
		k := d.keys[hash]
		k.revision = -1
		d.renew(k)
		d.schedule(k)
	}
}

// part returns the slots of a limit that the owners here have.
func (d *Desk) part(limit int64) int64 { return max(min(limit, 1), limit*d.reached/max(d.all, 1)) }

// listenUntil returns the time before which the owner of a key that is new here grants nothing, see rule 3. A key that
// this agent has owned all the time, and that is new, no gateway has.
func (d *Desk) listenUntil(key uint64) int64 {
	isMine := func(o exchange.Owners) bool { return o.Of(key) == d.o.Life }
	if d.settled || !d.came && !slices.ContainsFunc(d.earlier, func(o exchange.Owners) bool { return !isMine(o) }) {
		return 0
	}
	return int64(d.listen)
}

// Listens reports whether owners here may wait until all gateways have registered.
func (d *Desk) Listens() bool { return d.came && len(d.keys) > 0 }

// Settled notes that all gateways of all agents have registered with the owners of now.
func (d *Desk) Settled(now time.Duration) {
	d.now = now
	d.came, d.listen = false, min(d.listen, max(d.gone, now))
	d.settled = now >= d.listen
	for _, hash := range slices.Sorted(maps.Keys(d.keys)) {
		k := d.keys[hash]
		switch {
		case k.away && d.settled:
			d.forget(k)
		case !k.away && d.listenUntil(hash) == 0:
			k.o.Listened(int64(now), outbox{d, k})
			d.schedule(k)
		}
	}
}
