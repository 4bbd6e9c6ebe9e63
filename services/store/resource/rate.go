package resource

import (
	"fmt"
	"slices"
	"strings"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/wording"
)

// MaxRate is the highest rate that a limit may have, cost units per second.
const MaxRate = 1e9

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

// parseRate takes a rate apart: the amount, and the seconds of its window.
func parseRate(s string) (amount, seconds float64, err error) {
	given, window, ok := strings.Cut(s, "/")
	if !ok {
		return 0, 0, fmt.Errorf("rate %s has no unit: want such as 100/s, 10/min, 1000/h, 5000/d", wording.Quote(s))
	}
	if seconds, ok = config.ParseWindow(window); !ok {
		return 0, 0, wrongWindow(s, window)
	}
	if strings.HasPrefix(given, "-") {
		return 0, 0, fmt.Errorf("rate %s must not be negative", wording.Quote(s))
	}
	if amount, ok = config.ParseAmount(given); !ok {
		return 0, 0, fmt.Errorf("rate %s: %s is not a number", wording.Quote(s), wording.Quote(given))
	}
	return amount, seconds, nil
}

// wrongWindow says what is wrong with the window of a rate.
func wrongWindow(rate, window string) error {
	rate = wording.Quote(rate)
	unit := strings.TrimLeft(window, "0123456789")
	_, known := config.ParseWindow(unit)
	switch {
	case slices.Contains([]string{"mo", "month", "months", "y", "year", "years"}, unit):
		return fmt.Errorf("rate %s: a month or a year is not always of one length: give days, such as 100/30d, or "+
			"a quota per MONTH or YEAR of the calendar instead of a rate", rate)
	case strings.HasPrefix(unit, "."), strings.HasPrefix(unit, "-"):
		return fmt.Errorf("rate %s: the number before a unit must be a whole number, such as 10s, found %s", rate,
			wording.Cut(window))
	case !known:
		return fmt.Errorf("rate %s: unknown unit %s: want s, min, h, d or w, also with a number, such as 10s", rate,
			wording.Quote(unit))
	}
	return fmt.Errorf("rate %s: want a window of 1s to 366d, found %s", rate, wording.Cut(window))
}

// DefaultBurst returns the burst, in cost units, that a limit gets when it is written without one. It is the amount of
// its window, so that 100/min admits 100 at once and 10/s admits 10; at least 1, at most MaxRate. [FillDefaults] writes
// it into the limit, so that what is stored says what is in force. It is 1 for a rate that cannot be read.
func DefaultBurst(rate string) float64 {
	amount, _, _ := parseRate(rate)
	return min(max(1, amount), MaxRate)
}
