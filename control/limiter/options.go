package limiter

import "github.com/titrate/titrate/control/limiter/internal/keys"

// UnknownPolicy decides requests of an unknown tenant.
type UnknownPolicy uint8

// The policies for unknown tenants.
const (
	UnknownDefault UnknownPolicy = iota // it belongs to DefaultTenant; rejected if there is none
	UnknownReject
	UnknownBypass // admitted and counted
)

// BootPolicy decides requests before the first configuration.
type BootPolicy uint8

// The boot policies.
const (
	BootOpen   BootPolicy = iota // admitted
	BootClosed                   // rejected as not_configured
)

// Options are fixed for an engine's life. The zero value works.
type Options struct {
	// Keys is the budget of client keys, default 1,000,000, range 1,024 to
	// 100,000,000; 40 B each. More keys than that share one key per limit.
	Keys int
	// Contended is the budget of contended keys, default 1,048,576, at most 16,777,216;
	// about 650 B each while they are contended, else nothing. Once three quarters of that
	// are in use, each of N replicas uses 1/N of it for the keys that it uses itself; the
	// rest is for keys of others. Keys beyond it are held to rate/N and burst/N, see
	// internal/keys/budget.go.
	Contended int
	Unknown   UnknownPolicy
	Boot      BootPolicy
	// Rand is a source of uniform numbers in [0,1), safe for concurrent use
	// (math/rand/v2.Float64 is). Default: a generator per flow and key seeded
	// from its hash and Replica.
	Rand func() float64
	// Flight makes the counters of a flow of an adaptive pool, zero, for the
	// engine's life; default new(Flight). A proxy that counts in another language
	// gives that language's memory.
	Flight func() *Flight
	// Replica is this replica's name: part of the default random seeds, so that
	// replicas do not act in step.
	Replica string
	// Wants is called with what the limits in force ask of requests, on each change:
	// the maker of requests need not find out more than that. It is called while
	// Apply or Name runs, and must call neither. Default: nobody asks.
	Wants func(Wanted)
	// Ask is called when there are messages for the owners of EXACT limits' keys, from
	// any thread: have a thread call PollTokens soon. It must not wait, nor call the engine.
	// Nil: nobody does, and EXACT limits are held as LOCAL ones.
	Ask func()
	// Start is a time not after the first one given to the engine, in its
	// nanoseconds. Within 30 years of it the arithmetic is exact to a microsecond.
	Start int64
}

// Bounds of Options.
const (
	DefaultKeys      = 1_000_000
	exactKeys        = 1 << 18 // keys of EXACT limits; about 1 KiB each
	DefaultContended = 1 << 20
	MaxContended     = keys.MaxContended
	minKeys          = 1 << 10
	maxKeys          = 100_000_000
)

func (o Options) withDefaults() Options {
	if o.Keys <= 0 {
		o.Keys = DefaultKeys
	}
	o.Keys = min(max(o.Keys, minKeys), maxKeys)
	if o.Flight == nil {
		o.Flight = func() *Flight { return new(Flight) }
	}
	if o.Contended <= 0 {
		o.Contended = DefaultContended
	}
	return o
}
