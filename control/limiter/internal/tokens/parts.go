package tokens

import (
	"math"
	"slices"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// Standing parts (package grant): while the agents have agreed on how many gateways there are, a request that the
// part of its key covers asks nobody. What is remembered of a part are two times, until it has been full for long.
//
//	Take ──► the part has the cost ──► admitted
//	           │ short, or its owner has called it
//	         Join ──► the key has an entry, and asks
//
// The number of gateways changes, and with it the size of all parts. A record says in which era it was written, and
// is carried over when it is used next.

const (
	// maxParts and maxAway bound the records of a shard, of parts and of parts that their owners have called.
	maxParts, maxAway = 1 << 14, 1 << 12
	// manyParts is the number of parts of a shard from which on each remembers less.
	manyParts = 1 << 8
	// maxEras bounds the eras that are remembered: the parts of an earlier one are empty.
	maxEras = 16
)

// era is a time with the same number of gateways.
type era struct {
	gateways int // 0: there are no parts
	from     int64
	full     bool // the first ones, which begin full
}

// eras are the latest ones. In the very first one there are no parts; at the begin of a later one all were empty.
type eras struct {
	first uint32 // number of the first one
	list  []era
}

func (e *eras) last() era { return e.list[len(e.list)-1] }

// and returns the eras with another one.
func (e *eras) and(next era) *eras {
	all := &eras{first: e.first, list: append(slices.Clone(e.list), next)}
	if over := len(all.list) - maxEras; over > 0 {
		all.first, all.list = all.first+uint32(over), all.list[over:]
	}
	return all
}

// counted returns by how many this one divides as its agent and owners count while it has no parts for a moment, and
// since when it has none; 0: it has.
func (e *eras) counted() (gateways int, paused int64) {
	for i := len(e.list) - 1; i >= 0; i-- {
		if e.list[i].gateways > 0 {
			return e.list[i].gateways, paused
		}
		paused = max(e.list[i].from, 1)
	}
	return 0, 0
}

func (e *eras) number() uint32 { return e.first + uint32(len(e.list)) - 1 }

// record is a part.
type record struct {
	grant.Standing
	rate, burst float32 // of the limit, as of then: cost units/s, cost units
	learned     int64   // when others were known to have spent the bucket
	era         uint32
}

// goesBy puts numbers of the limit in force, and reports whether they were already.
func (r *record) goesBy(p grant.Params) (already bool) {
	rate, burst := float32(p.Rate), float32(p.Burst)/grant.Token
	already = r.rate == rate && r.burst == burst
	r.rate, r.burst = rate, burst
	return already
}

// filling returns the time in which an empty part fills, nanoseconds.
func (r *record) filling() int64 {
	return int64(min(float64(r.burst)/float64(r.rate)*1e9, math.MaxInt64/8))
}

// away is a part that its owner has called.
type away struct {
	grant.Away
	params grant.Params
	era    uint32 // when it was given
}

// SetParts says among how many gateways most of each key's bucket is divided; 0: it is not. When it has returned, this
// one uses no more than that part of any key.
// Parts that begin are empty, but the first ones if full is set.
func (s *Store[W]) SetParts(now int64, gateways int, full bool) {
	for {
		e := s.eras.Load()
		if e.last().gateways == gateways {
			return
		}
		if s.eras.CompareAndSwap(e, e.and(era{gateways, now, full && len(e.list) == 1})) {
			break
		}
	}
	for i := range s.shards { // no request is decided by the era before
		s.shards[i].pass()
	}
}

// pass returns when no earlier request has the shard any more.
func (sh *shard[W]) pass() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
}

// divide puts a Division in force, and has it confirmed.
func (s *Store[W]) divide(now int64, d exchange.Division) {
	if d.Gateways > exchange.MaxGateways || !s.linked.Load() {
		return
	}
	s.undivide(now) // this process may have stood still
	s.divided.Store(now)
	s.SetParts(now, int(d.Gateways), d.Full)
	s.confirms.Store(true)
	s.wake()
}

