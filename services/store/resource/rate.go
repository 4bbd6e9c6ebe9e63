package resource

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// MaxRate is the highest rate that a limit may have, cost units per second.
const MaxRate = 1e9

var secondsPer = map[string]float64{
	"s": 1, "sec": 1, "second": 1,
	"min": 60, "minute": 60,
	"h": 3600, "hour": 3600,
	"d": 86400, "day": 86400,
}

// ParseRate reads a rate with its unit, such as 100/s, 10/min, 1000/h or
// 5000/d, as cost units per second in (0, MaxRate].
func ParseRate(s string) (float64, error) {
	number, unit, ok := strings.Cut(s, "/")
	if !ok {
		return 0, fmt.Errorf("rate %q has no unit: want such as 100/s, 10/min, 1000/h, 5000/d", s)
	}
	per, ok := secondsPer[unit]
	if !ok {
		return 0, fmt.Errorf("rate %q: unknown unit %q: want s, min, h or d", s, unit)
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(n) || strings.ContainsAny(number, "xXpP_") {
		return 0, fmt.Errorf("rate %q: %q is not a number", s, number)
	}
	if n <= 0 {
		return 0, fmt.Errorf("rate %q must be above 0", s)
	}
	if r := n / per; r <= MaxRate {
		return r, nil
	}
	return 0, fmt.Errorf("rate %q must be at most %g/s", s, MaxRate)
}

// Burst returns the burst in force for a rate in cost units per second: the one
// that is set, else one second's worth, at least 1.
func Burst(rate, set float64) float64 {
	if set > 0 {
		return set
	}
	return max(1, rate)
}

// Rates are a limit's numbers in units that a limiter takes: cost units per
// second and cost units.
type Rates struct{ Rate, Burst float64 }

// LimitRates returns the numbers in force of a limit and of its overrides by
// client name.
func LimitRates(l *quotav1.Limit) (Rates, map[string]Rates, error) {
	own, err := rates(l.GetRate(), l.GetBurst())
	if err != nil {
		return Rates{}, nil, fmt.Errorf("%s: %w", l.GetName(), err)
	}
	var overrides map[string]Rates
	for _, o := range l.GetOverrides() {
		r, err := rates(o.GetRate(), o.GetBurst())
		if err != nil {
			return Rates{}, nil, fmt.Errorf("%s: override of client %q: %w", l.GetName(), o.GetClient(), err)
		}
		if overrides == nil {
			overrides = make(map[string]Rates, len(l.GetOverrides()))
		}
		overrides[o.GetClient()] = r
	}
	return own, overrides, nil
}

func rates(rate string, burst float64) (Rates, error) {
	r, err := ParseRate(rate)
	return Rates{Rate: r, Burst: Burst(r, burst)}, err
}
