package compile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// secondsPer holds the units of a rate string.
var secondsPer = map[string]float64{
	"s": 1, "sec": 1, "second": 1,
	"min": 60, "minute": 60,
	"h": 3600, "hour": 3600,
	"d": 86400, "day": 86400,
}

// Rate parses "100/s", "10/min", "1000/h" or "5000/d" into cost units per
// second. The number is a plain decimal, finite and not negative; 0 admits
// nothing.
func Rate(s string) (float64, error) {
	number, unit, ok := strings.Cut(s, "/")
	if !ok {
		return 0, fmt.Errorf("rate %q has no unit: want NUMBER/UNIT, such as 100/s, 10/min, 1000/h or 5000/d", s)
	}
	seconds, ok := secondsPer[unit]
	if !ok {
		return 0, fmt.Errorf("rate %q: unit %q is unknown: want s, min, h or d", s, unit)
	}
	if strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("rate %q: %q is not a plain decimal number", s, number)
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsInf(n, 0) {
		return 0, fmt.Errorf("rate %q: %q is not a finite decimal number", s, number)
	}
	return n / seconds, nil
}

// burst fills in the default: one second's worth, at least 1.
func burst(given, rate float64) float64 {
	if given == 0 {
		return max(1, rate)
	}
	return given
}
