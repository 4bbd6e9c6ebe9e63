package drc

import "math"

// The pacing law of the ledger. Close to empty, an enzyme of one token is
// recharged at s·r·m(L), a mass-action step of order p in the free pool L:
//
//	m(L) = 2^p·(clip(L−1, 0, h)/h)^p
//	G(y) = ∫ m = 2^p·h/(p+1)·(y/h)^(p+1) for 0 < y < h, 2^p·(h/(p+1)+y−h) above
//
// m is the integral term of the controller: an over-admission empties the pool
// and slows every replica down, so the mean is exact.

// order returns p: the fewer requests are under way within a lag, the steeper.
func order(perLag float64) int {
	switch {
	case perLag <= 0.25:
		return 3
	case perLag <= 1:
		return 2
	}
	return 1
}

func intPow(x float64, n int) float64 {
	y := x
	for ; n > 1; n-- {
		y *= x
	}
	return y
}

// speed returns m at free pool free.
func (l *Ledger) speed(free float64) float64 {
	two := float64(int(1) << l.order)
	if l.room == 0 {
		if free > 1 {
			return two
		}
		return 0
	}
	return two * intPow(clamp(free-1, 0, l.room)/l.room, l.order)
}

// work returns G(y).
func (l *Ledger) work(y float64) float64 {
	two, p1 := float64(int(1)<<l.order), float64(l.order+1)
	switch {
	case y <= 0:
		return 0
	case y < l.room:
		return two * l.room / p1 * intPow(y/l.room, l.order+1)
	}
	return two * (l.room/p1 + y - l.room)
}

// pool returns the y at which G(y) is g: the inverse of work.
func (l *Ledger) pool(g float64) float64 {
	two, p1 := float64(int(1)<<l.order), float64(l.order+1)
	if g <= 0 {
		return 0
	}
	if knee := two * l.room / p1; g < knee {
		return l.room * math.Pow(g/knee, 1/p1)
	}
	return g/two + l.room - l.room/p1
}

// window returns Td, seconds over which demand is measured: about fifty
// requests at the static share, so that a replica's own ripple does not look
// like saturation.
func (l *Ledger) window() float64 {
	return clamp(50*l.p.Replicas/l.p.Rate, max(0.05, min(l.p.Lag, 1)), 1)
}

// demand returns the measured demand at the time advanced to, cost units/s.
func (l *Ledger) demand() float64 {
	return l.dem * math.Exp(-max(0, l.at-l.demAt)/l.window())
}

// trace is the demand below which a claim is withdrawn: a fiftieth of a request
// in the window, or a thousandth of the limit.
func (l *Ledger) trace() float64 { return max(0.02/l.window(), 0.001*l.p.Rate) }

// share computes f, s and sx from the sums, the announced claims and the mode.
//
// f is floored at 1/N: no saturated replica's max-min share is less, and sums
// that say otherwise are about to change.
func (l *Ledger) share() {
	r, n, o := l.p.Rate, l.p.Replicas, &l.others
	l.fair, l.escrow, l.pace = 1, 1, 1
	if n == 1 || r == 0 {
		return
	}
	reserved := r * l.kept()
	l.fair = clamp(max(0, r-o.Unsaturated-reserved)/(o.Active+1)/r, 1/n, 1)
	lm := l.heard.least()
	rest := max(0, r-o.Claims-reserved-l.heard.pub) / n
	l.escrow = min(l.fair, max(lm+rest, 1.5*lm, r/n)/r)
	l.pace = l.fair
	if perLag := r * l.p.Lag; perLag > 0 {
		slow := 0.5 / float64(int(1)<<l.order) / perLag // .25·2^(1−p)/(r·δ)
		l.pace = min(l.fair, max(l.escrow, slow))
	}
}

// open returns the d up to which any replica may spend, without regard to shares.
// OPTIMISTIC: all of the burst while no other replica wants more than it gets, for then
// nothing has to be shared. With A that do, the pacer keeps the pool around the middle of
// its room h. What is above the part A/(A+1) of it is not in demand, and when all A+1
// spend it within one lag they spend h together. STRICT: nothing.
func (l *Ledger) open() float64 {
	active := l.others.Active
	if l.others.Contended {
		active = max(1, active)
	}
	switch {
	case l.p.Strict:
		return math.Inf(-1)
	case active == 0:
		return l.p.Burst
	}
	return min(l.p.Burst, l.top-1-l.room*active/(active+1))
}

