package grant

import (
	"cmp"
	"slices"
)

// Line sends the messages of many keys to one peer through one window, as TCP does. Without it each
// key repeats its own message whatever else waits, and a peer that is late gets more to do instead
// of less.
//
//	Add ──► waiting ── room in the window ──► in flight ── Done ──► gone
//	           ▲                                 │
//	           └──────────── timeout ◄───────────┘    window halved, timeout doubled
//
//	timeout  srtt + 4·rttvar, of messages that were sent once (RFC 6298), from Least to MaxTimeout
//	window   doubles per round trip up to where it was last halved, then grows by one per round trip
//	bulk     the window of what is not urgent: it is halved when a round trip takes 10 ms longer than the
//	         shortest one (as in RFC 6817), so urgent messages find no long queue at the peer
//
// Only the key waits, not its message: the message is made when the line comes to it, so what is
// sent is always the newest. The zero value works. Each call is O(1), amortised.
type Line[K comparable] struct {
	window window
	items  map[K]item
	first  []K       // wait, before all others
	queue  []K       // wait
	flight []sent[K] // in the order in which they were sent
	parked []sent[K] // in the order in which they wait again
}

// item is the state of a key. Earlier places of the key in the lists count for nothing.
type item struct {
	at     int64 // when it was sent; 0: it waits
	parked bool  // the peer has received it: it waits again at at
	first  bool  // it waits before all others
	urgent bool  // it was sent before all others, and is repeated so
	again  bool  // it was sent before
	parks  uint8 // how often it was parked without a known end
}

type sent[K comparable] struct {
	key K
	at  int64
}

// Bounds of a Line.
const (
	LeastTimeout = 2 * millisecond // of a repeat; the way between two agents is shorter
	MaxTimeout   = second
	firstWindow  = 4
	maxWindow    = 64
	// leastThreshold is up to where the window doubles at least: what is in flight then fits one packet.
	leastThreshold = 16
	// queueing is the time by which messages that are not urgent may lengthen the round trip. shortest is the most
	// that counts as a round trip without a queue, since a line may begin while there is one.
	queueing = 10 * millisecond
	shortest = 20 * millisecond
	// A message that the peer has received and cannot answer yet is sent again after parkFirst, since its answer
	// may be lost. Then it is sent each time after four times as long, up to parkMost.
	parkFirst = 25 * millisecond
	parkMost  = 2 * second
)

// Add has a key wait for its turn, unless it does or is in flight; an urgent one before all others.
func (l *Line[K]) Add(key K, urgent bool) {
	if l.items == nil {
		l.items = map[K]item{}
	}
	it, known := l.items[key]
	switch {
	case known && (it.at != 0 || it.first || !urgent):
		return
	case urgent:
		it.first = true
		l.first = append(l.first, key)
	default:
		l.queue = append(l.queue, key)
	}
	l.items[key] = it
}

// Done takes a key out; answered says that the peer has answered its message.
func (l *Line[K]) Done(now int64, key K, answered bool) {
	it, known := l.items[key]
	if !known {
		return
	}
	l.land(now, it, answered)
	delete(l.items, key)
	if len(l.items) == 0 {
		l.first, l.queue, l.flight, l.parked = l.first[:0], l.queue[:0], l.flight[:0], l.parked[:0]
	}
}

// Park notes that the peer has received a key's message and will answer it later, after so long at most;
// 0: the peer cannot say.
func (l *Line[K]) Park(now int64, key K, wait int64) {
	it, known := l.items[key]
	if !known || it.parked {
		return
	}
	l.land(now, it, true)
	if wait <= 0 {
		wait = max(l.window.timeout(), parkFirst<<(2*min(it.parks, 8)))
		it.parks = min(it.parks+1, 8)
	}
	it.at, it.parked, it.again = now+min(wait, parkMost), true, true
	l.items[key] = it
	i, _ := slices.BinarySearchFunc(l.parked, it.at+1, func(s sent[K], at int64) int { return cmp.Compare(s.at, at) })
	l.parked = slices.Insert(l.parked, i, sent[K]{key, it.at})
}

func (l *Line[K]) land(now int64, it item, answered bool) {
	if it.at == 0 || it.parked {
		return
	}
	l.window.landed(it.urgent)
	if answered {
		l.window.answered(now, it.at, it.again)
	}
}

// Next returns a key whose message is to be sent now. Call it until it returns false.
func (l *Line[K]) Next(now int64) (key K, ok bool) {
	l.expire(now)
	if !l.window.room() {
		return key, false
	}
	for i, list := range []*[]K{&l.first, &l.queue} {
		for urgent := i == 0; len(*list) > 0 && (urgent || l.window.roomForBulk()); {
			key, *list = (*list)[0], (*list)[1:]
			it, known := l.items[key]
			if !known || it.at != 0 {
				continue
			}
			it.at, it.first, it.urgent = max(now, 1), false, it.urgent || urgent
			l.items[key] = it
			l.flight = append(l.flight, sent[K]{key, it.at})
			l.window.sent(it.urgent)
			return key, true
		}
	}
	return key, false
}

