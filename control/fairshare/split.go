package fairshare

// Split divides a total (units/s) over replicas so that the limits sum to it:
// each replica gets its fill, and what nobody wants is spread by weight, so
// that a rise of demand anywhere finds room at once.
//
//	limit_i = fill_i + spare·w_i/W,   spare = total − Σ fill
//
// A replica's Cap is its demand. limits must have the length of replicas. With
// no positive weight there is nowhere for the spare to go and it stays unused.
func Split(total float64, replicas []Demand, limits []float64) Result {
	r := Fill(total, replicas, Minimum, 0, limits)
	spare, weight := r.capacity, 0.0
	for i := range replicas {
		spare -= limits[i]
		weight += weightOf(&replicas[i])
	}
	if !(spare > 0 && weight > 0) {
		return r
	}
	for i := range replicas {
		if w := weightOf(&replicas[i]); w > 0 { // not ∞·0
			limits[i] += spare * (w / weight)
		}
	}
	return r
}

// weightOf is a tenant's weight as it is used.
func weightOf(d *Demand) float64 { return min(sane(d.Weight), MaxWeight) }
