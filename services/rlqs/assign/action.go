package assign

import (
	"math"
	"time"
)

// Kind is the kind of an action.
type Kind uint8

// The kinds.
const (
	Rate Kind = iota
	AllowAll
	DenyAll
	Abandon // the Envoy is to forget the bucket
)

// Action is an instruction to an Envoy about a bucket.
type Action struct {
	Kind
	Tokens  uint32 // that a Rate fills in Seconds, evenly
	Seconds int64
	Burst   uint32
	TTL     time.Duration
	bucket  *bucket
}

// Entries returns the entries of the bucket's id.
func (a Action) Entries() map[string]string { return a.bucket.Entries }

// rate is the rate of an action, requests/s.
func (a Action) rate() float64 {
	if a.Kind != Rate || a.Seconds == 0 {
		return 0
	}
	return float64(a.Tokens) / float64(a.Seconds)
}

const (
	// fine is the most by which a rate is rounded down.
	fine = 0.005
	// longestFill bounds Seconds: Envoy compares intervals by their nanoseconds alone, so these have the seconds, too.
	longestFill = 1e9 - 1
)

// fill returns whole tokens in whole seconds for a rate above 0: no more than it, and at most fine less. Envoy takes no
// other numbers.
func fill(rate float64) (tokens uint32, seconds int64) {
	rate = min(rate, math.MaxUint32)
	for s := 1.; s <= 60; s++ {
		if n := math.Floor(rate*s + 1e-9); n >= 1 && n >= (1-fine)*rate*s && n <= math.MaxUint32 {
			return uint32(n), int64(s)
		}
	}
	n := max(1, math.Ceil(rate/fine))
	return uint32(n), int64(min(longestFill, math.Ceil(n/rate)))
}