// Wait returns the seconds from now until a request of this cost could be admitted if nothing
// were asked meanwhile, here and at the others. The client waits for as long. 0 if it would
// pass now, +Inf if it never can (cost above the pool, rate 0).
//
//	wait            goes by
//	at most 2·δ     what all replicas claim now
//	longer          OPTIMISTIC: from 2·δ on no other replica is saturated, so any may spend all of the burst
//	                the pacer, STRICT: claims fade with the demand, see fading
//
// While claims fade the pacer's time is not exact: it depends on the demand of others, which is not known. A
// wait that ends later supposes that the pacer has the least pace until then, so it is too long by as much at
// most. A burst of at least 3 + r·δ of OPTIMISTIC needs no pacer.
func (l *Ledger) Wait(now, cost float64) float64 {
	l.Advance(now)
	cost = clean(cost, maxQuantity)
	slack := tolerance * max(1, l.p.Burst)
	r := l.refill()
	if r == 0 || cost > l.top+slack {
		return math.Inf(1)
	}
	wait := l.waitAsClaimed(cost, r)
	if l.p.Replicas == 1 || wait <= 2*l.p.Lag {
		return wait
	}
	return l.waitWithdrawn(cost, r, wait)
}

// waitAsClaimed is Wait while all replicas claim what they claim now. Own admissions that the
// others receive meanwhile are allowed for.
func (l *Ledger) waitAsClaimed(cost, r float64) float64 {
	if l.passes(cost) {
		return 0
	}
	free := max(0, cost-(l.top-l.d)) / r
	return max(free, min(l.waitToken(cost, r), l.waitEscrow(cost, r)))
}

// waitWithdrawn is Wait where that is longer than two lags; claimed is what it would be if no claim were
// withdrawn.
func (l *Ledger) waitWithdrawn(cost, r, claimed float64) float64 {
	then := *l
	then.others.Claims, then.others.Active, then.others.Unsaturated, then.others.Contended = 0, 0, 0, false
	then.heard = announced{}
	then.share()
	open := max(2*l.p.Lag, then.openAt(cost, r))
	fade := fading*l.window() + 2*l.p.Lag
	if claimed <= fade {
		return min(open, max(claimed, then.waitAsClaimed(cost, r)))
	}
	then.pace = 1 / l.p.Replicas
	then.Advance(l.at + fade)
	then.share()
	return min(open, fade+then.waitAsClaimed(cost, r))
}

// fading is in how many windows a replica withdraws its claim: by then the demand of a hundred requests in a
// window is about a trace.
const fading = 8

// waitToken is the time until the pacing enzyme is ready.
func (l *Ledger) waitToken(cost, r float64) float64 {
	if !l.paced() {
		return math.Inf(1)
	}
	goal := l.work(l.top-l.d-1) + max(0, min(1, cost)-l.x)/l.pace
	if free := 1 + l.pool(goal); free <= l.top {
		return max(0, free-(l.top-l.d)) / r
	}
	return l.d/r + (goal-l.work(l.top-1))/(l.speed(l.top)*r)
}

// openAt is the time until any replica may spend the cost.
func (l *Ledger) openAt(cost, r float64) float64 {
	open := l.open()
	if cost > open+tolerance*l.p.Burst {
		return math.Inf(1)
	}
	return max(0, l.d+cost-open) / r
}

// waitEscrow is the time until the cost fits into what any replica may spend or into the
// part reserved for this one. It is the least of three, with what is unheard now, after
// this block and after the next.
func (l *Ledger) waitEscrow(cost, r float64) float64 {
	if l.p.Burst == l.open() {
		return l.openAt(cost, r)
	}
	roll := max(0, l.block+l.p.Lag-l.at)
	wait := l.escrowAt(cost, l.recent+l.before, r)
	wait = min(wait, l.openAt(cost, r), max(roll, l.escrowAt(cost, l.recent, r)))
	return min(wait, max(roll+l.p.Lag, l.escrowAt(cost, 0, r)))
}

func (l *Ledger) escrowAt(cost, u, r float64) float64 {
	need := ((1-l.escrow)*u + cost) / l.escrow
	if need > l.p.Burst*(1+tolerance) {
		return math.Inf(1)
	}
	return max(0, need-(l.p.Burst-l.d)) / r
}
