package tokens

// PutBack gives back the token of a request that Take, Join or a wait has admitted.
func (s *Store[W]) PutBack(k *Key, now, cost int64) {
	s.change(k, now, -cost, func(en *entry[W]) { en.g.PutBack(now, cost) })
}

// Owe charges what was admitted without a token, or with less than one, to the key's part, or reports it to the
// owner. For a key that is not known here it does nothing.
func (s *Store[W]) Owe(k *Key, now, cost int64) {
	s.change(k, now, cost, func(en *entry[W]) { en.g.Owe(now, cost) })
}

// Spend is Owe for cost that was admitted elsewhere. What the key's part does not cover its owner is sent, and a key
// that is not known here is registered there.
func (s *Store[W]) Spend(k *Key, now, cost int64) {
	if _, _, done := s.unasked(k, 0); done {
		return
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if en := sh.keys[k.Hash]; (en == nil || !en.g.HasBucket()) && s.takePart(sh, k, now, cost) {
		return
	}
	if en := s.obtain(sh, k, now, 1); en != nil {
		s.use(en, k, now)
		en.g.Spend(now, cost)
		s.poll(sh, en, now)
	}
}

// Learn says what of a key's burst was spent at least, millionths, as is known since some time; of a key that is
// not known here Join says it. While a question is open it waits: the answer is of the session that it would end.
// The key's part begins empty.
func (s *Store[W]) Learn(k *Key, now, spent, since int64) {
	if s.wake == nil {
		return
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.learnPart(sh, k, now, s.params(k).Burst, since)
	if en := sh.keys[k.Hash]; en != nil && en.learned < since && !en.g.Open() && len(en.line) == 0 {
		en.learned = now
		en.g.Learn(now, spent)
		s.poll(sh, en, now)
	}
}

// EmptyPart empties a key's part: the ledger decides, and others spend the bucket.
func (s *Store[W]) EmptyPart(k *Key, now int64) {
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.learnPart(sh, k, now, s.params(k).Burst, now)
}

// change charges the part of a key, or else does f with it.
func (s *Store[W]) change(k *Key, now, charge int64, f func(*entry[W])) {
	if s.wake == nil {
		return
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if charge != 0 && s.chargePart(sh, k, now, charge) {
		return
	}
	if en := sh.keys[k.Hash]; en != nil {
		f(en)
		s.poll(sh, en, now)
	}
}