// expire puts what was not answered in time, or was parked for long enough, into the queue.
func (l *Line[K]) expire(now int64) {
	timeout := l.window.timeout()
	for len(l.flight) > 0 {
		s := l.flight[0]
		it, known := l.items[s.key]
		if current := known && !it.parked && it.at == s.at; current {
			if s.at+timeout > now {
				break
			}
			l.window.lost(now, s.at)
			l.window.landed(it.urgent)
			l.repeat(s.key, it)
		}
		l.flight = l.flight[1:]
	}
	for len(l.parked) > 0 && l.parked[0].at <= now {
		s := l.parked[0]
		if it, known := l.items[s.key]; known && it.parked && it.at == s.at {
			l.repeat(s.key, it)
		}
		l.parked = l.parked[1:]
	}
}

// repeat has a key that was sent wait again.
func (l *Line[K]) repeat(key K, it item) {
	l.items[key] = item{again: true, first: it.urgent, urgent: it.urgent, parks: it.parks}
	if it.urgent {
		l.first = append(l.first, key)
		return
	}
	l.queue = append(l.queue, key)
}

// Due returns when Next has something; 0: never, unless Add or Done is called.
func (l *Line[K]) Due(now int64) (due int64) {
	if len(l.items) == 0 {
		return 0
	}
	if l.window.room() && len(l.first) > 0 || l.window.roomForBulk() && len(l.queue) > 0 {
		return now
	}
	if len(l.flight) > 0 {
		due = l.flight[0].at + l.window.timeout()
	}
	if len(l.parked) > 0 && (due == 0 || l.parked[0].at < due) {
		due = l.parked[0].at
	}
	return due
}

// Empty reports whether no key is in the line.
func (l *Line[K]) Empty() bool { return len(l.items) == 0 }

// window bounds how many messages are in flight, and for how long.
type window struct {
	size, threshold float64 // 0: nothing is known yet
	out             int
	srtt, rttvar    int64
	doubled         uint  // how often the timeout was doubled
	cut             int64 // when the window was halved last
	bulk            bulk
}

// bulk is the window of messages that are not urgent. The zero value is as large as the whole window.
type bulk struct {
	out    int
	less   float64 // than maxWindow by so much
	least  int64   // shortest round trip, less than shortest; 0: none was
	halved int64   // when it was last
}

func (b *bulk) size() float64 { return maxWindow - b.less }

// note takes in the round trip of a message that was sent at the given time.
func (b *bulk) note(now, at, rtt int64) {
	b.least = min(cmp.Or(b.least, shortest), rtt)
	switch size := b.size(); {
	case rtt > b.least+queueing:
		b.halve(now, at)
	case rtt > b.least+queueing/4:
		b.less = max(0, b.less-1/size)
	default:
		b.less = max(0, b.less-1)
	}
}

// halve halves the window, once for all that was in flight then.
func (b *bulk) halve(now, at int64) {
	if at >= b.halved {
		b.less, b.halved = maxWindow-max(1, b.size()/2), now
	}
}

func (w *window) room() bool {
	if w.size == 0 {
		w.size, w.threshold = firstWindow, maxWindow
	}
	return float64(w.out) < max(1, w.size)
}

func (w *window) roomForBulk() bool { return w.room() && float64(w.bulk.out) < w.bulk.size() }

func (w *window) sent(urgent bool) {
	if w.out++; !urgent {
		w.bulk.out++
	}
}

func (w *window) landed(urgent bool) {
	if w.out--; !urgent {
		w.bulk.out--
	}
}

// answered notes the answer to a message that was sent at the given time. A repeated message gives no
// round-trip time: the answer may belong to either copy.
func (w *window) answered(now, at int64, again bool) {
	if w.size < w.threshold {
		w.size++
	} else {
		w.size += 1 / w.size
	}
	w.size = min(w.size, maxWindow)
	if again {
		return
	}
	w.doubled = 0
	rtt := max(now-at, 1)
	if w.bulk.note(now, at, rtt); w.srtt == 0 {
		w.srtt, w.rttvar = rtt, rtt/2
	} else {
		w.rttvar += (max(rtt-w.srtt, w.srtt-rtt) - w.rttvar) / 4
		w.srtt += (rtt - w.srtt) / 8
	}
}

// lost halves the window, once for all that was in flight then.
func (w *window) lost(now, at int64) {
	w.bulk.halve(now, at)
	if at < w.cut {
		return
	}
	w.size = max(1, w.size/2)
	if w.doubled == 0 { // else nothing has arrived since (RFC 5681, section 3.1)
		w.threshold = max(leastThreshold, w.size)
	}
	w.cut = now
	if w.timeout() < MaxTimeout {
		w.doubled++
	}
}

func (w *window) timeout() int64 {
	return min(MaxTimeout, max(LeastTimeout, w.srtt+4*w.rttvar)<<w.doubled)
}
