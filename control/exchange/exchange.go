package exchange

import "time"

// Shares are the leases that the coordinator grants to flows: totals, which all replicas
// divide among themselves. A Shares replaces the one before as a whole.
type Shares struct {
	Epoch    int64 // of the leader that granted them; a lower one than before is refused
	Revision int64 // of the configuration that they were computed from
	Stale    bool  // past their soft expiry: they stay in force, see config.OnLoss
	Flows    []Share
	Pools    []PoolShare
}

// Share is the total of one flow, v_max, in cost units/s; +Inf: unbounded.
type Share struct {
	Tenant, Pool string
	Share        float64
	Demand       float64 // that was measured: what it uses beyond is taken of PoolShare.Unused, cost units/s
}

// PoolShare holds the numbers of a pool as a whole.
type PoolShare struct {
	Pool      string
	Price     float64 // of one cost unit; 0 while the pool is slack
	IdleShare float64 // v_max of a flow without a share, cost units/s
	// GuaranteeScale is the part of each guarantee that fits the pool: a flow without a share
	// has at least so much of its guarantee. 0: each guarantee has a share.
	GuaranteeScale float64
	// Unused is capacity that nobody asks for: all flows together may use as much beyond their
	// shares, cost units/s.
	Unused float64
}

// Isolation is the degree to which a replica is cut off: it receives nothing from a
// majority of the weights.
type Isolation uint8

// The states of isolation, in the order in which a replica goes through them.
const (
	Connected Isolation = iota // normal operation
	Frozen                     // cut off for less than T1: rates stay at the claims that the others surely received
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

// MaxWeight is the largest weight of a replica. Agents take a larger one of another agent
// for 1, so a replica that had one would count for more here than there.
const MaxWeight = 1e6

// Sums are the claims of the other live replicas. A Full one replaces all sums before: no other
// replica claims anything of a flow or a key that is not in it. Any other Sums is a
// change: the flows and keys that it does not name keep their sums.
//
// An agent sends a Full one when a gateway connects, whenever the Sums before had Replicas
// of 1 or less, and always to a gateway that does not know changes. While others claim
// anything it sends a Sums each period, without flows and keys if nothing has changed: the
// gateway sees by it that the agent lives (see [Estimator]).
type Sums struct {
	Full bool
	// More says that the rest of a Full state follows, in the next Sums. What these do not
	// name goes when the last of them has come.
	More        bool
	Replicas    int           // N, live replicas with this one; below 1 is 1
	TotalWeight float64       // W, with this one
	Weight      float64       // w of this one; not positive: 1
	Lag         time.Duration // δ: after it every replica has received a published claim
	Absent      float64       // weights of members cut off for longer than T2
	Isolation   Isolation
	Exact       bool // limits that state no precision are EXACT: the agents are near enough
	Flows       []FlowSum
	Keys        []KeySum
	Gone        []uint64 // flows and keys of which no other replica claims or has spent anything any more
}

// FlowSum sums the claims of the others for one flow.
type FlowSum struct {
	Key         uint64  // of a flow
	Claims      float64 // cost units/s
	Active      float64 // weight of the replicas that want more than they have
	Unsaturated float64 // claims of the other ones, cost units/s
}

// Late is the time for which sums have a Gap above 0 after a peer was unreachable, in seconds: meanwhile all who get
// the sums learn of the gap.
const Late = .2

// KeySum sums what the others do with one key of a limit.
type KeySum struct {
	Key         uint64  // of a limit's key
	Admitted    float64 // cumulative over the others, cost units; a step may be negative
	Claims      float64 // as in FlowSum, and so the next two
	Active      float64
	Unsaturated float64
	Spent       float64 // the largest spent part of the bucket that one of them knows, cost units
	Own         float64 // sum of the parts of it that each of them has admitted itself, cost units
	// Gap is the time, in seconds, for which a replica that now announces its admissions was unreachable.
	// It is negative for a replica that is unreachable, or has not announced them since. It is 0 in
	// neither case.
	Gap     float64
	Assumed float64 // part of Admitted that is estimated for unreachable replicas, cost units
	Epoch   uint32  // changes when Admitted starts a new count
	// Abroad says that gateways of other sites use the key: their owners learn of the claims here.
	Abroad bool
}

// Claims are the claims of a replica on contended flows and keys, as a change: a claim that
// is not mentioned holds until it is withdrawn. On a new connection every claim that holds is
// announced again, within 64 periods: all others were withdrawn meanwhile.
type Claims struct {
	Flows     []FlowClaim
	Keys      []KeyClaim
	Withdrawn []uint64 // keys that are contended no longer
}

// FlowClaim is the claim of a replica on one flow.
type FlowClaim struct {
	Key         uint64  // of a flow
	Claim       float64 // cost units/s
	Active      float64 // the replica's weight while it wants more than it has, else 0
	Unsaturated float64 // the claim while it does not, else 0
}

// KeyClaim is the claim of a replica on one key of a limit.
type KeyClaim struct {
	Key         uint64  // of a limit's key
	Claim       float64 // as in FlowClaim, and so the next two
	Active      float64
	Unsaturated float64
	Admitted    float64 // cumulative since the process began, cost units
	Spent       float64 // spent part of the bucket, cost units
	Own         float64 // the part of Spent that this replica has admitted itself, cost units
	Owned       bool    // the key's owner decides: what others are sent of the claim is of no use to them yet
	Exact       bool    // owners grant the key's tokens, but while they don't answer
}

// Reset empties c and keeps its memory.
func (c *Claims) Reset() {
	c.Flows, c.Keys, c.Withdrawn = c.Flows[:0], c.Keys[:0], c.Withdrawn[:0]
}

// Report sums up flows since the report before: input of the coordinator.
type Report struct {
	Interval time.Duration // since the report before; 0 in the first
	Flows    []FlowReport  // flows that did or hold anything
	Limits   []LimitCounts // limits that refused, held or shadowed anything; the rest in later reports
	// Clients replaces what an earlier report had as the same Part, of Parts in all; 0 Parts:
	// nothing is said of clients.
	Part, Parts uint8
	Clients     []ClientCount
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
	// Of an adaptive pool: what the upstream has finished, the cost·seconds that this
	// took, what it has turned away, and what is there now (no delta, like Waiting).
	Completed, Residence, Shed, InFlight float64
	Counts                               Counts
}

// Names are the identities, classes and costs that a filter's settings name. A limit or a pool may ask
// for a name that no gateway knows; the coordinator then warns.
type Names struct{ Identities, Classes, Costs []string }

// Spent are the keys of limits whose bursts are not whole. The agent keeps them for the
// process that takes a filter's place, so that no client gets its burst twice. A later
// Spent replaces what an earlier one has of the same key.
type Spent struct{ Keys []KeySpent }

// KeySpent is a key of a limit whose burst is not whole.
type KeySpent struct {
	Key   uint64        // of a limit's key
	Ahead time.Duration // the time until the burst is whole again; ≤ 0: it is
	Named bool          // the configuration names the client: it has its own slot
}
