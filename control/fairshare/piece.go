package fairshare

import "math"

// unbounded is the guarantee, in units/s, beyond which a tenant simply asks
// for everything: it counts as all of the capacity. Sums of real rates stay
// far below it.
const unbounded = 1e100

// piece is a tenant's share as a function of the fair rate:
// x(f) = clip(off + slope·f, lo, hi).
type piece struct{ slope, off, lo, hi float64 }

// shape is the piece of a tenant under guarantee g in a pool of the given
// capacity.
func (g Guarantee) shape(t *Demand, capacity float64) piece {
	p := piece{slope: min(sane(t.Weight), MaxWeight), lo: sane(t.Guaranteed), hi: sane(t.Cap)}
	if p.lo > unbounded {
		p.lo = capacity
	}
	if p.lo > p.hi {
		p.lo = p.hi
	}
	if g == Additive {
		p.off = p.lo
	}
	if p.slope == 0 {
		p.hi = p.lo
	}
	return p
}

// at is the share at fair rate f.
func (p *piece) at(f float64) float64 {
	if p.slope == 0 || math.IsInf(f, 1) {
		return p.hi
	}
	v := p.off + p.slope*f
	if v < p.lo {
		return p.lo
	}
	if v > p.hi {
		return p.hi
	}
	return v
}

// bound is what holds the piece at fair rate f.
func (p *piece) bound(f float64) Bound {
	v := p.off + p.slope*f
	switch {
	case p.slope == 0:
		return BoundGuarantee
	case v >= p.hi:
		return BoundCap
	case v <= p.lo && p.lo > 0:
		return BoundGuarantee
	default:
		return BoundPool
	}
}

// sane maps NaN and negative numbers to 0.
func sane(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return v
}
