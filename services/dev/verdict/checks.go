package verdict

import (
	"math"
	"strings"

	"github.com/titrate/titrate/services/dev/scenario"
)

// Names of the checks.
const (
	CheckPoolMean    = "pool_mean"          // admitted/s ≤ bound
	CheckPoolSliding = "pool_sliding_1s"    // requests ≤ bound
	CheckDeviation   = "fair_deviation"     // |admitted/fair share − 1| of a saturated tenant ≤ bound, in steady
	CheckWait        = "wait_p99"           // ms of a saturated tenant's admitted requests ≤ bound, in steady
	CheckEntitlement = "entitlement"        // admitted/entitlement ≥ bound
	CheckExcess      = "client_excess"      // requests over rate·t + burst ≤ bound
	CheckClientMean  = "client_mean"        // admitted/s while it asks for more than its rate ≤ bound
	CheckClientLeast = "client_mean_least"  // the same ≥ bound
	CheckWrongful    = "client_wrongful429" // requests ≤ 0
	CheckFailed      = "failed"             // requests ≤ 0
)

// checks puts every figure beside its bound.
func checks(s *scenario.Scenario, l *Load, phases []Phase) []Check {
	var out []Check
	for i := range phases {
		p := &phases[i]
		out = append(out,
			atMost(CheckPoolMean, p.Name, "", p.Pool.Admitted, meanBound(s, i)),
			atMost(CheckPoolSliding, p.Name, "", p.Pool.MaxSliding1s, slidingBound(s, i)))
		for _, t := range p.Tenants {
			out = append(out, tenantChecks(p.Name, &t, s.Pool.Target, l)...)
		}
		for _, c := range p.Clients {
			if c.Offered == 0 && c.WorstExcess == 0 && c.Wrongful429 == 0 {
				continue // it asks in another phase
			}
			out = append(out,
				atMost(CheckExcess, p.Name, c.Name, c.WorstExcess, excessBound(s, i, s.Client(c.Name))),
				atMost(CheckWrongful, p.Name, c.Name, float64(c.Wrongful429), 0))
		}
		out = append(out, atMost(CheckFailed, p.Name, "", float64(p.Failed), 0))
	}
	return append(out, meanChecks(s, phases)...)
}

func tenantChecks(phase string, t *Tenant, target float64, l *Load) []Check {
	var out []Check
	if phase == scenario.Steady && t.Saturated {
		out = append(out, atMost(CheckDeviation, phase, t.Name, math.Abs(t.Admitted/t.FairShare-1), maxDeviation))
		if target > 0 {
			out = append(out, atMost(CheckWait, phase, t.Name, t.WaitP99LeastMs, maxWait*target*1e3+l.LateP99Ms))
		}
	}
	if entitled := math.Min(t.Demand, t.FairShare); entitled > 0 {
		out = append(out, atLeast(CheckEntitlement, phase, t.Name, t.Admitted/entitled, minEntitlement))
	}
	return out
}

// meanChecks bound each limited client's mean over every stretch of phases in
// which it asks for more than its rate: its rate within 2 %, and one burst and the
// limit's slack on top.
func meanChecks(s *scenario.Scenario, phases []Phase) []Check {
	var out []Check
	for _, t := range s.Tenants {
		for _, c := range t.Clients {
			if c.Limit == nil || c.Process == scenario.Rush { // a rush pauses, and its bucket fills
				continue
			}
			for first := 0; first < len(phases); first++ {
				end := first
				for end < len(phases) && c.Rates[end] > c.Limit.Rate {
					end++
				}
				if end > first {
					out = append(out, meanOf(&c, phases[first:end], len(s.Gateways))...)
					first = end
				}
			}
		}
	}
	return out
}

func meanOf(c *scenario.Client, stretch []Phase, gateways int) []Check {
	admitted, seconds := 0.0, 0.0
	var names []string
	for _, p := range stretch {
		d := p.End - p.MeasuredFrom
		seconds += d
		names = append(names, p.Name)
		for _, x := range p.Clients {
			if x.Name == c.Name {
				admitted += x.Admitted * d
			}
		}
	}
	mean, where := admitted/seconds, strings.Join(names, "+")
	once := c.Limit.Burst + slack(c.Limit, gateways)
	return []Check{
		atMost(CheckClientMean, where, c.Name, mean, c.Limit.Rate*clientMean+once/seconds),
		atLeast(CheckClientLeast, where, c.Name, mean, c.Limit.Rate*clientLeast),
	}
}

func atMost(name, phase, subject string, value, bound float64) Check {
	return Check{Name: name, Phase: phase, Subject: subject, Value: value, Bound: bound, Pass: value <= bound+1e-9}
}

func atLeast(name, phase, subject string, value, bound float64) Check {
	return Check{Name: name, Phase: phase, Subject: subject, Value: value, Bound: bound, AtLeast: true,
		Pass: value >= bound-1e-9}
}
