package drc

import "math"

// tolerance is the rounding error, relative to the burst, that an admission
// forgives: a client exactly at its limit must not fail on the last bit.
const tolerance = 1e-9

// LedgerParams configures a Ledger.
type LedgerParams struct {
	Rate     float64 // r, cost units/s, of the limit that all replicas hold together; 0 admits nothing
	Burst    float64 // b, cost units; below 1 is raised to 1
	Replicas float64 // N, live replicas with this one; below 1 is raised to 1
	Lag      float64 // δ = τ_max + 5P/2 and what is lost, seconds: after it everybody has heard what one admitted
	Strict   bool    // escrow even when no other use is known; false: OPTIMISTIC
}

// LedgerSums is what a replica hears about one key from the others.
type LedgerSums struct {
	Admitted    float64 // Σ of the others' cumulative admitted cost; its signed change is what counts
	Claims      float64 // R, cost units/s
	Active      float64 // Aw, number of saturated others
	Unsaturated float64 // U, cost units/s
	Spent       float64 // the largest Spent that another replica announced; read on a new Epoch only
	Age         float64 // seconds for which Spent has not changed: more than a lag, and who said it is gone
	Absent      float64 // replicas cut off for longer than T2 and still members: r/N is kept for each
	Epoch       uint32  // a change says that Admitted starts a new count (the table forgot the key)
	Contended   bool    // others are known to use the key although the sums do not show it: escrow
}

// LedgerClaim is what a replica announces for one key.
type LedgerClaim struct {
	Admitted    float64 // A, cumulative admitted cost of this ledger's life
	Claim       float64 // R, cost units/s
	Active      float64 // 1 when saturated, else 0
	Unsaturated float64 // the claim when unsaturated, else 0
	Spent       float64 // see Ledger.Spent
}

// Ledger holds a limit with a burst over N replicas: a shadow of the one global
// bucket, from which this replica may take what is escrowed for it by announced
// share, and near empty what a one-token enzyme paces. One per contended key
// and replica; a value without pointers. Times are seconds from any origin.
//
// The room above b (up to Lc) exists so that the pacing law has a pool to work
// on; it is never spent as burst. This type counts d from the top of that room,
// so that an idle key has d = 0 whatever N and δ:
//
//	symbol       identifier
//	D            d + b − Lc          L = b − D = Lc − d
//	L − (Lc−b)   b − d               what may go as burst
//	x            x                   progress of the pacing enzyme, ≤ 1
//	h, p, Lc     room, order, top
//	u0, u1       recent, before      own admissions not yet surely heard
//	W            lost                refill that the full pool turned away within the last δ
//	f, s, sx     fair, escrow, pace
//
// A client that keeps to the limit is not refused in OPTIMISTIC, however it moves,
// while news is no older than Lag: what is heard late is charged less W, what it
// would have been refilled by. docs/control.md has the grid that this is from.
//
// Costs other than 1: an admission needs L ≥ cost, spends cost of d, and spends
// cost of x, for which a single token (or the cost, if less) must be ready.
type Ledger struct {
	p        LedgerParams
	room     float64 // h
	top      float64 // Lc
	order    int     // p of m(L)
	d        float64 // spent, ≥ 0
	x        float64
	at       float64 // time of d and x
	lost     float64 // W as of full, cost units
	full     float64 // when the pool was last full
	block    float64 // start of the running block of δ
	recent   float64
	before   float64
	admitted float64 // A
	dem      float64 // demand at demAt, cost units/s
	demAt    float64
	hungry   float64 // until then a refusal counts as recent
	others   LedgerSums
	fair     float64 // f, part of r in (0,1]
	escrow   float64 // s, in (0,f]
	pace     float64 // sx
	heard    announced
	pubAt    float64
}

// NewLedger returns the ledger of an idle key: the whole pool is free.
func NewLedger(p LedgerParams, now float64) Ledger {
	now = clamp(now, -maxSeconds, maxSeconds)
	l := Ledger{x: 1, at: now, block: now, demAt: now, pubAt: now, full: now}
	l.install(p)
	l.lost = l.p.Rate * l.p.Lag
	return l
}

// FromSpent returns the ledger of a key that this replica has used alone, in
// its compact form, with the given D (see SpentAt). Its pool is taken to have been
// full until now: the compact form does not tell since when the key is in use.
func FromSpent(p LedgerParams, now, spent float64) Ledger {
	l := NewLedger(p, now)
	l.d = clean(spent, maxQuantity)
	return l
}

