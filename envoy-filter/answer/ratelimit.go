package answer

import (
	"math"
	"strconv"
	"time"

	"github.com/titrate/titrate/control/limiter"
)

// The RateLimit fields follow draft-ietf-httpapi-ratelimit-headers-10:
//
//	RateLimit-Policy: "per-client";q=600;w=60
//	RateLimit: "per-client";r=42;t=1
//
// A limit is a token bucket; the draft's policy is a quota q per window w, whole
// numbers. The window is the time in which an empty bucket refills, rounded up to
// seconds. The quota is what the rate grants in a window, rounded down. So q/w is at
// most the rate. r is the cost that may pass at once, rounded down. t is the number of
// seconds until r has grown by one, or to the whole burst if less than one is missing.
// There is no t when nothing is missing or nothing will come. So
//
//	r ≤ q;   t ≤ w, unless the bucket is in debt
//	of a refusal: r < the request's cost;   t ≤ Retry-After
//
// A limit on requests in flight has a quota without a window, in the draft's unit for that:
//
//	RateLimit-Policy: "in-flight";q=20;qu="concurrent-requests"
//	RateLimit: "in-flight";r=0;t=1
//
// A limit with a quota of a calendar's period has no window either, since periods differ in length. t is the time until
// the next one:
//
//	RateLimit-Policy: "monthly";q=1000000
//	RateLimit: "monthly";r=1234;t=86400

// rounding is the relative error of a burst or rate that was written as a quotient.
const rounding = 1e-9

// largest is the largest integer of a structured field (RFC 9651 §3.3.1).
const largest = 999_999_999_999_999

// AppendPolicy appends the value of RateLimit-Policy: one policy. A limit that
// grants nothing has q=0 and no window.
func AppendPolicy(b []byte, a limiter.Allowance) []byte {
	b = appendString(b, a.Limit)
	if a.Concurrency > 0 {
		b = append(b, ";q="...)
		b = appendWhole(b, float64(a.Concurrency))
		return append(b, `;qu="concurrent-requests"`...)
	}
	if a.Amount > 0 {
		b = append(b, ";q="...)
		return appendWhole(b, floor(a.Amount))
	}
	window := 1.0
	if a.Rate > 0 {
		window = max(1, math.Ceil(a.Burst/a.Rate*(1-rounding)))
	}
	b = append(b, ";q="...)
	b = appendWhole(b, floor(a.Rate*window))
	if !(a.Rate > 0) {
		return b
	}
	b = append(b, ";w="...)
	return appendWhole(b, window)
}

// floor rounds down, except that a quotient within its rounding error of a whole number becomes this number.
// For large numbers the error is at most 1e-3.
func floor(v float64) float64 {
	if whole := math.Round(v); math.Abs(whole-v) <= min(v*rounding, 1e-3) {
		return whole
	}
	return math.Floor(v)
}

// AppendRateLimit appends the value of RateLimit: the rest of one policy.
func AppendRateLimit(b []byte, a limiter.Allowance) []byte {
	b = appendString(b, a.Limit)
	b = append(b, ";r="...)
	b = appendWhole(b, math.Floor(a.Remaining+1e-6))
	if a.Next <= 0 {
		return b
	}
	b = append(b, ";t="...)
	return appendWhole(b, math.Ceil(a.Next.Seconds()))
}

// RefusalAllowance returns the allowance of a refusal's answer. It keeps the answer consistent. The rest is
// less than the refused cost, even if another gateway has returned tokens since the decision, and more tokens
// come no later than Retry-After.
func RefusalAllowance(a limiter.Allowance, out limiter.Outcome) limiter.Allowance {
	if a.Remaining+1e-6 >= a.Cost {
		a.Remaining, a.Next = max(0, math.Ceil(a.Cost-1e-6)-1), out.RetryAfter
	}
	if out.RetryAfter > 0 && (a.Next <= 0 || a.Next > out.RetryAfter) {
		a.Next = out.RetryAfter
	}
	return a
}

// Pushback is the value of grpc-retry-pushback-ms (gRFC A6). It is the time to come back, in
// milliseconds rounded up. It is -1 (do not retry) where waiting does not help, and 0, for
// no value, where the time is not known, as before the first configuration.
func Pushback(out limiter.Outcome) int64 {
	switch {
	case out.RetryAfter > 0:
		return min(int64((out.RetryAfter+time.Millisecond-1)/time.Millisecond), math.MaxInt32)
	case out.Reason == limiter.ClientLimit, out.Reason == limiter.TenantShare, out.Reason == limiter.UnknownTenant:
		return -1
	}
	return 0
}

// AppendPeek appends the JSON body of a peek: the verdict and the rest, in cost units and seconds, at most
// largest each. It has less than 1024 bytes.
func AppendPeek(b []byte, out limiter.Outcome, a limiter.Allowance) []byte {
	b = append(b, `{"verdict":"`...)
	b = append(b, out.Verdict.String()...)
	b = append(b, '"')
	if a.Limit != "" {
		b = append(b, `,"limit":`...)
		b = appendQuoted(b, a.Limit)
		if a.Amount > 0 {
			b = append(b, `,"period":"`...)
			b = append(b, a.Per.String()...)
			b = append(b, '"')
		}
		for _, n := range numbersOf(a) {
			b = append(b, `,"`...)
			b = append(b, n.key...)
			b = append(b, `":`...)
			b = strconv.AppendFloat(b, math.Round(min(n.value, largest)*1000)/1000, 'f', -1, 64)
		}
	}
	return append(b, '}', '\n')
}

// number is a field of a peek.
type number struct {
	key   string
	value float64
}

// numbersOf returns the fields of a peek for the kind of a limit.
func numbersOf(a limiter.Allowance) []number {
	if a.Concurrency > 0 {
		return []number{{"concurrency", float64(a.Concurrency)}, {"remaining", a.Remaining}, {"wait", a.Wait.Seconds()}}
	}
	if a.Amount > 0 {
		return []number{{"amount", a.Amount}, {"used", max(0, a.Amount-a.Remaining)}, {"remaining", a.Remaining},
			{"reset", a.Reset.Seconds()}, {"wait", a.Wait.Seconds()}}
	}
	return []number{{"rate", a.Rate}, {"burst", a.Burst}, {"remaining", a.Remaining}, {"reset", a.Reset.Seconds()},
		{"wait", a.Wait.Seconds()}}
}

// appendString appends s as a string of a structured field, at most 60 bytes; bytes
// that such a string cannot have become "_".
func appendString(b []byte, s string) []byte {
	const longest = 60
	b = append(b, '"')
	i := plain(s, longest)
	b = append(b, s[:i]...)
	for ; i < len(s) && i < longest; i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c > 0x7e:
			b = append(b, '_')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func appendWhole(b []byte, v float64) []byte {
	if !(v > 0) {
		return append(b, '0')
	}
	return strconv.AppendInt(b, int64(min(v, largest)), 10)
}
