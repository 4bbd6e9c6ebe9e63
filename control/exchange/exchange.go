package exchange

import "time"

// Shares are the leases of flows: the totals that all replicas share. A Shares
// replaces the one before as a whole.
type Shares struct {
	Epoch    int64 // of the leader that granted them; older ones are refused
	Revision int64 // of the configuration they were computed for
	Stale    bool  // past their soft expiry: frozen, see OnLoss
	Flows    []Share
	Pools    []PoolShare
}

// Share is the total of one flow, v_max, in cost units/s.
type Share struct {
	Tenant, Pool string
	Share        float64
}

// PoolShare is what holds for a pool as a whole.
type PoolShare struct {
	Pool      string
	Price     float64 // 0 while the pool is slack
	IdleShare float64 // v_max of a flow that has no share of its own, cost units/s
}

// Isolation tells that this replica no longer hears a majority of the weights.
type Isolation uint8

// The states of isolation.
const (
	Connected Isolation = iota // normal operation
	Frozen                     // cut off for less than T1: rates stay at what the others surely heard
	Split                      // longer: never above the static part w/W either
	Alone                      // longer than T2: the others now leave the whole static part to this replica
)

var isolationNames = [...]string{"connected", "frozen", "split", "alone"}

// String is the state's lower-case name.
func (i Isolation) String() string {
	if int(i) < len(isolationNames) {
		return isolationNames[i]
	}
	return "unknown"
}

// Sums is what the other live replicas claim. A Sums replaces the one before: a
// key that it leaves out is claimed by nobody else.
type Sums struct {
	Replicas    int           // N, live replicas with this one; below 1 is 1
	TotalWeight float64       // W, with this one
	Weight      float64       // w of this one; not positive: 1
	Lag         time.Duration // δ: after it every replica has heard a published claim
	Absent      float64       // weights of members cut off for longer than T2
	Isolation   Isolation
	Flows       []FlowSum
	Keys        []KeySum
}

// FlowSum sums the claims for one flow over the others, cost units/s.
type FlowSum struct {
	Key                         uint64 // of a flow
	Claims, Active, Unsaturated float64
}

// KeySum sums what the others do with one key of a limit.
type KeySum struct {
	Key         uint64  // of a limit's key
	Admitted    float64 // cumulative over the others; signed steps
	Claims      float64 // cost units/s
	Active      float64
	Unsaturated float64
	Spent       float64 // the largest, cost units
	Epoch       uint32  // changes when Admitted starts a new count
}

// Claims is what this replica announces, contended keys only.
type Claims struct {
	Flows     []FlowClaim
	Keys      []KeyClaim
	Withdrawn []uint64 // keys announced before and no longer
}

// FlowClaim is the claim for one flow, cost units/s.
type FlowClaim struct {
	Key                        uint64
	Claim, Active, Unsaturated float64
}

// KeyClaim is the claim for one key of a limit.
type KeyClaim struct {
	Key                        uint64
	Claim, Active, Unsaturated float64
	Admitted                   float64 // cumulative in this process's life, cost units
	Spent                      float64 // cost units
}

// Reset empties c and keeps its memory.
func (c *Claims) Reset() {
	c.Flows, c.Keys, c.Withdrawn = c.Flows[:0], c.Keys[:0], c.Withdrawn[:0]
}

// Report is what flows did since the last one: input of the coordinator.
type Report struct {
	Interval time.Duration // since the last report; 0 in the first
	Flows    []FlowReport  // those with anything to tell
}

// FlowReport is one flow's part of a Report, in cost units.
type FlowReport struct {
	Tenant, Pool   string
	Demand         float64 // passed the client stage, admitted or not
	Served         float64 // admitted
	Waiting        float64 // waits at the tenant stage now
	Marked         float64
	Rejected       float64 // by the tenant stage
	ClientRejected float64 // by the client stage
	Shadowed       float64 // let pass by SHADOW
	// Limited: the tenant stage queued beyond the delay target, marked or
	// rejected. A short pacing wait does not count.
	Limited bool
	// Of an adaptive pool, see Flight: what the upstream has finished, the
	// cost·seconds that this took, what it turned away, and what it has now.
	Completed, Residence, Shed, InFlight float64
}

// Names are the identities and classes that a filter's settings name, for the limits
// that ask for one which no gateway knows.
type Names struct{ Identities, Classes []string }

// Spent is what keys of limits have yet to win back: what a filter leaves to the process
// that takes its place, so that nobody's burst is there twice. What comes later of a key
// replaces what came before.
type Spent struct{ Keys []KeySpent }

// KeySpent is what one key of one limit has yet to win back.
type KeySpent struct {
	Key   uint64        // of a limit's key; depends on the configuration's seed and the names alone
	Ahead time.Duration // the time that the key takes to win its burst back; ≤ 0: none
	Named bool          // the configuration names the client: it has a slot of its own
}
