package claims

// probes is the number of slots that the clock hand looks at to make room for one key.
const probes = 16

// peerIndex returns the slab index of a peer, which it creates as received now.
func (t *Table) peerIndex(id Peer, now float64) int32 {
	if i, ok := t.indexOf(id); ok {
		return i
	}
	fresh := peer{id: id, heard: now, weight: 1, used: true}
	t.forgetAbsent()
	if last := len(t.unused) - 1; last >= 0 {
		i := t.unused[last]
		t.unused = t.unused[:last]
		t.peers[i], t.index[id] = fresh, i
		return i
	}
	t.peers = append(t.peers, fresh)
	t.index[id] = int32(len(t.peers) - 1)
	return int32(len(t.peers) - 1)
}

// indexOf returns the slab index of a peer; ok is false if the peer is not known.
func (t *Table) indexOf(id Peer) (i int32, ok bool) {
	if r := t.recent; int(r) < len(t.peers) && t.peers[r].used && t.peers[r].id == id {
		return r, true
	}
	if i, ok = t.index[id]; ok {
		t.recent = i
	}
	return i, ok
}

// slotFor returns the slot of a key, making one if need be; false when the
// table is full and the hand finds no idle key.
func (t *Table) slotFor(key uint64, now float64) (int32, bool) {
	if s := t.slotOf(key); s != nil {
		return t.latest, true
	}
	if len(t.keys) >= t.p.MaxKeys && !t.evictIdle(now) {
		return 0, false
	}
	var i int32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.slots = append(t.slots, slot{})
		i = int32(len(t.slots) - 1)
	}
	t.nextEpoch()
	t.slots[i] = slot{key: key, head: none, epoch: t.epoch, home: t.epoch, away: t.epoch, touched: now, used: true}
	t.keys[key] = i
	return i, true
}

// find returns the entry of a key at a peer, making one if need be; false when the
// table is full. A peer names its keys in the same order each time, so the entry is
// mostly the next one of last time: no map is asked then.
func (t *Table) find(pi int32, key uint64, now float64) (ei int32, fresh, ok bool) {
	last := t.peers[pi].last
	if int(last) < len(t.entries) {
		ei = t.entries[last].follows
		if t.belongs(ei, pi, key) {
			t.peers[pi].last = ei
			return ei, false, true
		}
	}
	si, ok := t.slotFor(key, now)
	if !ok {
		return 0, false, false
	}
	ei, fresh = t.entryFor(si, pi)
	if int(last) < len(t.entries) && t.entries[last].peer == pi {
		t.entries[last].follows = ei
	}
	t.peers[pi].last = ei
	return ei, fresh, true
}

// belongs reports whether an entry belongs to a key and a peer.
func (t *Table) belongs(ei, pi int32, key uint64) bool {
	if int(ei) >= len(t.entries) {
		return false
	}
	e := &t.entries[ei]
	return e.peer == pi && t.slots[e.slot].used && t.slots[e.slot].key == key
}

// entryFor returns the entry of a peer in a slot and whether it is new.
func (t *Table) entryFor(si, pi int32) (int32, bool) {
	s := &t.slots[si]
	for i := s.head; i != none; i = t.entries[i].next {
		if t.entries[i].peer == pi {
			return i, false
		}
	}
	var i int32
	if n := len(t.spare); n > 0 {
		i, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		t.entries = append(t.entries, entry{})
		i = int32(len(t.entries) - 1)
	}
	t.peers[pi].held++
	t.entries[i] = entry{peer: pi, next: s.head, slot: si}
	s.head = i
	return i, true
}

// evictIdle moves the clock hand over a few slots and frees the first idle one.
func (t *Table) evictIdle(now float64) bool {
	for range min(probes, len(t.slots)) {
		t.hand = (t.hand + 1) % len(t.slots)
		if s := &t.slots[t.hand]; s.used && t.idle(s, now) {
			t.Evict(s.key)
			return true
		}
	}
	return false
}

// idle reports whether no peer claims the key and none spoke of it for Stale.
func (t *Table) idle(s *slot, now float64) bool {
	return now-s.touched >= t.p.Stale && !t.claimed(s, now)
}

// Evict forgets a key with all its counts.
func (t *Table) Evict(key uint64) {
	si, ok := t.keys[key]
	if !ok {
		return
	}
	for i := t.slots[si].head; i != none; i = t.entries[i].next {
		t.peers[t.entries[i].peer].held--
		t.entries[i].peer = none
		t.spare = append(t.spare, i)
	}
	t.slots[si] = slot{head: none}
	t.free = append(t.free, si)
	delete(t.keys, key)
}
