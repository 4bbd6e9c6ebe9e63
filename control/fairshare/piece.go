package fairshare

import "math"

// unbounded is the rate, in units/s, beyond which a guarantee counts as all of
// the capacity and a capacity as infinite. Sums of real rates stay far below.
const unbounded = 1e100

// piece is a tenant's share as a function of the fair rate:
// x(f) = clip(off + slope·f, lo, hi).
type piece struct{ slope, off, lo, hi float64 }

// shape is the piece of a tenant under guarantee g in a pool of the given
// capacity. It is the inner loop: ordinary numbers use the inlined path.
func (g Guarantee) shape(t *Demand, capacity float64) piece {
	if t.Weight < MinWeight || t.Weight > MaxWeight || t.Guaranteed > t.Cap || t.Guaranteed > unbounded ||
		t.Weight+t.Guaranteed+t.Cap != t.Weight+t.Guaranteed+t.Cap || t.Guaranteed < 0 {
		return g.repair(*t, capacity)
	}
	if g == Additive {
		return piece{t.Weight, t.Guaranteed, t.Guaranteed, t.Cap}
	}
	return piece{t.Weight, 0, t.Guaranteed, t.Cap}
}

// repair is shape for a tenant of weight 0, with a guarantee above its cap, or
// with numbers that the package comment has a rule for.
func (g Guarantee) repair(t Demand, capacity float64) piece {
	p := piece{lo: sane(t.Guaranteed), hi: sane(t.Cap)}
	if p.lo > unbounded {
		p.lo = capacity
	}
	p.lo = min(p.lo, p.hi)
	if g == Additive {
		p.off = p.lo
	}
	if t.Weight > 0 {
		p.slope = min(max(t.Weight, MinWeight), MaxWeight)
	} else {
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

// bound returns the limit on the share at fair rate f.
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

// usable is a capacity as it is used: 0 if negative or NaN, +Inf if unbounded.
func usable(capacity float64) float64 {
	if capacity > unbounded {
		return math.Inf(1)
	}
	return sane(capacity)
}
