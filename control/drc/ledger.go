package drc

import "math"

// tolerance is the rounding error, relative to the burst, that does not refuse a
// request: a client exactly at its limit must not fail on the last bit.
const tolerance = 1e-9

// LedgerParams configures a Ledger.
type LedgerParams struct {
	Rate     float64 // r, cost units/s, of the limit that all replicas hold together; 0 admits nothing
	Burst    float64 // b, cost units; below 1 is raised to 1
	Replicas float64 // N, live replicas with this one; below 1 is raised to 1
	Lag      float64 // δ = τ_max + 5P/2, more where packets are lost, seconds: all have received an admission
	Strict   bool    // escrow even when no other use is known; false: OPTIMISTIC
}

// Ledger is a token bucket (rate r, burst b) that N replicas enforce together. Each
// replica has a copy of the one global bucket. From its copy it may spend the part that
// is reserved for it (escrow) by its announced share. When the bucket is nearly empty, a
// pacer that releases one token at a time decides. One per contended key and replica; a
// value without pointers. Times are seconds from any origin.
//
// The copy has some room above b, up to Lc, in which the pacer works; it is never
// spent as burst. d counts what is spent from the top of that room, so that an idle
// key has d = 0 whatever N and the lag δ are:
//
//	symbol       identifier
//	D            d + b − Lc          L = b − D = Lc − d
//	L − (Lc−b)   b − d               what may pass as burst
//	x            x                   the pacer's token: ready at 1
//	h, p, Lc     room, order, top
//	u0, u1       recent, before      own admissions not yet surely heard
//	W            overflow            refill of the last δ that did not fit into the full pool
//	Wg           unused              the same of the time in which another replica was not heard
//	o            own                 part of d that was admitted here: Σ over all replicas is d
//	c            certain             d without the estimates for unreachable replicas
//	Wc           spare               refill that found c at 0 in a silence
//	f, s, sx     fair, escrow, pace
//
// OPTIMISTIC refuses nothing of a client that keeps to the limit, however it moves
// between replicas, as long as messages are no older than Lag. For that, an admission
// that is received late is charged less W: had it been received at once, W would have refilled
// it. docs/grids.md has the grid of limits over which this was found.
//
// Costs other than 1: an admission needs L ≥ cost, spends cost of d, and spends
// cost of x, for which a single token (or the cost, if less) must be ready.
type Ledger struct {
	p        LedgerParams
	room     float64 // h
	top      float64 // Lc
	order    int     // p of m(L)
	d        float64 // spent, ≥ 0
	own      float64 // o, 0 ≤ o ≤ d
	certain  float64 // c, 0 ≤ c ≤ d
	x        float64
	at       float64 // time of d and x
	overflow float64 // W as of full, cost units
	full     float64 // when the pool was last full
	admitted float64 // A
	demanded
	silence
	scarce  float64 // until then a refusal counts as recent
	lowered float64 // until then what is received owes no more than an empty pool
	others  LedgerSums
	met     bool    // another replica has used the key in this ledger's life
	fair    float64 // f, part of r in (0,1]
	escrow  float64 // s, in (0,f]
	pace    float64 // sx
	heard   announced
	pubAt   float64
}

// silence has the figures with which a ledger judges news after a silence of other replicas.
type silence struct {
	unused float64 // Wg, cost units
	spare  float64 // Wc, cost units
	idle   float64 // when d was 0 last
	news   float64 // until then others may announce what they admitted in the silence
}

// demanded counts the cost that was asked for lately.
type demanded struct {
	block  float64 // start of the running block of δ
	recent float64
	before float64
	dem    float64 // demand at demAt, cost units/s
	demAt  float64
}

// NewLedger returns the ledger of an idle key: the whole pool is free.
func NewLedger(p LedgerParams, now float64) Ledger {
	now = clamp(now, -maxSeconds, maxSeconds)
	l := Ledger{x: 1, at: now, demanded: demanded{block: now, demAt: now}, pubAt: now, full: now,
		silence: silence{idle: now}}
	l.install(p)
	l.overflow = l.p.Rate * l.p.Lag
	return l
}

// FromSpent returns the ledger of a key that this replica has used alone, in
// its compact form, with the given D (see SpentAt). The pool counts as full until now:
// the compact form does not record since when the key is in use.
func FromSpent(p LedgerParams, now, spent float64) Ledger {
	l := NewLedger(p, now)
	l.d = clean(spent, maxQuantity)
	l.own, l.certain = l.d, l.d
	return l
}