// Configure installs new parameters. What was admitted and spent stays as it
// is: a limit change rescales no count.
func (l *Ledger) Configure(p LedgerParams, now float64) {
	l.Advance(now)
	l.install(p)
}

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
	free1 := l.top - l.d
	if r == 0 {
		return
	}
	atTop := dt - gain/r // seconds at the cap
	if l.d == 0 {
		l.lost = min(l.late(now-atTop)+r*atTop, r*l.p.Lag)
		l.full = now
	}
	work := l.work(free1-1) - l.work(free0-1) + l.speed(l.top)*atTop*r
	l.x = min(1, l.x+l.pace*max(0, work)) // the difference may round below 0
}

// late returns W at the given time: of the refill that the full pool turned away,
// what is so young that an admission elsewhere may have come before it unheard.
// STRICT counts none: it would rather refuse than admit too much.
func (l *Ledger) late(now float64) float64 {
	if l.p.Strict {
		return 0
	}
	return min(l.lost, l.refill()*max(0, l.p.Lag-(now-l.full)))
}

// refill is the rate at which the shadow pool refills: r, less what is kept
// for members that are cut off and spend their static share unheard.
func (l *Ledger) refill() float64 { return l.p.Rate * (1 - l.kept()) }

// kept is the part of r that STRICT keeps for members that are cut off. OPTIMISTIC
// keeps none: most of them have crashed.
func (l *Ledger) kept() float64 {
	if !l.p.Strict {
		return 0
	}
	return min(1, l.others.Absent/l.p.Replicas)
}

// roll moves own admissions through the two blocks of δ. A thing admitted in
// the block before may still be unheard; an older one is not.
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
		l.hungry = l.at + l.p.Lag
		return false
	}
	l.admitted += cost
	l.d += cost
	l.recent += cost
	noise := min(1, 2*(1-l.fair)) * (1 - 2*clamp(dither, 0, 1))
	floor := min(l.x, -max(1, 2*cost-1))
	l.x = max(floor, l.x-cost+cost*noise)
	return true
}

// passes decides: the pool must hold the cost, and either a token of the pacing
// enzyme is ready, or the cost fits into what anybody may take, or into this
// replica's part of the pool.
// The escrow rule s·(b−d+u) ≥ u+cost is written so that s = 1 leaves b−d ≥ cost.
func (l *Ledger) passes(cost float64) bool {
	slack := tolerance * max(1, l.p.Burst)
	if l.top-l.d < cost-slack {
		return false
	}
	if l.room > 0 && l.x >= min(1, cost)-tolerance {
		return true
	}
	if l.open()-l.d >= cost-slack {
		return true
	}
	u := l.recent + l.before
	return l.escrow*(l.p.Burst-l.d) >= (1-l.escrow)*u+cost-slack
}

// Owe charges cost that cannot be refused any more, such as the part of a
// request's cost that was known only from its answer. d rises to deepest at
// most; Owe returns what it charged. What is beyond the burst is debt: nothing
// passes until it is refilled.
func (l *Ledger) Owe(now, cost, deepest float64) float64 {
	l.Advance(now)
	cost = min(clean(cost, maxQuantity), max(0, deepest-l.d))
	l.admitted += cost
	l.d += cost
	l.recent += cost
	return cost
}

// Refund undoes an admission whose request was not served after all.
func (l *Ledger) Refund(cost float64) {
	cost = min(clean(cost, maxQuantity), l.admitted)
	l.admitted -= cost
	l.d = max(0, l.d-cost)
	fromRecent := min(cost, l.recent)
	l.recent -= fromRecent
	l.before = max(0, l.before-(cost-fromRecent))
	l.x = min(1, l.x+cost)
}

// Hear takes in the latest sums over the other replicas. The others' cumulative
// count may step down as well as up: an estimate was replaced by the truth. On
// a new Epoch the count has no predecessor. The first one charges what it holds, as
// far as the others still see it as spent; a later one, of an agent that began
// anew, tells of replicas whose admissions are in this ledger already: the emptier
// of the two pools is right.
func (l *Ledger) Hear(now float64, s LedgerSums) {
	l.Advance(now)
	s = s.normal()
	delta := s.Admitted - l.others.Admitted
	switch {
	case s.Epoch == l.others.Epoch:
		delta -= l.redeem(delta)
	case l.others.Epoch == 0:
		delta = min(s.Admitted, s.Spent)
		delta -= l.redeem(delta)
	default:
		delta = max(0, s.Spent-l.p.Rate*s.Age-l.d)
	}
	l.d = clamp(l.d+delta, 0, max(l.d, l.most()))
	l.others = s
	l.share()
}

