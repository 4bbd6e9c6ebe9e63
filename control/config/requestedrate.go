package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// RateIdentity is the identity that has the rate which a request states. Gateways read it as they read [PlanIdentity].
const RateIdentity = "@requested_rate"

// RateBounds bound the rate that a request may state. All are 0 if it may state none.
type RateBounds struct {
	Least float64 `json:"least"` // cost units/s, above 0, at most the limit's own rate
	Most  float64 `json:"most"`  // cost units/s, at least the limit's own rate
	Per   float64 `json:"per"`   // seconds that a number without a unit is for
}

// Bucket returns the numbers of a client's bucket: those of the limit, or of the most that a request may state. Then
// the burst is larger in proportion.
func (l *Limit) Bucket() RateBurst {
	rb := RateBurst{Rate: l.Rate, Burst: l.Burst}.WithDefaults()
	if most := l.RequestedRate.Most; most > 0 && rb.Rate > 0 {
		rb.Rate, rb.Burst = most, rb.Burst*most/rb.Rate
	}
	return rb
}

// mostRequested bounds the rate and the burst of a bucket in which costs have weights.
const mostRequested = 1e9

// validateRequestedRate refuses bounds that do not hold for the limit's own rate.
func (l *Limit) validateRequestedRate(path string) error {
	b, own := l.RequestedRate, RateBurst{Rate: l.Rate, Burst: l.Burst}.WithDefaults()
	if b == (RateBounds{}) {
		return nil
	}
	wrong := func(field string, value float64, want string) error {
		return &FieldError{join(path, "requested_rate."+field), perSecond(value), want}
	}
	switch {
	case l.Concurrency > 0 || l.Quota != nil:
		return &FieldError{join(path, "requested_rate"), perSecond(b.Most), "none beside a concurrency or a quota"}
	case !(b.Least > 0 && b.Least <= l.Rate):
		return wrong("least", b.Least, "above 0, at most the limit's own rate, "+perSecond(l.Rate))
	case !(b.Most >= l.Rate && max(b.Most, l.Bucket().Burst) <= mostRequested):
		return wrong("most", b.Most, "at least the limit's own rate, "+perSecond(l.Rate)+
			", and at most 1e9/s, as burst·most/rate")
	case own.Burst*b.Least/l.Rate < 1-1e-9:
		return wrong("least", b.Least, fmt.Sprintf("burst·least/rate at least 1, so that a request passes at the "+
			"least rate: give the limit a burst of at least %v", math.Ceil(l.Rate/b.Least-1e-9)))
	case !(b.Per > 0):
		return &FieldError{join(path, "requested_rate.per"), b.Per, "above 0"}
	}
	return nil
}

func perSecond(rate float64) string { return fmt.Sprintf("%.4g/s", rate) }

// maxStatedRate is the most bytes of a rate that a request states.
const maxStatedRate = 32

// A StatedRate is a rate that a request states.
type StatedRate struct {
	Amount float64 // ≥ 0; +Inf for what a float cannot hold
	Per    float64 // seconds; 0: no unit was stated
}

// ParseStatedRate reads a number, such as 50, perhaps with a unit as in the rate of a limit: 50/min. It reads no more
// than maxStatedRate bytes.
func ParseStatedRate(s string) (r StatedRate, ok bool) {
	if len(s) > maxStatedRate {
		return r, false
	}
	amount, window, has := strings.Cut(s, "/")
	if r.Amount, ok = ParseAmount(amount); ok && has {
		r.Per, ok = ParseWindow(window)
	}
	return r, ok
}

// ParseAmount reads the amount of a rate: digits, with a fraction and an exponent if wanted, such as 1.5e3. It returns
// +Inf for what a float cannot hold.
func ParseAmount(s string) (amount float64, ok bool) {
	_, fraction, hasPoint := strings.Cut(s, ".")
	if !startsWithDigit(s) || hasPoint && !startsWithDigit(fraction) || strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, false
	}
	amount, err := strconv.ParseFloat(s, 64)
	return amount, err == nil || errors.Is(err, strconv.ErrRange)
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// maxWindow is the longest time that a rate may be given for, in seconds: a year.
const maxWindow = 366 * 86400

// ParseWindow reads the time that a rate is given for, such as min or 10s, as seconds.
func ParseWindow(s string) (seconds float64, ok bool) {
	unit, times := strings.TrimLeft(s, "0123456789"), 1
	if count := strings.TrimSuffix(s, unit); count != "" {
		var err error
		if times, err = strconv.Atoi(count); err != nil || count[0] == '0' {
			return 0, false
		}
	}
	switch unit {
	case "s", "sec", "second":
		seconds = 1
	case "min", "minute":
		seconds = 60
	case "h", "hour":
		seconds = 3600
	case "d", "day":
		seconds = 86400
	case "w", "week":
		seconds = 7 * 86400
	}
	seconds *= float64(times)
	return seconds, seconds > 0 && seconds <= maxWindow
}

// Of returns what the bounds make of a rate that a request states, cost units/s, and whether the rate is within them.
func (b *RateBounds) Of(r StatedRate) (rate float64, within bool) {
	if r.Per == 0 {
		r.Per = b.Per
	}
	switch rate = r.Amount / r.Per; {
	case rate < b.Least:
		return b.Least, false
	case rate > b.Most:
		return b.Most, false
	}
	return rate, true
}
