package aggregation

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/titrate/titrate/control/claims"
)

// catchUp is the catch-up time of the tables.
const catchUp = claims.CatchUp * time.Second

// silence is the state of an unreachable replica: it is assumed to go on at its last claims, so the sums of its keys
// change with time.
type silence struct {
	on       bool
	at       int           // the place in the table of the key whose turn it is
	left     int           // entries of the table whose keys are to be sent once more; always: round and round
	back     float64       // when the last one ended, as the table knows it
	takeBack time.Duration // when the estimate of the last one is taken back; 0: it was
}

const always = math.MaxInt

// extrapolate updates the sums of the keys in a table of a replica last received at a time, which promised to send
// again within promise. changed is called for each. If no packet comes before, there is nothing more to do until
// t.silent. A replica that is late often costs no search of the table each time.
func (t *Aggregator) extrapolate(now time.Duration, in *claims.Table, id claims.Peer, s *silence,
	heard, promise time.Duration, changed func(now time.Duration, key uint64),
) {
	quiet, back := now-heard, in.Back(id)
	until := silentFrom(t.o.Period, heard, promise)
	speaks := now < until
	switch {
	case speaks && (s.on || back > s.back):
		*s = silence{back: back, takeBack: now + catchUp, at: s.at, left: in.Entries()}
	case speaks && s.takeBack > 0 && now >= s.takeBack:
		s.takeBack, s.left = 0, in.Entries()
	case speaks:
	case !s.on:
		s.on, s.left = true, always
	case quiet >= t.o.T2 && s.left == always: // its claims are dropped
		s.left = in.Entries()
	}
	t.sendTurns(now, in, id, s, changed)
	if speaks {
		t.silent = min(t.silent, until, cmp.Or(s.takeBack, until))
	}
}

// sendTurns calls changed for the keys of a replica whose turn it is.
func (t *Aggregator) sendTurns(now time.Duration, in *claims.Table, id claims.Peer, s *silence,
	changed func(now time.Duration, key uint64),
) {
	if s.left <= 0 {
		return
	}
	n := max(leastAtOnce, tellAtOnce/max(1, t.toTell))
	keys, looked := in.SomeKeysOf(id, s.at, min(s.left, n*searched), n)
	for _, key := range keys {
		changed(now, key)
	}
	s.at += looked
	if s.left != always {
		s.left -= looked
	}
	if s.left > 0 && (len(keys) > 0 || looked < in.Entries()) {
		t.silent = now
		t.telling++
	}
}

// goOn extrapolates the counts of unreachable replicas and owners at their last claims.
func (t *Aggregator) goOn(now time.Duration) {
	t.silent, t.toTell, t.telling = math.MaxInt64, t.telling, 0
	// For the agent of an unreachable gateway nothing changes: its sum is over the others.
	owned := func(of claims.Group) func(time.Duration, uint64) {
		return func(now time.Duration, key uint64) {
			t.tellUsers(now, key, of, false)
			t.tellSites(now, key)
		}
	}
	for _, o := range t.sortedLocals() {
		if o.presence == disconnected {
			t.extrapolate(now, t.owned, o.of.id, &o.silence, o.heard, 0, owned(t.self))
			t.extrapolate(now, t.table, o.of.id, &o.silenceHere, o.heard, 0, t.noteKey)
		}
	}
	for _, p := range t.sortedRemotes() {
		if !p.drained {
			t.extrapolate(now, t.owned, p.of.id, &p.silence, p.heard, p.promise,
				owned(t.group(p.agent)))
		}
	}
	byID := func(a, b *source) int { return cmp.Compare(a.id, b.id) }
	for _, s := range slices.SortedFunc(maps.Values(t.sources), byID) {
		if s != t.own {
			t.extrapolate(now, t.table, s.id, &s.silence, s.heard, s.promise, func(now time.Duration, key uint64) {
				if k := t.keys.get(key); k != nil && (k.source != s || k.others > 0) { // else there are no others
					t.note(now, key, k)
				}
			})
		}
	}
}

// hearLocals notes that the gateways that are connected live, and this agent.
func (t *Aggregator) hearLocals(now time.Duration) {
	t.table.Heard(t.own.id, now.Seconds())
	for _, o := range t.sortedLocals() {
		if o.presence == connected {
			o.heard = now
			t.table.Heard(o.of.id, now.Seconds())
			t.owned.Heard(o.of.id, now.Seconds())
		}
	}
}
