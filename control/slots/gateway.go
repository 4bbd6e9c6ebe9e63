package slots

import "math"

// Outcome of a request at a gateway.
type Outcome uint8

// The outcomes.
const (
	Refused  Outcome = iota // all slots are in use
	Admitted                // it has a slot
	Waits                   // ask again with Retry after each Reply and each Free, or end it with Leave
	CutOff                  // the owner is unreachable: nothing is started
)

// Gateway is the state of one key at one gateway. See the package comment.
type Gateway struct {
	lease   *Lease
	owner   uint64 // its life; 0: no message of this session was received yet
	session uint64
	// Of the session, cumulative.
	brought, granted, returned int64

	used    int64 // requests in flight with a slot
	orphans int64 // slots to be returned as requests end: the owner may have granted them again
	waiting int64
	wait    int64 // nanoseconds for which a request waits, at most
	most    int64 // requests that wait, at most

	openQuestion
	asks
	answered int64 // when a Reply was last received, or the session began

	short int64 // idle slots go back at once until then
	full  int64 // new requests are refused until then
	keep  int64 // while short: slots that it may keep; −1: any number

	rate, ends mean  // requests that come and that end
	busy       level // requests in flight

	idleLeast int64 // fewest idle slots since idleSince
	idleSince int64
}

// openQuestion is the latest one to the owner.
type openQuestion struct {
	number   uint32 // of the latest Ask
	seen     uint32 // of the latest Ask that the owner has taken in
	firm     uint32 // of the latest Ask that is to be confirmed
	heard    uint32 // of the latest Reply
	asked    int64  // requests of the open question; 0: none is open
	patience int64  // end of the open question
	silent   bool   // the owner does not answer
}

// asks says when an Ask is sent.
type asks struct {
	due      bool  // now
	news     bool  // it is to be confirmed
	later    int64 // then; 0: not
	sentAt   int64
	interval int64 // of repeats
}

// NewGateway returns the state of a key that this gateway has not used. A session must be greater than all
// earlier ones of the key at this process, by 2^20 or more.
func NewGateway(now int64, lease *Lease, session uint64) *Gateway {
	return &Gateway{lease: lease, session: session, keep: -1, answered: now, wait: MaxWait, most: math.MaxInt64}
}

// SetQueue says how long a request waits for a slot, in nanoseconds, and how many wait. 0, as without it: MaxWait, and
// any number.
func (g *Gateway) SetQueue(wait, most int64) {
	if g.wait, g.most = wait, most; wait == 0 {
		g.wait, g.most = MaxWait, math.MaxInt64
	}
}

// Wait returns how long a request waits for a slot, at most.
func (g *Gateway) Wait() int64 { return g.wait }

// patienceFor returns the time for which a question holds.
func (g *Gateway) patienceFor() int64 { return min(g.wait, patienceMost) }

// isStale reports whether the owner is to be asked again, for requests that wait longer than a question holds.
func (g *Gateway) isStale(now int64) bool { return g.staleAt() != 0 && now >= g.staleAt() }

// staleAt returns when the question is asked again; 0: no request waits for so long.
func (g *Gateway) staleAt() int64 {
	if g.waiting == 0 || g.wait <= MaxWait {
		return 0
	}
	return g.patience - g.patienceFor()/4
}

// has returns how many slots are here.
func (g *Gateway) has() int64 { return g.brought + g.granted - g.returned }

// idle returns how many slots can be used now.
func (g *Gateway) idle() int64 { return max(0, g.has()-g.used) }

// Used returns how many requests are in flight with a slot.
func (g *Gateway) Used() int64 { return g.used }

// Has returns how many slots are here, in use or idle.
func (g *Gateway) Has() int64 { return g.has() }

// Try is Take for a request that does not wait: after Waits nothing has changed.
func (g *Gateway) Try(now int64) Outcome {
	switch {
	case g.waiting == 0 && g.start(now):
		g.rate.add(now)
		return Admitted
	case g.silent, g.waiting >= g.places(now):
		return g.Take(now)
	}
	return Waits
}

// Take asks for a slot for a new request.
func (g *Gateway) Take(now int64) Outcome {
	g.rate.add(now)
	switch {
	case g.waiting == 0 && g.start(now):
		return Admitted
	case g.silent:
		g.question(now) // so that it is found out when the owner answers again
		return CutOff
	case g.waiting >= g.places(now):
		return Refused
	}
	g.waiting++
	g.question(now)
	return Waits
}

// Look returns what Try would return, and changes nothing.
func (g *Gateway) Look(now int64) Outcome {
	switch {
	case g.waiting == 0 && g.idle() > 0 && g.lease.Live(now):
		return Admitted
	case g.silent:
		return CutOff
	case g.waiting >= g.places(now):
		return Refused
	}
	return Waits
}

// start gives a request an idle slot.
func (g *Gateway) start(now int64) bool {
	if g.idle() == 0 || !g.lease.Live(now) {
		return false
	}
	g.busy.set(now, g.used)
	g.used++
	g.idleLeast = min(g.idleLeast, g.idle())
	return true
}

