package drc

import "math"

const (
	epsilon = 0.01 // ε = k4/k2: the share of the enzyme that is bound at full rate
	kappa1  = 1e5  // κ1 = k1·B, 1/s: affinity, independent of volume
)

// Enzyme is a token bucket as a chemical reaction: it releases at most the given rate,
// and up to its bucket at once after idling. The rate may change at any time without
// moving tokens. The zero value has an empty backlog and needs a bucket by Resize before
// use; NewEnzyme does both.
//
//	symbol   identifier
//	E, ES    e, es         ET = B − E − ES is not stored
//	S        s             backlog: cost that has arrived and was not released
//	B        bucket        total enzyme, cost units
type Enzyme struct {
	e, es, s, bucket float64
}

// NewEnzyme returns a full bucket of the given depth in cost units.
func NewEnzyme(bucket float64) Enzyme {
	b := clean(bucket, maxQuantity)
	return Enzyme{e: b, bucket: b}
}

// Step advances by h seconds at the given rate (cost units per second), with
// arrived cost units coming in at its end, and returns the cost released.
//
// It solves one backward Euler step of r1, r2, r4 in closed form:
//
//	S' = (S+a)/(1+K·E'), n1 = K·S'·E', ES' = (ES+n1)·d,
//	(1+c)·K·E'² + ((1+c) + K·(S0·(1+c·d) − K0))·E' − K0 = 0
//
// with K = h·k1, c = h·k4, d = 1/(1+h·k2), K0 = E + c·(B − d·ES), k1 = κ1/B,
// k4 = (1+ε)·rate/B and k2 = k4/ε. The step is positive and unconditionally
// stable for every h. At rate 0 nothing recharges, but what is free still goes.
func (z *Enzyme) Step(h, arrived, rate float64) float64 {
	h, rate = clean(h, maxSeconds), clean(rate, maxQuantity)
	s0 := z.s + clean(arrived, maxQuantity)
	if z.bucket == 0 || h == 0 {
		z.s = s0
		return 0
	}
	k4 := (1 + epsilon) * rate / z.bucket
	bigK := h * kappa1 / z.bucket
	c := h * k4
	d := 1 / (1 + c/epsilon)
	k0 := z.e + c*(z.bucket-d*z.es)
	x := positiveRoot(bigK*(1+c), (1+c)+bigK*(s0*(1+c*d)-k0), k0)

	z.s = s0 / (1 + bigK*x)
	n1 := z.s * bigK * x // not s0−s: that difference cancels
	z.es = (z.es + n1) * d
	z.e = min(x, max(0, z.bucket-z.es))
	return n1
}

// positiveRoot returns the root x ≥ 0 of a·x² + b·x − k = 0 for a > 0, k ≥ 0
// without cancellation, whatever the sign of b.
func positiveRoot(a, b, k float64) float64 {
	q := math.Sqrt(b*b + 4*a*k)
	if b >= 0 {
		return 2 * k / (b + q)
	}
	return (q - b) / (2 * a)
}

// Resize sets the depth of the bucket. The three forms keep their proportions,
// so the state means the same at the new depth; the backlog is untouched. An
// enzyme that had no bucket starts full.
func (z *Enzyme) Resize(bucket float64) {
	b := clean(bucket, maxQuantity)
	if z.bucket == 0 {
		z.e = b
	} else if b != z.bucket {
		k := b / z.bucket
		z.e *= k
		z.es *= k
	}
	z.bucket = b
}

// Free returns E, the cost that could pass at once.
func (z *Enzyme) Free() float64 { return z.e }

// Bound returns ES, the cost in service.
func (z *Enzyme) Bound() float64 { return z.es }

// Spent returns ET, the cost that is recharging.
func (z *Enzyme) Spent() float64 { return max(0, z.bucket-z.e-z.es) }

// Bucket returns B = E + ES + ET.
func (z *Enzyme) Bucket() float64 { return z.bucket }

// Backlog returns S, the cost that arrived and was neither released nor removed.
func (z *Enzyme) Backlog() float64 { return z.s }

// Remove removes cost from the backlog (an abort, a deadline, an AQM drop) and returns
// what it removed: never more than the backlog.
func (z *Enzyme) Remove(cost float64) float64 {
	r := min(z.s, clean(cost, maxQuantity))
	z.s -= r
	return r
}
