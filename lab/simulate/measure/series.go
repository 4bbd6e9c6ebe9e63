package measure

import "time"

// mostPoints bounds the points of a series.
const mostPoints = 600

// series joins bins to at most mostPoints points.
func (p *Recorder) series() *Series {
	t := p.t
	each := (t.bins + mostPoints - 1) / mostPoints
	each = max(each, int(100*time.Millisecond/t.bin))
	points := (t.bins + each - 1) / each
	join := func(at func(bin int) float64) []float64 {
		out := make([]float64, points)
		for b := range t.bins {
			out[b/each] += at(b)
		}
		for i := range out {
			covered := min(time.Duration((i+1)*each)*t.bin, t.end) - time.Duration(i*each)*t.bin
			out[i] /= covered.Seconds()
		}
		return out
	}
	cost := func(bins []float64) []float64 { return join(func(b int) float64 { return bins[b] }) }
	rate := func(byPhase []float64) []float64 {
		return join(func(b int) float64 {
			from := time.Duration(b) * t.bin
			return byPhase[t.phaseOf(from)] * min(t.bin, t.end-from).Seconds()
		})
	}
	s := &Series{StepSeconds: (time.Duration(each) * t.bin).Seconds(), Pools: []PoolSeries{}, Flows: []FlowSeries{},
		Limits: []LimitSeries{}, Gateways: []GatewaySeries{}}
	for i := range t.pools {
		demand, served := make([]float64, t.bins), make([]float64, t.bins)
		for j := range t.flows {
			if t.poolOf[j] == i {
				add(demand, t.flows[j].demand)
				add(served, p.flows[j].served)
			}
		}
		s.Pools = append(s.Pools, PoolSeries{t.pools[i].name, rate(t.pools[i].capacity), cost(demand), cost(served)})
	}
	for i := range t.flows {
		f := FlowSeries{Tenant: t.flows[i].tenant, Pool: t.flows[i].pool, Demand: cost(t.flows[i].demand),
			Fair: []float64{}, Admitted: cost(p.flows[i].served)}
		if t.poolOf[i] >= 0 {
			f.Fair = rate(t.flows[i].fair)
		}
		s.Flows = append(s.Flows, f)
	}
	for i := range t.limits {
		l := &t.limits[i]
		s.Limits = append(s.Limits, LimitSeries{l.tenant, l.limit, rate(l.rate), cost(l.offered), cost(l.central),
			cost(p.limit[i])})
	}
	for i, name := range t.cast.Gateways {
		s.Gateways = append(s.Gateways, GatewaySeries{name, cost(t.gates[i]), cost(p.gates[i])})
	}
	return s
}

func add(to, from []float64) {
	for i, x := range from {
		to[i] += x
	}
}
