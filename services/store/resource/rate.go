package resource

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/titrate/titrate/control/config"
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
// 5000/d, as cost units per second in [0, MaxRate]. A rate of 0, which needs no
// unit, blocks.
func ParseRate(s string) (float64, error) {
	if s == "0" {
		return 0, nil
	}
	n, per, err := parseRate(s)
	if err != nil {
		return 0, err
	}
	if r := n / per; r <= MaxRate {
		return r, nil
	}
	return 0, fmt.Errorf("rate %q must be at most %g/s", s, MaxRate)
}

// parseRate takes a rate apart: the amount, and the seconds of its window.
func parseRate(s string) (amount, seconds float64, err error) {
	number, unit, ok := strings.Cut(s, "/")
	if !ok {
		return 0, 0, fmt.Errorf("rate %q has no unit: want such as 100/s, 10/min, 1000/h, 5000/d", s)
	}
	seconds, ok = secondsPer[unit]
	if !ok {
		return 0, 0, fmt.Errorf("rate %q: unknown unit %q: want s, min, h or d", s, unit)
	}
	amount, err = strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(amount) || strings.ContainsAny(number, "xXpP_") {
		return 0, 0, fmt.Errorf("rate %q: %q is not a number", s, number)
	}
	if amount < 0 {
		return 0, 0, fmt.Errorf("rate %q must not be negative", s)
	}
	return amount, seconds, nil
}

// DefaultBurst returns the burst, in cost units, that a limit gets when it is
// written without one: the amount of its window, so that 100/min admits 100 at
// once and 10/s admits 10; at least 1, at most MaxRate. [FillDefaults] writes it
// into the limit, so that what is stored says what is in force. It is 1 for a
// rate that cannot be read.
func DefaultBurst(rate string) float64 {
	amount, _, err := parseRate(rate)
	if err != nil {
		return 1
	}
	return min(max(1, amount), MaxRate)
}

// Burst returns the burst in force for a stored limit: the one that is set. A
// limit without one was stored by a version that did not write the default, and
// keeps what it had there: one second's worth of its rate, at least 1.
func Burst(rate, set float64) float64 {
	return config.RateBurst{Rate: rate, Burst: set}.WithDefaults().Burst
}

// BurstUnset reports whether a stored limit or one of its overrides has no burst,
// so that [Burst] gives it one second's worth.
func BurstUnset(l *quotav1.Limit) bool {
	unset := func(o *quotav1.Override) bool { return o.GetBurst() == 0 }
	return l.GetBurst() == 0 || slices.ContainsFunc(l.GetOverrides(), unset)
}

// KeepBursts writes the bursts in force into a stored limit that has none, so
// that a change of its other fields does not change them.
func KeepBursts(l *quotav1.Limit) {
	keep := func(rate string, burst *float64) {
		if r, err := ParseRate(rate); err == nil {
			*burst = Burst(r, *burst)
		}
	}
	keep(l.GetRate(), &l.Burst)
	for _, o := range l.GetOverrides() {
		keep(o.GetRate(), &o.Burst)
	}
}
