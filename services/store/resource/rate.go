package resource

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/wording"
)

// MaxRate is the highest rate that a limit may have, cost units per second.
const MaxRate = 1e9

// maxWindow is the longest time that a rate may be given for, in seconds: a year.
const maxWindow = 366 * 86400

var secondsPer = map[string]float64{
	"s": 1, "sec": 1, "second": 1,
	"min": 60, "minute": 60,
	"h": 3600, "hour": 3600,
	"d": 86400, "day": 86400,
	"w": 7 * 86400, "week": 7 * 86400,
}

// ParseRate reads a rate with its unit, such as 100/s, 10/min, 1000/h, 5000/d, 20000/w or 100/10s, as cost units per
// second in [0, MaxRate]. A rate of 0, which needs no unit, blocks.
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
	return 0, fmt.Errorf("rate %s must be at most %s/s", wording.Quote(s), wording.Number(MaxRate))
}

// BlockedLimit is the limit of a tenant or plan for blocks that name no other limit. HighestRate is its rate for
// clients that are not blocked.
const BlockedLimit, HighestRate = "/limits/blocked", "1000000000/s"

// IsOfBlocks reports whether a limit is there for blocks alone, so that it may go with the last one.
func IsOfBlocks(l *quotav1.Limit) bool {
	return strings.HasSuffix(l.GetName(), BlockedLimit) && l.GetRate() == HighestRate
}

// Blocks reports whether a rate, as written, is 0: it refuses everything.
func Blocks(rate string) bool {
	r, err := ParseRate(rate)
	return err == nil && r == 0
}

// isNumber reports whether a text that strconv reads is digits, with a fraction and an exponent if wanted: 1.5e3.
func isNumber(s string) bool {
	_, after, hasPoint := strings.Cut(s, ".")
	return startsWithDigit(s) && (!hasPoint || startsWithDigit(after)) && strings.Trim(s, "0123456789.eE+-") == ""
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// parseRate takes a rate apart: the amount, and the seconds of its window.
func parseRate(s string) (amount, seconds float64, err error) {
	given, window, ok := strings.Cut(s, "/")
	if !ok {
		return 0, 0, fmt.Errorf("rate %s has no unit: want such as 100/s, 10/min, 1000/h, 5000/d", wording.Quote(s))
	}
	if seconds, err = parseWindow(s, window); err != nil {
		return 0, 0, err
	}
	if strings.HasPrefix(given, "-") {
		return 0, 0, fmt.Errorf("rate %s must not be negative", wording.Quote(s))
	}
	amount, err = strconv.ParseFloat(given, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !isNumber(given) {
		return 0, 0, fmt.Errorf("rate %s: %s is not a number", wording.Quote(s), wording.Quote(given))
	}
	return amount, seconds, nil
}

// parseWindow returns the seconds of a window, such as min or 10s.
func parseWindow(rate, window string) (float64, error) {
	unit := strings.TrimLeft(window, "0123456789")
	count, times := strings.TrimSuffix(window, unit), 1.0
	switch unit {
	case "mo", "month", "months", "y", "year", "years":
		return 0, fmt.Errorf("rate %s: a month or a year is not always of one length: give days, such as 100/30d, or "+
			"a quota per MONTH or YEAR of the calendar instead of a rate", wording.Quote(rate))
	}
	if strings.HasPrefix(unit, ".") || strings.HasPrefix(unit, "-") {
		return 0, fmt.Errorf("rate %s: the number before a unit must be a whole number, such as 10s, found %s",
			wording.Quote(rate), wording.Cut(window))
	}
	seconds, ok := secondsPer[unit]
	if !ok {
		return 0, fmt.Errorf("rate %s: unknown unit %s: want s, min, h, d or w, also with a number, such as 10s",
			wording.Quote(rate), wording.Quote(unit))
	}
	if count != "" {
		times, _ = strconv.ParseFloat(count, 64)
	}
	if count != strings.TrimLeft(count, "0") || seconds*times > maxWindow {
		return 0, fmt.Errorf("rate %s: want a window of 1s to 366d, found %s", wording.Quote(rate), wording.Cut(window))
	}
	return seconds * times, nil
}

// DefaultBurst returns the burst, in cost units, that a limit gets when it is written without one. It is the amount of
// its window, so that 100/min admits 100 at once and 10/s admits 10; at least 1, at most MaxRate. [FillDefaults] writes
// it into the limit, so that what is stored says what is in force. It is 1 for a rate that cannot be read.
func DefaultBurst(rate string) float64 {
	amount, _, err := parseRate(rate)
	if err != nil {
		return 1
	}
	return min(max(1, amount), MaxRate)
}