// most bounds what news of the others can make of D: each of them has spent its whole
// pool at once, and the rate besides for as long as a replica that is cut off is believed
// to go on. Whatever a replica tells, the key is silent no longer than this takes to
// refill.
func (l *Ledger) most() float64 { return l.p.Replicas * (l.top + believed*l.p.Rate) }

// believed is that time, in seconds.
const believed = 15

// redeem takes from W what an admission elsewhere, heard late, would have been
// refilled by meanwhile.
func (l *Ledger) redeem(delta float64) float64 {
	l.lost, l.full = l.late(l.at), l.at
	used := clamp(delta, 0, l.lost)
	l.lost -= used
	return used
}

// FirstContact takes in the sums that were heard before this ledger began, of
// which it knows nothing but what was admitted here. What the others admitted and
// still see as spent is added to that, and no pool is fuller than they say. All of
// it is up to a lag old and has been refilled since (STRICT: only what is known). The caller will add own to
// each Admitted from now on: what of this ledger's cost it counts there. The others
// have heard of known, another part of this ledger's cost: what they admitted is
// partly in it, and all of it is in what they see as spent.
func (l *Ledger) FirstContact(now float64, s LedgerSums, own, known float64) {
	l.Advance(now)
	s = s.normal()
	old := s.Age
	if !l.p.Strict {
		old += l.p.Lag
	}
	late := min(s.Spent, l.p.Rate*old)
	theirs := max(0, min(s.Admitted, s.Spent)-late-min(known, l.d))
	l.d = min(max(l.d+theirs, s.Spent-late), max(l.d, l.most()))
	l.lost, l.full = max(0, l.lost-late), now
	l.others = s
	l.others.Admitted += clean(own, maxQuantity)
	l.share()
}

func (s LedgerSums) normal() LedgerSums {
	s.Admitted = clean(s.Admitted, maxQuantity)
	s.Claims = clean(s.Claims, maxQuantity)
	s.Active = clean(s.Active, maxQuantity)
	s.Unsaturated = clean(s.Unsaturated, maxQuantity)
	s.Spent = clean(s.Spent, maxQuantity)
	s.Age = clean(s.Age, maxSeconds)
	s.Absent = clean(s.Absent, maxQuantity)
	return s
}

// Publish returns what to gossip now and takes the claim as announced; call it
// every P while Active or since the last Take, and once more when that ends.
func (l *Ledger) Publish(now float64) LedgerClaim {
	l.Advance(now)
	l.heard.advance(l.at-l.pubAt, l.p.Lag)
	l.pubAt = l.at
	l.share()

	want, mine := l.demand(), l.fair*l.p.Rate
	c := LedgerClaim{Admitted: l.admitted, Spent: l.d}
	switch {
	case want >= mine && want > 0 && (l.p.Strict || l.at < l.hungry):
		c.Claim, c.Active = mine, 1
	case want >= mine && want > 0:
		c.Claim, c.Unsaturated = mine, mine
	case want > l.trace():
		c.Claim, c.Unsaturated = want, want
	}
	l.heard.publish(c.Claim)
	l.share()
	return c
}

// Spent returns d: how much of the pool, with its room above the burst, is
// gone. 0 is idle; above Burst it is debt being repaid. It means the same to
// every replica and converts to a TAT as it is (see TATFor).
func (l *Ledger) Spent() float64 { return l.d }

// Admitted returns A, the cost admitted here in this ledger's life.
func (l *Ledger) Admitted() float64 { return l.admitted }

// Idle reports whether the ledger holds nothing that a fresh one would not: its
// pool is full and nothing was admitted within the last two lags. Only then may
// the key be evicted.
func (l *Ledger) Idle(now float64) bool {
	l.Advance(now)
	return l.d == 0 && l.at-l.demAt >= 2*l.p.Lag && l.recent == 0 && l.before == 0
}

// Shares returns f (fair) and s (escrow in force) as parts of the limit,
// 0 < s ≤ f ≤ 1.
func (l *Ledger) Shares() (fair, escrow float64) { return l.fair, l.escrow }
