package tokens

import (
	"cmp"
	"slices"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// Answer takes in what owners say, and appends the waits that it ends.
func (s *Store[W]) Answer(now int64, a *exchange.TokenAnswers, ended []Ended[W]) []Ended[W] {
	if s.wake == nil {
		return ended
	}
	if len(a.Owners.List) > 0 {
		s.setOwners(now, &a.Owners)
	}
	for i := range a.Grants {
		m := &a.Grants[i]
		ended = s.answered(now, m.Key, ended, func(en *entry[W]) {
			if en.g.Grant(now, m.Grant) && en.lined {
				en.road.Park(now, en, m.Wait)
			}
		}, nil)
	}
	for i := range a.Recalls {
		m := &a.Recalls[i]
		ended = s.answered(now, m.Key, ended, func(en *entry[W]) {
			s.renew(en, now)
			en.g.Recall(now, m.Recall)
		}, func(sh *shard[W]) {
			sh.out = append(sh.out, exchange.TokenRequest{Key: m.Key, Request: grant.Forgotten(m.Recall)})
			s.wake()
		})
	}
	if a.Division != nil {
		s.divide(now, *a.Division)
	}
	for i := range a.Calls {
		s.called(now, &a.Calls[i])
	}
	return ended
}

// answered does f with a key, or unknown with its shard, and ends the waits that may end.
func (s *Store[W]) answered(
	now int64, key uint64, ended []Ended[W], f func(*entry[W]), unknown func(*shard[W]),
) []Ended[W] {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	en := sh.keys[key]
	if en == nil {
		if unknown != nil {
			unknown(sh)
		}
		return ended
	}
	f(en)
	n := 0
	for _, w := range en.line {
		out := en.g.Retry(now, w.Since, w.Cost)
		if out == grant.Waits {
			break
		}
		ended = append(ended, Ended[W]{w, out, s.count(en, now, out)})
		n++
	}
	en.line = slices.Delete(en.line, 0, n)
	s.poll(sh, en, now)
	return ended
}

// Expire appends the waits that have lasted too long.
func (s *Store[W]) Expire(now int64, ended []Ended[W]) []Ended[W] {
	if s.keys.Load() == 0 {
		return ended
	}
	for i := range s.shards {
		ended = s.expire(&s.shards[i], now, ended)
	}
	return ended
}

func (s *Store[W]) expire(sh *shard[W], now int64, ended []Ended[W]) []Ended[W] {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, en := range sh.busy {
		n := 0
		for _, w := range en.line {
			if !s.isLate(w, now) && s.linked.Load() {
				break
			}
			out := en.g.Expire(now, w.Cost)
			ended = append(ended, Ended[W]{w, out, s.count(en, now, out)})
			n++
		}
		if n > 0 {
			en.line = slices.Delete(en.line, 0, n)
			s.poll(sh, en, now)
		}
	}
	return ended
}

// Leave takes a waiter out of its line; false: its wait has ended.
func (s *Store[W]) Leave(w *Waiter[W], now int64) bool {
	sh := s.shard(w.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	en := sh.keys[w.key]
	if en == nil {
		return false
	}
	i := slices.Index(en.line, w)
	if i < 0 {
		return false
	}
	en.line = slices.Delete(en.line, i, i+1)
	en.g.Leave(w.Cost)
	s.poll(sh, en, now)
	return true
}

// Drain appends all that wait, as Unanswered.
func (s *Store[W]) Drain(ended []Ended[W]) []Ended[W] {
	for i := range s.shards {
		ended = s.drain(&s.shards[i], ended)
	}
	return ended
}

func (s *Store[W]) drain(sh *shard[W], ended []Ended[W]) []Ended[W] {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, en := range sh.busy {
		for _, w := range en.line {
			en.g.Leave(w.Cost)
			ended = append(ended, Ended[W]{Waiter: w, Outcome: grant.Unanswered})
		}
		en.line = nil
	}
	return ended
}

// Poll appends the messages that are due for the owners, and returns when the next ones are due; 0: when
// wake is called.
func (s *Store[W]) Poll(now int64, out *exchange.TokenRequests) (next int64) {
	if !s.linked.Load() || s.keys.Load() == 0 && !s.touched.Swap(false) {
		out.Registered, out.Divides = 0, nil
		return 0
	}
	view, registering := s.view.Load(), 0
	for i := range s.shards {
		due, n := s.pollShard(&s.shards[i], now, out)
		if registering += n; due != 0 && (next == 0 || due < next) {
			next = due
		}
	}
	if out.Registered = 0; registering == 0 && s.reported.Swap(view) != view {
		out.Registered = view
	}
	if out.Divides = nil; s.confirms.Swap(false) {
		out.Divides = &exchange.Division{Gateways: uint32(s.Parts())}
	}
	return next
}

func (s *Store[W]) pollShard(sh *shard[W], now int64, out *exchange.TokenRequests) (next int64, registering int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	used := sh.used[:0]
	for _, r := range sh.used {
		s.send(sh, r, now)
		if due := r.Due(now); due != 0 && (next == 0 || due < next) {
			next = due
		}
		if r.used = !r.Empty(); r.used {
			used = append(used, r)
		}
	}
	clear(sh.used[len(used):])
	sh.used = used
	busy := sh.busy[:0]
	for _, en := range sh.busy {
		if en.busy = len(en.line) > 0; en.busy {
			busy = append(busy, en)
		}
	}
	clear(sh.busy[len(busy):])
	sh.busy = busy
	out.List = append(out.List, sh.out...)
	sh.out = sh.out[:0]
	out.Answers = append(out.Answers, sh.answers...)
	sh.answers = sh.answers[:0]
	return next, sh.registering
}

// Link says whether there is an agent that carries messages. On a new link it says first who owns
// the keys.
func (s *Store[W]) Link(now int64, up bool) {
	if s.wake == nil {
		return
	}
	s.linked.Store(up)
	if !up {
		s.undivide(now)
		s.SetParts(now, 0, false)
	}
}

// setOwners puts other owners in force. The new owner of a key is sent what is known here of the key.
func (s *Store[W]) setOwners(now int64, o *exchange.Owners) {
	s.view.Store(0)
	s.owners.Store(o)
	for i := range s.shards {
		s.setOwnersOf(&s.shards[i], now, o)
	}
	s.reported.Store(0)
	s.view.Store(o.View)
	s.wake()
}

// recent is the time after its last use for which a key counts as in use, nanoseconds. A new owner need
// not know of a key that is not in use and has a full bucket.
const recent = int64(1e9)

func (s *Store[W]) setOwnersOf(sh *shard[W], now int64, o *exchange.Owners) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var moved []*entry[W]
	for key, en := range sh.keys {
		if life := o.Of(key); life != en.owner {
			en.owner = life
			moved = append(moved, en)
		}
	}
	slices.SortFunc(moved, func(a, b *entry[W]) int { // in order of use
		return cmp.Or(cmp.Compare(b.used, a.used), cmp.Compare(a.key.Hash, b.key.Hash))
	})
	for _, en := range moved {
		if len(en.line) == 0 && now-en.used > recent && en.g.Rested(now) {
			s.remove(sh, en, now)
			continue
		}
		if en.lined {
			en.road.Done(now, en, false)
			en.lined, en.asked = false, false
		}
		en.road = sh.road(en.owner)
		en.g.NewOwner(now)
		s.poll(sh, en, now)
	}
	for life := range sh.roads {
		if !slices.ContainsFunc(o.List, func(w exchange.Owner) bool { return w.Life == life }) {
			delete(sh.roads, life)
		}
	}
}

// Sweep releases keys of one part of all that have nothing to remember: call it with each tick.
func (s *Store[W]) Sweep(now int64) {
	s.undivide(now)
	crowded := s.budgets.crowdedLimits(now)
	due := s.sweepAt.Load()
	if len(crowded) == 0 && now < due {
		return
	}
	s.sweepAt.Store(max(min(due, now)+sweepAll/shards, now)) // as often as that in the mean, whenever ticks come
	sh := &s.shards[s.next.Add(1)%shards]
	s.sweepParts(sh, now)
	if s.keys.Load() == 0 {
		return
	}
	s.sweep(sh, func(en *entry[W]) bool {
		keepFor := keep
		if _, is := crowded[en.key.Part]; is {
			keepFor = keepCrowded
		}
		return s.isOver(en) || now-en.used > keepFor && en.g.Idle(now)
	}, now)
}

// While says whether keys of limits that are EXACT for a while only may be used. When they may
// not, what is here of them is given back; what a request on its way takes up again, Sweep gives
// back.
func (s *Store[W]) While(now int64, on bool) {
	if was := s.while.Swap(on); was && !on {
		for i := range s.shards {
			s.sweep(&s.shards[i], s.isOver, now)
		}
	}
}

// isOver reports whether a key's limit is not EXACT any more.
func (s *Store[W]) isOver(en *entry[W]) bool { return en.key.While && !s.while.Load() }

// Release gives back the keys for which no request waits, because this process ends. A request that comes before
// the link ends may ask again; what it is granted counts as spent once the process has gone. A request that
// comes after the link has ended is Unanswered.
func (s *Store[W]) Release(now int64) {
	for i := range s.shards {
		s.sweep(&s.shards[i], func(*entry[W]) bool { return true }, now)
	}
}

// Forget drops all that is known: the agent is gone for long, so the owners count what is here
// as spent.
func (s *Store[W]) Forget() {
	for i := range s.shards {
		s.forget(&s.shards[i])
	}
}

func (s *Store[W]) forget(sh *shard[W]) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, en := range sh.keys {
		if len(en.line) == 0 {
			s.remove(sh, en, 0)
		}
	}
	sh.out, sh.answers = sh.out[:0], sh.answers[:0]
}

// sweep releases the keys of a shard for which f holds and for which nobody waits.
func (s *Store[W]) sweep(sh *shard[W], f func(*entry[W]) bool, now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var idle []uint64
	for key, en := range sh.keys {
		if len(en.line) == 0 && f(en) {
			idle = append(idle, key)
		}
	}
	slices.Sort(idle) // in the same order in each run
	for _, key := range idle {
		en := sh.keys[key]
		if q, ok := en.g.Release(now); ok && s.linked.Load() {
			s.tell(sh, en, q, now)
			s.wake()
		}
		s.remove(sh, en, now)
	}
}
