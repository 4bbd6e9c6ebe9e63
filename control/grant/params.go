package grant

// Token is one cost unit in the fixed point of all counts here.
const Token = 1_000_000

const (
	millisecond = 1_000_000
	second      = 1000 * millisecond
	// forever bounds what a small rate takes, so that no sum of it and a time overflows.
	forever = int64(1) << 60
)

// Params of a limit and of the way between gateways and owner. Zero durations mean
// the defaults; all durations are nanoseconds.
type Params struct {
	Rate   float64 // r, cost units per second, > 0
	Burst  int64   // b, millionths; less than Token is raised to it
	Strict bool    // what is unknown counts as spent; false: as not spent

	// Hold is the longest time that a request waits for a token, default 20 ms. It
	// should be 8 times the way between two agents or more: an answer needs one
	// round trip, one with a recall two.
	Hold int64
	// Due is the longest time that an owner waits for a token instead of
	// refusing, default 5 ms. Longer means fewer refusals and longer waits.
	Due int64
	// Horizon is the time of use that a gateway asks for ahead, default 100 ms. Longer
	// means fewer messages and more tokens that have to be recalled.
	Horizon int64
	// Alone is the time without another user after which a gateway gets the bucket
	// itself, default 1 s.
	Alone int64
	// Lump is the amount of refill, as a time, that a refusing gateway waits for, default 50 ms of r,
	// divided by the gateways that wait. Longer means fewer messages in a flood.
	Lump int64
	// Listen is the time in which a new owner gathers what gateways know before it grants,
	// default 0. Give it 50 to 250 ms where there was another owner before.
	Listen int64

	without rule // for tests
}

func (p Params) withDefaults() Params {
	p.Burst = max(p.Burst, Token)
	p.Hold = or(p.Hold, 20*millisecond)
	p.Due = or(p.Due, 5*millisecond)
	p.Horizon = or(p.Horizon, 100*millisecond)
	p.Alone = or(p.Alone, second)
	p.Lump = or(p.Lump, 50*millisecond)
	return p
}

// allowsAs reports whether a bucket of these parameters is one of the others, too.
func (p Params) allowsAs(o Params) bool { return p.Rate == o.Rate && p.Burst == o.Burst }

func or(v, fallback int64) int64 {
	if v <= 0 {
		return fallback
	}
	return v
}

// cost returns what r refills in d nanoseconds.
func (p Params) cost(d int64) float64 { return p.Rate * Token / second * float64(d) }

// time returns how many nanoseconds r takes to refill c, rounded up.
func (p Params) time(c int64) int64 {
	if c <= 0 {
		return 0
	}
	if t := float64(c) / (p.Rate * Token / second); t < float64(forever) {
		return int64(t) + 1
	}
	return forever
}

// longest is the longest time for which a gateway refuses without asking.
func (p Params) longest() int64 { return max(2*p.time(Token), second/4) }