// undivide ends the parts, as of when they lapsed, if the agent has not said for long that they go on.
func (s *Store[W]) undivide(now int64) {
	if end := s.divided.Load() + exchange.DivisionFor; s.Parts() > 0 && now > end {
		s.SetParts(end, 0, false)
	}
}

// PartsBegun returns since when there have been parts, but for times without a link; 0: there are none.
func (s *Store[W]) PartsBegun() int64 {
	for _, e := range s.eras.Load().list {
		if e.gateways > 0 {
			return max(e.from, 1)
		}
	}
	return 0
}

// Parts is the number of gateways of now, see SetParts.
func (s *Store[W]) Parts() int { return s.eras.Load().last().gateways }

// part returns a key's part as it is now, and its numbers. Not ok: the gateway may not use one. The shard is locked.
func (s *Store[W]) part(sh *shard[W], k *Key, now int64) (r record, numbers grant.Params, ok bool) {
	e := s.eras.Load()
	n := e.last().gateways
	if n == 0 {
		return r, numbers, false
	}
	p := s.params(k)
	numbers, ok = p.Part(n)
	if !ok || now-s.divided.Load() > exchange.DivisionFor || sh.isAway(k.Hash, now, e) {
		return r, numbers, false
	}
	return sh.standing(k, p, now, e), numbers, true
}

// isAway reports whether the owner of a key has called its part. If the call has lapsed, the part is back.
func (sh *shard[W]) isAway(key uint64, now int64, e *eras) bool {
	a := sh.away[key]
	switch {
	case a == nil:
		return false
	case now < a.Until:
		return true
	}
	if a.Gateways > 0 {
		if len(sh.parts) >= maxParts {
			return true // until there is room
		}
		sh.parts[key] = a.back(now, e)
	}
	delete(sh.away, key)
	return false
}

// back is the part when the call has lapsed. If there were no parts meanwhile, its owner may have counted it as gone,
// and not pay for it: it is empty.
func (a *away) back(now int64, e *eras) record {
	r := record{Standing: a.Back(), era: e.number()}
	r.goesBy(a.params)
	first := int(int32(a.era - e.first))
	paused := first < 0
	for _, during := range e.list[max(0, first):] {
		paused = paused || during.gateways == 0
	}
	switch to := e.last().gateways; {
	case paused:
		r.Empty(a.params, max(a.Until, e.last().from))
	case to != a.Gateways:
		r.Resize(a.params, now, a.Gateways, to)
	}
	return r
}

// standing returns a part that is not away.
func (sh *shard[W]) standing(k *Key, p grant.Params, now int64, e *eras) record {
	r, known := sh.parts[k.Hash]
	at := int(int32(r.era - e.first))
	if was := r; !r.goesBy(p) && known {
		r.Rescale(now, float64(was.rate), float64(was.burst), float64(r.rate), float64(r.burst))
	}
	if !known || at < 0 {
		if at = 0; e.list[0].gateways > 0 { // what was before is not known any more
			r.Empty(p, e.list[0].from)
		}
	}
	r.carry(p, e.list[at:])
	if !known {
		r.Unknown(now - grant.PastFor(r.filling()))
	}
	r.era = e.number()
	return r
}

// carry carries a part of the first of some eras over to the last one. A time without parts counts against it, see
// grant.Standing.Pause.
func (r *record) carry(p grant.Params, list []era) {
	had, paused := list[0].gateways, int64(-1)
	for _, next := range list[1:] {
		switch {
		case next.gateways == 0:
			paused = next.from
			continue
		case next.full:
			r.Standing = grant.NewStanding(next.from)
		default:
			if paused >= 0 && had > 0 {
				r.Pause(p, paused, next.from, had)
			}
			r.Resize(p, next.from, had, next.gateways)
		}
		had, paused = next.gateways, -1
	}
}

