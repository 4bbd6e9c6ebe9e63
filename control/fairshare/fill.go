package fairshare

// MinWeight and MaxWeight bound positive weights; a weight outside counts as
// the bound. They keep quotients of capacity and weight finite, and hold the
// effective weights W^(1/α) of pricing.Pool for W from 1e-9 to 1e9 and α from 0.1.
const (
	MinWeight = 1e-100
	MaxWeight = 1e100
)

// MinCost and MaxCost bound what a unit of a tenant's share uses of a pool.
const (
	MinCost = 1e-15
	MaxCost = 1e15
)

// Guarantee says what a tenant's guaranteed rate means.
type Guarantee int

const (
	// Minimum makes it a floor: x = min(max(m, w·f), cap).
	Minimum Guarantee = iota
	// Additive makes it a base, as in the paper: x = min(m + w·f, cap).
	Additive
)

// Demand is one tenant's wish. Rates are in cost units per second.
type Demand struct {
	Weight     float64 // share weight w ≥ 0; 0 = only the guarantee
	Guaranteed float64 // guaranteed rate m ≥ 0
	Cap        float64 // min(maximum, demand) ≥ 0; +Inf = unbounded
}

// Status says whether the guarantees fit the capacity.
type Status int

const (
	// OK: every guarantee is met.
	OK Status = iota
	// Infeasible: the guarantees exceed the capacity and were scaled down.
	Infeasible
)

// Bound names the limit on a tenant's share.
type Bound int

const (
	// BoundPool: the pool's fair rate limits the share.
	BoundPool Bound = iota
	// BoundCap: the tenant has all of its Cap (its demand or maximum).
	BoundCap
	// BoundGuarantee: the share is the (possibly scaled) guarantee.
	BoundGuarantee
)

// Result is the outcome of a fill.
type Result struct {
	// FairRate is f, units/s per unit of weight; +Inf when the capacity
	// covers all caps, 0 when the guarantees alone use it up.
	FairRate float64
	// Price is the max-min price of the pool, 1/FairRate: 0 when slack, +Inf
	// when nothing is left above the guarantees.
	Price float64
	// Status is Infeasible when guarantees were scaled.
	Status Status
	// Passes counts the passes over the tenants.
	Passes int

	guarantee Guarantee
	capacity  float64
	scale     float64 // factor on guarantees, 1 unless Infeasible
}

// Bound returns the limit on tenant t's share in this result; t must be one of the
// tenants that were filled.
func (r Result) Bound(t Demand) Bound {
	if r.Status == Infeasible {
		return BoundGuarantee
	}
	p := r.guarantee.shape(&t, r.capacity)
	return p.bound(r.FairRate)
}

// Share is the share of tenant t in this result, as Fill writes it.
func (r Result) Share(t Demand) float64 { return r.share(&t) }

func (r *Result) share(t *Demand) float64 {
	p := r.guarantee.shape(t, r.capacity)
	if r.Status == Infeasible {
		return p.lo * r.scale
	}
	return p.at(r.FairRate)
}

// Fill shares capacity (units/s) among tenants, writing tenant i's share to
// shares[i], which must have the length of tenants. warm is a guess of the
// fair rate, such as the last round's (0 = none): it changes the time taken,
// not the result. It panics if the lengths differ.
func Fill(capacity float64, tenants []Demand, g Guarantee, warm float64, shares []float64) Result {
	if len(shares) != len(tenants) {
		panic("fairshare: Fill needs exactly one share per tenant")
	}
	s := solver{tenants: tenants, guarantee: g, capacity: usable(capacity)}
	r := s.solve(warm)
	for i := range tenants {
		shares[i] = r.share(&tenants[i])
	}
	return r
}
