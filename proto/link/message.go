package link

import "time"

const (
	// HelloTimeout bounds the time from accepting a connection to its Hello.
	HelloTimeout = 2 * time.Second
	// HeartbeatEvery is how often each side says something at least.
	HeartbeatEvery = time.Second
	// DeadAfter is the silence after which the other side counts as dead.
	DeadAfter = 3 * time.Second
)

// Message is one of *Hello, *Config, *Shares, *Sums, *Claims, *Report, *Refused,
// *Names, *Spent and *Heartbeat.
type Message interface{ kind() kind }

// Hello opens the link in both directions.
type Hello struct {
	// Version is the newest version that the sender speaks.
	Version uint8 `json:"version"`
	// Replica names the filter process, or the agent in the agent's Hello.
	// A parent and a child of a hot restart share one name.
	Replica string `json:"replica"`
	// Generation tells one life of a replica from the next: cumulative counts
	// start over with it. Nanoseconds since 1970 at the process's start do.
	Generation uint64 `json:"generation"`
	// PID is the sender's process, to be compared with the socket's peer
	// credentials by who wants to.
	PID int `json:"pid"`
	// Envoy is Envoy's version where it is known, for people.
	Envoy string `json:"envoy,omitempty"`
	// Restart is 1 + the number of hot restarts before this process (Envoy's
	// --restart-epoch); 0: not known. It tells the child in a hot restart from
	// another Envoy that was given the same name.
	Restart int `json:"restart,omitempty"`
	// Weight of this replica in the split of a share, > 0; 1 if absent.
	Weight float64 `json:"weight,omitempty"`
}

// Heartbeat says that its sender lives, and what it has in force.
type Heartbeat struct {
	// Sequence counts the sender's heartbeats on this connection.
	Sequence uint64
	// Revision is the configuration in force at the sender; 0 = none yet.
	Revision int64
	// Refused is the revision that the sender last refused, with Reason; the
	// older one stays in force. 0 = none.
	Refused int64
	// Reason says why Refused was refused, at most 1 KiB.
	Reason string
	// Parted counts what came for keys beyond the filter's budget of full state, which
	// are held to their part of the limit, since the filter's start. 0 of an agent, and
	// of a filter that does not tell.
	Parted uint64
}

// Shares is what the coordinator leases to the flows, in total over all
// replicas.
type Shares struct {
	// Epoch of the coordinator that gave them; a lower one than before is
	// stale and must not be applied.
	Epoch int64
	// Revision of the configuration that they were computed from.
	Revision int64
	// Stale tells that the coordinator has not been heard for the soft expiry.
	Stale bool
	Flows []Share
	Pools []PoolShare
}

// Share is a flow's total, in cost units per second; +Inf means unbounded.
type Share struct {
	Tenant, Pool string
	Share        float64
}

// PoolShare is what a pool says to flows that have no share of their own.
type PoolShare struct {
	Pool string
	// Price of one cost unit; 0 while the pool is slack.
	Price float64
	// IdleShare is what a flow without a share may start with, units/s.
	IdleShare float64
}

// Isolation tells what the agent knows of its own reach.
type Isolation uint8

// The states of isolation, in the order in which an agent that is cut off goes through them.
const (
	// Connected: the agent hears a majority of the weights.
	Connected Isolation = iota
	// Frozen: cut off for less than T1; the last claims of the others count.
	Frozen
	// Split: cut off for longer; this replica falls to its part by weight,
	// v_max·w/W.
	Split
)

// Sums is what the other live replicas claim, this one subtracted.
type Sums struct {
	// Replicas is the number of live replicas, this one included.
	Replicas int
	// TotalWeight of the live replicas, and Weight of this one in it.
	TotalWeight, Weight float64
	// Lag is how long a published claim takes to be known by all, at most.
	Lag time.Duration
	// Absent is the weight of members that were cut off for longer than T2.
	Absent    float64
	Isolation Isolation
	Flows     []FlowSum
	Keys      []KeySum
}

// FlowSum is the sum over the others for one flow.
type FlowSum struct {
	// Key is limiter.FlowKey.
	Key uint64
	// Claims, in units/s; Active weight of the saturated ones; Unsaturated
	// claims of those that need less than their fair part.
	Claims, Active, Unsaturated float64
}

