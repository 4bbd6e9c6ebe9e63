package limiter

import (
	"math"
	"time"
)

// Config is everything that the engine is told by the administrator. It is
// applied whole or not at all, see [Engine.Apply].
type Config struct {
	Revision int64  // of the configuration, for reports
	Seed     uint64 // of the key hashes; the same in every replica that shares limits
	Pools    []Pool
	// Defaults are limits of every tenant that has none of the same name.
	Defaults []Limit
	Tenants  []Tenant
}

// Pool is an upstream with a capacity.
type Pool struct {
	Name       string
	Capacity   float64 // cost units/s, > 0 and finite
	Queue      Queue   // the queue of every tenant of this pool
	OnLoss     OnLoss
	HardExpiry time.Duration // after shares went stale; 0: never (OnLoss SafeRate), at once (Open)
	Adaptive   bool          // the capacity is found: count what is at the upstream, see Flight
}

// Law says how a queue is managed.
type Law uint8

// The laws.
const (
	VariableStructure Law = iota // marks and early rejects hold the delay target
	DropTail                     // a queue of DelayTarget at the share, no early action
	Police                       // no queue: what may not pass at once is rejected
	CoDel                        // controlled delay: marks, then rejects, at the head of the queue
)

var lawNames = [...]string{"VARIABLE_STRUCTURE", "DROP_TAIL", "POLICE", "CODEL"}

// String is the law's name as in the quota API.
func (l Law) String() string { return name(lawNames[:], int(l)) }

// OnLoss says what happens to a pool when its shares are stale for too long.
type OnLoss uint8

// The policies.
const (
	Freeze   OnLoss = iota // the last shares hold without end
	SafeRate               // after HardExpiry at most share·w/W of the last membership
	Open                   // after HardExpiry everything passes the tenant stage
)

var onLossNames = [...]string{"FREEZE", "SAFE_RATE", "OPEN"}

// String is the policy's name as in the quota API.
func (o OnLoss) String() string { return name(onLossNames[:], int(o)) }

// Mode says whether decisions act.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota
	Shadow       // decided and counted, never acted on
	Off          // not decided; traffic is measured only
)

var modeNames = [...]string{"ENFORCE", "SHADOW", "OFF"}

// String is the mode's name as in the quota API.
func (m Mode) String() string { return name(modeNames[:], int(m)) }

// Queue says how requests wait. The zero value of DelayTarget, MaxWait and
// MaxRequests means the default.
type Queue struct {
	Law Law
	// DelayTarget is the wait that the AQM aims at. Default 50 ms, range 1 ms
	// to 10 s. Larger keeps a bursty tenant's share busier, at longer waits.
	DelayTarget time.Duration
	// MaxWait is the longest wait; an older request is rejected. Default 1 s,
	// range 1 ms to 60 s. It must stay below the proxy's drain time.
	MaxWait time.Duration
	// MaxRequests is the most requests that wait: per tenant in a pool's queue,
	// per client in a limit's. Default 1024, range 1 to 1,000,000.
	MaxRequests int
}

// Defaults and bounds of Queue.
const (
	DefaultDelayTarget = 50 * time.Millisecond
	DefaultMaxWait     = time.Second
	DefaultMaxRequests = 1024
	MaxQueueRequests   = 1_000_000
)

// withDefaults fills in what is zero.
func (q Queue) withDefaults() Queue {
	if q.DelayTarget == 0 {
		q.DelayTarget = DefaultDelayTarget
	}
	if q.MaxWait == 0 {
		q.MaxWait = DefaultMaxWait
	}
	if q.MaxRequests == 0 {
		q.MaxRequests = DefaultMaxRequests
	}
	return q
}

// Tenant is a customer or team.
type Tenant struct {
	Name   string  // DefaultTenant stands in for unknown ones
	Weight float64 // > 0; 0 means 1
	Limits []Limit
	Quotas []Quota // at most one per pool; a pool without one has a zero Quota with Max +Inf
}

// DefaultTenant is the name of the tenant that stands in for unknown ones.
const DefaultTenant = "-"

// Quota is what a tenant may have of one pool. Rates in cost units/s.
type Quota struct {
	Pool       string
	Guaranteed float64 // ≥ 0
	Max        float64 // ≥ Guaranteed; +Inf: unbounded; 0 admits nothing
	Mode       Mode
}

// Unbounded is the Max of a quota without one.
var Unbounded = math.Inf(1)

// RateBurst is a rate in cost units/s and a burst in cost units.
type RateBurst struct {
	Rate, Burst float64 // Rate ≥ 0; Burst 0: one second's worth; below 1 is raised to 1
}

// Limit holds each client of a tenant, or all of them together, to a rate.
type Limit struct {
	Name      string
	PerTenant bool     // one key for the whole tenant instead of one per client
	Rate      float64  // cost units/s
	Burst     float64  // cost units; 0: one second's worth, at least 1
	Pools     []string // it applies to; empty: all
	Overrides map[string]RateBurst
	// Identity is the name of what tells clients apart; "": Request.Client. A
	// request that has no such identity is the client "". PerTenant needs none.
	Identity string
	// Classes of requests that it applies to, by name; empty: all requests. Of a
	// name that nobody has given a place there are none.
	Classes []string
	// Queue lets a client wait for its limit when MaxRequests > 0 or MaxWait > 0
	// and Law is not Police; otherwise a request beyond the limit is rejected.
	Queue Queue
	Mode  Mode
	// Strict never admits more than the envelope over all replicas, at the
	// price of rejecting some bursts below the limit.
	Strict bool
}

// queued reports whether a request beyond the limit waits.
func (l *Limit) queued() bool {
	return l.Queue.Law != Police && (l.Queue.MaxRequests > 0 || l.Queue.MaxWait > 0)
}

// numbers returns rate and burst with the default burst filled in.
func (rb RateBurst) numbers() RateBurst {
	if rb.Burst == 0 {
		rb.Burst = rb.Rate
	}
	rb.Burst = max(1, rb.Burst)
	return rb
}
