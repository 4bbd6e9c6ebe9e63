package verdict

import (
	"math"

	"github.com/titrate/titrate/services/dev/scenario"
)

// Names of the checks.
const (
	CheckPoolMean    = "pool_mean"          // admitted/s ≤ bound
	CheckPoolSliding = "pool_sliding_1s"    // requests ≤ bound
	CheckDeviation   = "fair_deviation"     // |admitted/fair share − 1| of a saturated tenant ≤ bound, in steady
	CheckEntitlement = "entitlement"        // admitted/entitlement ≥ bound
	CheckExcess      = "client_excess"      // requests over rate·t + burst ≤ bound
	CheckClientMean  = "client_mean"        // admitted/s over the run ≤ bound
	CheckWrongful    = "client_wrongful429" // requests ≤ 0
	CheckFailed      = "failed"             // requests ≤ 0
)

// checks puts every figure beside its bound.
func checks(s *scenario.Scenario, phases []Phase) []Check {
	var out []Check
	for i := range phases {
		p := &phases[i]
		out = append(out,
			atMost(CheckPoolMean, p.Name, "", p.Pool.Admitted, p.Pool.Capacity*poolMean),
			atMost(CheckPoolSliding, p.Name, "", p.Pool.MaxSliding1s, slidingBound(s)))
		for _, t := range p.Tenants {
			out = append(out, tenantChecks(p.Name, &t)...)
		}
		for _, c := range p.Clients {
			l := &scenario.Limit{Rate: c.Rate, Burst: c.Burst}
			out = append(out,
				atMost(CheckExcess, p.Name, c.Name, c.WorstExcess, slack(l, len(s.Gateways))),
				atMost(CheckWrongful, p.Name, c.Name, float64(c.Wrongful429), 0))
		}
		out = append(out, atMost(CheckFailed, p.Name, "", float64(p.Failed), 0))
	}
	return append(out, meanChecks(s, phases)...)
}

func tenantChecks(phase string, t *Tenant) []Check {
	var out []Check
	if phase == scenario.Steady && t.Saturated {
		out = append(out, atMost(CheckDeviation, phase, t.Name, math.Abs(t.Admitted/t.FairShare-1), maxDeviation))
	}
	if entitled := math.Min(t.Demand, t.FairShare); entitled > 0 {
		out = append(out, atLeast(CheckEntitlement, phase, t.Name, t.Admitted/entitled, minEntitlement))
	}
	return out
}

// meanChecks bound each limited client's admissions over the whole run: its
// rate within 2 %, beside one burst.
func meanChecks(s *scenario.Scenario, phases []Phase) []Check {
	var out []Check
	for i, c := range phases[0].Clients {
		admitted, seconds := 0.0, 0.0
		for _, p := range phases {
			d := p.End - p.MeasuredFrom
			admitted += p.Clients[i].Admitted * d
			seconds += d
		}
		out = append(out, atMost(CheckClientMean, "run", c.Name, admitted/seconds, c.Rate*clientMean+c.Burst/seconds))
	}
	return out
}

func atMost(name, phase, subject string, value, bound float64) Check {
	return Check{Name: name, Phase: phase, Subject: subject, Value: value, Bound: bound, Pass: value <= bound+1e-9}
}

func atLeast(name, phase, subject string, value, bound float64) Check {
	return Check{Name: name, Phase: phase, Subject: subject, Value: value, Bound: bound, AtLeast: true, Pass: value >= bound-1e-9}
}