// places returns how many requests may wait. Without a queue it is, while all slots are in use, as many as will have
// one in time.
func (g *Gateway) places(now int64) int64 {
	if now >= g.full || g.most < math.MaxInt64 {
		return g.most
	}
	return int64(math.Ceil(MaxWait*g.ends.per(now))) + 2
}

// Surplus returns how many of the requests that wait, the latest ones, are to be refused.
func (g *Gateway) Surplus(now int64) int64 {
	if now >= g.full {
		return 0
	}
	return max(0, g.waiting-g.places(now))
}

// Retry gives the first request that waits a slot, if there is one.
func (g *Gateway) Retry(now int64) bool {
	if g.waiting == 0 || !g.start(now) {
		return false
	}
	g.waiting--
	return true
}

// Leave notes that a request waits no longer. late: it has waited for as long as it may.
func (g *Gateway) Leave(now int64, late bool) {
	g.waiting--
	g.silent = g.silent || late && g.asked > 0 && now-g.answered >= max(4*MaxWait, g.patienceFor())
}

// Free notes that a request with a slot has ended. Call Retry afterwards.
func (g *Gateway) Free(now int64) {
	g.ends.add(now)
	g.putBack(now)
}

// Undo takes back a Take or Try that was Admitted: the request was not started. Call Retry afterwards.
func (g *Gateway) Undo(now int64) {
	g.rate.undo(now)
	g.putBack(now)
}

func (g *Gateway) putBack(now int64) {
	g.busy.set(now, g.used)
	g.used--
	if g.orphans > 0 {
		g.orphans--
		g.giveBack(1)
	} else if now < g.short && g.keep >= 0 && g.has() > g.keep {
		g.giveBack(1)
	}
}

func (g *Gateway) giveBack(n int64) {
	if n > 0 {
		g.returned += n
		g.due, g.news = true, true
	}
}

// Due returns when Poll has something to do; 0: never.
func (g *Gateway) Due(now int64) int64 {
	if g.due {
		return now
	}
	due := g.next()
	if g.idle() > 0 {
		due = Sooner(due, g.idleSince+keepIdle)
	} else if now < g.full {
		due = Sooner(due, g.full)
	}
	return due
}

// next returns when an Ask is to be sent without a cause: it is to be repeated or it confirms a Reply.
func (g *Gateway) next() int64 {
	due := Sooner(g.later, g.staleAt())
	if g.firm > g.seen && (g.heard == 0 || g.asked > 0 || g.orphans > 0) {
		due = Sooner(due, g.sentAt+max(g.interval, repeatFirst))
	} else if g.firm > g.seen {
		due = Sooner(due, g.sentAt+max(2*confirmWithin, g.interval))
	}
	return due
}

// Sooner returns the earlier of two times; 0 is never.
func Sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Lapse begins another session, because the lease has run out: idle slots are dropped, see rule 5.
func (g *Gateway) Lapse(now int64, session uint64) {
	g.begin(now, session)
	g.brought, g.orphans = g.used, g.used
}

// Move begins another session with another owner of the key. The gateway keeps what it has.
func (g *Gateway) Move(now int64, lease *Lease, session uint64) {
	has := max(0, g.has())
	g.begin(now, session)
	g.lease, g.brought = lease, has
}

func (g *Gateway) begin(now int64, session uint64) {
	g.owner, g.session, g.granted, g.returned, g.brought = 0, session, 0, 0, 0
	g.number, g.seen, g.firm, g.heard, g.asked = 0, 0, 0, 0, 0
	g.due, g.news, g.silent = true, true, false
	g.later, g.interval, g.answered = 0, 0, now
	g.short, g.full, g.keep = 0, 0, -1
}

// isUnanswered reports whether the owner has answered nothing of this session for as long as a new owner waits for
// gateways. It may have no such limit, or no room.
func (g *Gateway) isUnanswered(now int64) bool { return g.heard == 0 && now-g.answered >= ExpireAfter }

// Registered reports whether the owner knows what the gateway has, or waits for the gateway no longer.
func (g *Gateway) Registered(now int64) bool {
	return g.heard > 0 || g.has() == 0 && g.used == 0 || g.isUnanswered(now)
}

// Idle reports whether the gateway has no slot and no request, and the owner knows it or has never answered. It may be
// forgotten after Release is sent. A no of the owner is kept until it ends.
func (g *Gateway) Idle(now int64) bool {
	if g.has() != 0 || g.used != 0 || g.waiting != 0 {
		return false
	}
	return g.isUnanswered(now) || !g.due && g.later == 0 && g.firm <= g.seen && now >= g.full
}

// Release returns all slots, because the process ends or the key is forgotten. Slots of requests in flight stay.
func (g *Gateway) Release(now int64) Ask {
	g.giveBack(g.idle())
	g.number++
	a := g.message(now)
	a.Want, a.Released = 0, g.used == 0
	return a
}

// Unknown answers a Reply about a key that the gateway has forgotten: all that was granted since comes back.
func Unknown(m Reply) (a Ask, ok bool) {
	if m.Begin {
		return Ask{}, false
	}
	return Ask{Owner: m.Owner, Session: m.Session, Number: m.Seen + 1, Heard: m.Number, Received: m.Granted,
		Returned: math.MaxInt64, Released: true}, true
}