// Configure installs new parameters. A change of rate or burst carries what is spent over,
// see Carry. The room above the burst is not owed: it is 2 + r·δ, and a limit of burst 1 would
// block its client for three times 1/rate. What was admitted stays: the others know it.
func (l *Ledger) Configure(p LedgerParams, now float64) {
	l.Advance(now)
	rate, burst, spent := l.p.Rate, l.p.Burst, l.d
	l.install(p)
	if l.p.Rate == rate && l.p.Burst == burst || burst == 0 {
		return
	}
	part := min(1, l.p.Burst/burst)
	if l.d = Carry(spent, burst, l.p.Burst); spent > 0 {
		part = l.d / spent
	}
	l.own, l.certain = min(l.own*part, l.d), min(l.certain*part, l.d)
	l.others.Own *= part
	l.recent, l.before = l.recent*part, l.before*part
	if l.p.Rate < rate || l.p.Burst < burst {
		l.x = 0 // the token of the pacer would pass beside an empty bucket
		l.Settle(now)
	}
}

// Settle says that the limit has just changed. What is received for a while may count by the numbers before:
// it owes no more than an empty pool.
func (l *Ledger) Settle(now float64) { l.lowered = now + settling + 2*l.p.Lag }

// settling is for how long, with two lags, after a limit was lowered admissions by the earlier
// numbers may be received, in seconds. Gateways do not all have the change at once.
const settling = 2

func (l *Ledger) install(p LedgerParams) {
	p.Rate = clean(p.Rate, maxQuantity)
	p.Burst = max(1, clean(p.Burst, maxQuantity))
	p.Replicas = max(1, clean(p.Replicas, maxQuantity))
	p.Lag = clean(p.Lag, maxSeconds)
	l.p = p
	l.room = 0
	l.top = p.Burst
	if p.Replicas > 1 {
		l.room = 2 + p.Rate*p.Lag
		l.top = max(p.Burst, 1+l.room)
	}
	l.order = order(p.Rate * p.Lag)
	l.share()
}

// Advance refills the pool and the enzyme up to now. It is additive: advancing
// in two steps gives the same as in one. Earlier times change nothing.
func (l *Ledger) Advance(now float64) {
	now = min(now, maxSeconds)
	dt := now - l.at
	if !(dt > 0) {
		return
	}
	l.at = now
	l.roll(now)
	r := l.refill()
	free0 := l.top - l.d
	gain := min(l.d, r*dt)
	l.d -= gain
	l.refillOwn(gain)
	l.refillCertain(r * dt)
	free1 := l.top - l.d
	if r == 0 {
		return
	}
	atTop := dt - gain/r // seconds at the cap
	if l.d == 0 {
		l.overflow = min(l.overflowAt(now-atTop)+r*atTop, r*l.p.Lag)
		l.unused = min(l.unused+r*atTop, maxQuantity)
		l.full, l.idle = now, now
	}
	work := l.work(free1-1) - l.work(free0-1) + l.speed(l.top)*atTop*r
	l.x = min(1, l.x+l.pace*max(0, work)) // the difference may round below 0
}

// refillOwn takes what is refilled from o and from the others' parts, in proportion. What others
// are only assumed to have admitted is no part: it must not slow down the refill of the rest.
func (l *Ledger) refillOwn(gain float64) {
	if all := l.own + l.others.Own; all > 0 {
		left := max(0, 1-gain/all)
		l.own, l.others.Own = l.own*left, l.others.Own*left
	}
	l.own = min(l.own, l.d)
}

// refillCertain takes refill from c, as if nothing were assumed.
func (l *Ledger) refillCertain(refill float64) {
	gain := min(l.certain, refill)
	l.certain = min(l.certain-gain, l.d)
	if l.others.Gap < 0 {
		l.spare = min(l.spare+refill-gain, maxQuantity)
	}
}

// overflowAt returns W at the given time: the refill that did not fit into the full pool and
// is younger than a lag. An admission at another replica may have preceded it and is not
// received yet. For STRICT it is 0, which refuses more and never admits too much.
func (l *Ledger) overflowAt(now float64) float64 {
	if l.p.Strict {
		return 0
	}
	return min(l.overflow, l.refill()*max(0, l.p.Lag-(now-l.full)))
}

// refill is the rate at which the pool refills: r, less what is kept for members that
// are cut off and spend their static share unheard.
func (l *Ledger) refill() float64 { return l.p.Rate * (1 - l.kept()) }

// kept is the part of r that STRICT keeps for members that are cut off. OPTIMISTIC
// keeps none: most of them have crashed.
func (l *Ledger) kept() float64 {
	if !l.p.Strict {
		return 0
	}
	return min(1, l.others.Absent/l.p.Replicas)
}

// roll moves own admissions through two blocks of length δ. What was admitted in the
// block before may not be received yet; what is older has been.
func (l *Ledger) roll(now float64) {
	if l.p.Lag == 0 {
		l.recent, l.before, l.block = 0, 0, now
		return
	}
	n := math.Floor((now - l.block) / l.p.Lag)
	if n < 1 {
		return
	}
	l.before = l.recent
	if n > 1 {
		l.before = 0
	}
	l.recent = 0
	l.block += n * l.p.Lag
}

