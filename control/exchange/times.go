package exchange

import "time"

// Times of the exchange. Agents and coordinator have options for the times that are called
// defaults; the filter, which has none, keeps to them when it receives nothing of an agent.
const (
	// DefaultPeriod is P, the time between two claims of a gateway, and between two
	// announcements of an agent. Shorter settles sooner, at more messages.
	DefaultPeriod = 50 * time.Millisecond
	// ReportEvery is the time between two reports, of a gateway and of an agent.
	ReportEvery = 250 * time.Millisecond
	// DefaultSplitAfter is T1: a replica that is cut off for longer keeps to its part of
	// each share by weight, see Split. Until then the others' last claims hold, see Frozen.
	// It is a little less than T2, until which the others count what the replica claimed last:
	// by the time that they may notice the silence earlier.
	DefaultSplitAfter = 14 * time.Second
	// DefaultForgetAfter is T2, > T1: the claims of an unreachable replica count for so long.
	// Then the others leave it its part by weight, see Alone.
	DefaultForgetAfter = 15 * time.Second
	// DefaultExactWithin is the longest one-way time between two agents at which limits that
	// state no precision are EXACT: requests wait for two ways, or four.
	DefaultExactWithin = 2 * time.Millisecond
	// MaxExactWithin bounds it: beyond, requests wait in vain too often.
	MaxExactWithin = 10 * time.Millisecond
)

// DefaultEverybody is the number of agents up to which each sends its claims to all others.
// With more, a claim takes two hops: to the agent that owns the key, and from there. So it does for keys whose owners
// grant tokens, but the first DefaultShared of an agent.
const (
	DefaultEverybody = 16
	DefaultShared    = 512
)
