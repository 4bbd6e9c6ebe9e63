package baseline

import (
	"math"
	"time"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/lab/simulate/traffic"
)

// smoothing is the time constant of demands.
const smoothing = 500 * time.Millisecond

// sparePart and spareRate are added to a demand: a part of the demand, and units/s.
const (
	sparePart = .1
	spareRate = 1
)

// gain returns how far a mean with the smoothing follows a new value after span, 0 to 1.
func gain(span time.Duration) float64 {
	return -math.Expm1(-span.Seconds() / smoothing.Seconds())
}

// unbounded is an unlimited demand for each flow.
func unbounded(int) float64 { return math.Inf(1) }

// shares divides the scenario's pools among the flows of a cast by weighted
// max-min; demand has each flow's demand, units/s. What is left over goes out by
// weight if spread.
func shares(s *scenario.Scenario, c *traffic.Cast, demand func(flow int) float64, spread bool) []float64 {
	out := make([]float64, len(c.Flows))
	for _, pool := range s.InForce.Allocation.Pools {
		var demands []fairshare.Demand
		var places []int
		weights := 0.0
		for f, flow := range c.Flows {
			if flow.Pool != pool.Name {
				continue
			}
			q := s.InForce.Quota(flow.Tenant, pool.Name)
			demands = append(demands, fairshare.Demand{Weight: q.Weight, Guaranteed: q.Guaranteed,
				Cap: min(q.Max, demand(f))})
			places = append(places, f)
			weights += q.Weight
		}
		got := make([]float64, len(demands))
		capacity := s.Serves(pool)
		fairshare.Fill(capacity, demands, pool.Guarantee, 0, got)
		left := capacity
		for _, v := range got {
			left -= v
		}
		for k, f := range places {
			out[f] = got[k]
			if spread && weights > 0 && left > 0 {
				out[f] += left * demands[k].Weight / weights
			}
		}
	}
	return out
}

// split divides a rate over gateways by max-min of their demands, and the rest by weight.
func split(rate float64, demands, weights []float64) []float64 {
	d := make([]fairshare.Demand, len(demands))
	total := 0.0
	for g := range d {
		d[g] = fairshare.Demand{Weight: weights[g], Cap: demands[g]}
		total += weights[g]
	}
	out := make([]float64, len(d))
	fairshare.Fill(rate, d, fairshare.Minimum, 0, out)
	left := rate
	for _, v := range out {
		left -= v
	}
	for g := range out {
		if total > 0 && left > 0 {
			out[g] += left * weights[g] / total
		}
	}
	return out
}