// KeySum is the sum over the others for one key of one limit.
type KeySum struct {
	// Key is limiter.LimitKey.
	Key uint64
	// Admitted by the others, cumulative within Epoch, in signed steps.
	Admitted                    float64
	Claims, Active, Unsaturated float64
	// Spent is the largest spent pool D that another replica knows of.
	Spent float64
	// Epoch changes when Admitted starts a new count.
	Epoch uint32
}

// Claims is what a replica announces for what is contended.
type Claims struct {
	Flows []FlowClaim
	Keys  []KeyClaim
	// Withdrawn keys are contended no longer: forget the claim.
	Withdrawn []uint64
}

// FlowClaim announces one flow; the fields are those of FlowSum.
type FlowClaim struct {
	Key                        uint64
	Claim, Active, Unsaturated float64
}

// KeyClaim announces one key of one limit.
type KeyClaim struct {
	Key                        uint64
	Claim, Active, Unsaturated float64
	// Admitted is this replica's cumulative count since its generation began.
	Admitted float64
	// Spent is the spent pool D of this replica's ledger.
	Spent float64
}

// Report is what happened at this replica since its last report.
type Report struct {
	// Interval covered by the deltas.
	Interval time.Duration
	Flows    []FlowReport
}

// FlowReport holds one flow's deltas, in cost units.
type FlowReport struct {
	Tenant, Pool string
	// Demand passed the client stage, admitted or not; Served was admitted.
	Demand, Served float64
	// Waiting is the cost in the queue now; not a delta.
	Waiting                                    float64
	Marked, Rejected, ClientRejected, Shadowed float64
	// Limited tells that the tenant stage queued, marked or rejected.
	Limited bool
	// Of an adaptive pool: Completed cost was finished by the upstream, and spent
	// Residence cost·seconds there; Shed was turned away by it. InFlight is the
	// cost at the upstream now, not a delta.
	Completed, Residence, Shed, InFlight float64
}

// MaxRefused bounds the limits that one [Refused] names.
const MaxRefused = 256

// Refused lists what a filter leaves out of the configuration that it has in
// force: it cannot read that part, or the part is not valid. The rest of the
// configuration holds. A filter sends Refused after each configuration that it
// takes, with an empty list when it has left out nothing. Since version 2.
type Refused struct {
	// Revision of the configuration.
	Revision int64
	// Total number of limits that are left out, ≥ len(Limits).
	Total int
	// Limits are the first MaxRefused of them.
	Limits []RefusedLimit
}

// RefusedLimit is a limit that a filter does not enforce.
type RefusedLimit struct {
	Tenant string
	// Limit is its name, "quotas/" and the pool for a quota; "" stands for all
	// limits and quotas of the tenant.
	Limit string
	// Reason says what is wrong, at most 256 bytes.
	Reason string
}

// Names lists the identities and classes that the filter's settings name, for the
// limits that ask for one which no gateway knows. A filter sends them after its
// Hello and when they change. Since version 2.
type Names struct{ Identities, Classes []string }

// Spent tells what keys have yet to win back. A filter sends the keys whose use has
// changed, so that the agent can hand it to the process that takes the filter's
// place; the agent sends what it holds to a process that is new, before anything
// else. A later word on a key replaces an earlier one. Since version 2.
type Spent struct{ Keys []KeySpent }

// KeySpent is one key of one limit.
type KeySpent struct {
	// Key is limiter.LimitKey.
	Key uint64
	// Ahead is the time that the key takes to win its burst back; ≤ 0: none.
	Ahead time.Duration
	// Named tells that the configuration names the key.
	Named bool
}

func (*Hello) kind() kind     { return kindHello }
func (*Config) kind() kind    { return kindConfig }
func (*Shares) kind() kind    { return kindShares }
func (*Sums) kind() kind      { return kindSums }
func (*Claims) kind() kind    { return kindClaims }
func (*Report) kind() kind    { return kindReport }
func (*Refused) kind() kind   { return kindRefused }
func (*Names) kind() kind     { return kindNames }
func (*Spent) kind() kind     { return kindSpent }
func (*Heartbeat) kind() kind { return kindHeartbeat }