// Take asks to admit a request of the given cost now. dither is a uniform
// random number in [0,1); it breaks ties between replicas under contention.
func (l *Ledger) Take(now, cost, dither float64) bool {
	l.Advance(now)
	cost = clean(cost, maxQuantity)
	l.dem = l.demand() + cost/l.window()
	l.demAt = l.at
	if l.p.Rate == 0 || !l.passes(cost) {
		l.scarce = l.at + l.p.Lag
		return false
	}
	l.charge(cost)
	noise := min(1, 2*(1-l.fair)) * (1 - 2*clamp(dither, 0, 1))
	floor := min(l.x, -max(1, 2*cost-1))
	l.x = max(floor, l.x-cost+cost*noise)
	return true
}

// passes decides. The pool must have the cost, and one of three must hold. The pacer has
// a token ready, or the cost fits into what any replica may spend (open), or it fits into
// the part that is reserved for this replica. The escrow rule s·(b−d+u) ≥ u+cost is
// written so that s = 1 leaves b−d ≥ cost.
func (l *Ledger) passes(cost float64) bool {
	slack := tolerance * max(1, l.p.Burst)
	if l.top-l.d < cost-slack {
		return false
	}
	if l.paced() && l.x >= min(1, cost)-tolerance {
		return true
	}
	if l.open()-l.d >= cost-slack {
		return true
	}
	u := l.recent + l.before
	return l.escrow*(l.p.Burst-l.d) >= (1-l.escrow)*u+cost-slack
}

// paced reports whether the pacer may let pass what does not fit into the burst. While no
// other replica has used the key, an OPTIMISTIC ledger receives nothing late and shares
// nothing: it is the token bucket, and the room above the burst stays unused.
func (l *Ledger) paced() bool {
	return l.room > 0 && (l.p.Strict || l.met)
}

// Owe charges cost that can no longer be refused, such as the part of a request's cost
// that is known only from its answer. d rises to deepest at most; Owe returns what it
// charged. Cost beyond the burst is debt: nothing passes until it is refilled.
func (l *Ledger) Owe(now, cost, deepest float64) float64 {
	l.Advance(now)
	cost = min(clean(cost, maxQuantity), max(0, deepest-l.d))
	l.charge(cost)
	return cost
}

// Forgive lowers what is spent to the most that the owner of the key's bucket can know of.
func (l *Ledger) Forgive(now, most float64) {
	if l.Advance(now); l.d > most {
		l.own, l.certain = l.own*most/l.d, min(l.certain, most)
		l.d = most
	}
}

// charge counts an admission.
func (l *Ledger) charge(cost float64) {
	l.admitted += cost
	l.d += cost
	l.own += cost
	l.certain += cost
	l.recent += cost
}

// Refund undoes an admission whose request was not served after all.
func (l *Ledger) Refund(cost float64) {
	cost = min(clean(cost, maxQuantity), l.admitted)
	l.admitted -= cost
	l.d = max(0, l.d-cost)
	l.own, l.certain = min(max(0, l.own-cost), l.d), min(max(0, l.certain-cost), l.d)
	fromRecent := min(cost, l.recent)
	l.recent -= fromRecent
	l.before = max(0, l.before-(cost-fromRecent))
	l.x = min(1, l.x+cost)
}

// RefundEarlier undoes an admission of before the ledger began, which it counts among those of
// the others, see FirstContact.
func (l *Ledger) RefundEarlier(cost float64) {
	cost = min(clean(cost, maxQuantity), l.others.Admitted)
	l.others.Admitted -= cost
	l.d = max(0, l.d-cost)
	l.own, l.certain = min(max(0, l.own-cost), l.d), min(max(0, l.certain-cost), l.d)
}

// Spent returns d: how much of the pool, with its room above the burst, is spent. 0 is
// idle; above Burst it is a debt that is being refilled. It means the same to every
// replica and converts to a TAT as it is (see TATFor).
func (l *Ledger) Spent() float64 { return l.d }

// Known returns the part of Spent that was certainly admitted: Spent also has estimates for unreachable replicas.
// STRICT counts those, too.
func (l *Ledger) Known() float64 {
	if l.p.Strict {
		return l.d
	}
	return l.certain
}

// Top returns Lc: no admission brings Spent above it, but Owe and the reports of others do.
func (l *Ledger) Top() float64 { return l.top }

// Own returns o, the part of Spent that was admitted here.
func (l *Ledger) Own() float64 { return l.own }

// Admitted returns A, the cost admitted here in this ledger's life.
func (l *Ledger) Admitted() float64 { return l.admitted }

// Idle reports whether the ledger is like a fresh one: its pool is full and nothing was
// admitted within the last two lags. Only then may the key be evicted.
func (l *Ledger) Idle(now float64) bool {
	l.Advance(now)
	return l.d == 0 && l.at-l.demAt >= 2*l.p.Lag && l.recent == 0 && l.before == 0
}

// Shares returns f (fair) and s (escrow in force) as parts of the limit,
// 0 < s ≤ f ≤ 1.
func (l *Ledger) Shares() (fair, escrow float64) { return l.fair, l.escrow }