// takePart admits a request by the part of its key, if that has so much.
func (s *Store[W]) takePart(sh *shard[W], k *Key, now, cost int64) bool {
	r, numbers, ok := s.part(sh, k, now)
	if !ok || !r.Take(numbers, now, cost, sh.spends()) || !sh.keep(k.Hash, r) {
		return false
	}
	s.counts.byPart.Add(1)
	return true
}

// spends returns the number of spends that a part remembers.
func (sh *shard[W]) spends() int {
	if len(sh.parts) > manyParts {
		return grant.FewSpends
	}
	return grant.MostSpends
}

// keep remembers a part, unless there are too many.
func (sh *shard[W]) keep(key uint64, r record) bool {
	if _, known := sh.parts[key]; !known && len(sh.parts) >= maxParts {
		return false
	}
	sh.parts[key] = r
	return true
}

// chargePart charges the part of a key, if there is one; a negative cost is put back.
func (s *Store[W]) chargePart(sh *shard[W], k *Key, now, cost int64) bool {
	r, numbers, ok := s.part(sh, k, now)
	if !ok {
		return false
	}
	r.Charge(numbers, now, cost, sh.spends())
	return sh.keep(k.Hash, r)
}

// called takes in the call of a part, also of a key that nobody has used here.
func (s *Store[W]) called(now int64, m *exchange.PartCall) {
	if !m.Usable() {
		return
	}
	sh := s.shard(m.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := s.eras.Load()
	p := grant.Params{Rate: m.Rate, Burst: m.Burst}
	given := sh.isAway(m.Key, now, e)
	a := sh.away[m.Key]
	if a == nil {
		if len(sh.away) >= maxAway {
			s.counts.uncalled.Add(1)
			return
		}
		a = &away{params: p, era: e.number()}
		sh.away[m.Key] = a
	}
	var st grant.Standing
	gateways, paused := e.counted()
	if !given {
		k := Key{Hash: m.Key}
		if st = sh.standing(&k, p, now, e).Standing; paused != 0 {
			st.Pause(p, paused, now, gateways)
		}
		delete(sh.parts, m.Key)
	}
	a.Give(now, &m.PartCall, st, gateways, given)
	sh.answers = append(sh.answers, exchange.PartAnswer{Key: m.Key, PartAnswer: a.Answer(now, &m.PartCall, p)})
	s.wake()
}

// learnPart takes in what of a key's bucket was spent as is known since some time: as large a part of the key's part.
func (s *Store[W]) learnPart(sh *shard[W], k *Key, now, spent, since int64) {
	if r, numbers, ok := s.part(sh, k, now); ok && r.learned < since {
		r.AtLeast(s.params(k), numbers, now, spent)
		r.learned = now
		sh.keep(k.Hash, r)
	}
}

// BeginPart says what of a key's burst was spent, millionths, by a ledger that has decided until some time.
func (s *Store[W]) BeginPart(k *Key, now, spent, since int64) {
	if s.wake == nil {
		return
	}
	sh := s.shard(k.Hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.learnPart(sh, k, now, spent, since)
}

// sweepParts forgets parts that have been full for so long that nobody needs to know since when.
func (s *Store[W]) sweepParts(sh *shard[W], now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := s.eras.Load()
	for key, a := range sh.away {
		if now >= a.Until {
			sh.isAway(key, now, e)
		}
	}
	for key, r := range sh.parts {
		if e.settles(&r) < now-grant.PastFor(r.filling()) {
			delete(sh.parts, key)
		}
	}
}

// settles returns since when a part is what it would be if nothing were known of it; never while there are no parts.
func (e *eras) settles(r *record) int64 {
	at, full := int(int32(r.era-e.first)), max(r.Full, r.learned, e.list[0].from)
	filling := r.filling()
	switch {
	case at < 0:
		return 0
	case at == len(e.list)-1:
		return full
	case e.last().gateways == 0 || r.Full > e.list[at+1].from+filling:
		return math.MaxInt64
	}
	return max(full, e.last().from+filling) // it is full so long after the latest change
}
