package limiter

import (
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter/internal/queue"
)

// Verdict is the decision about a request now.
type Verdict uint8

// The verdicts.
const (
	Admit  Verdict = iota // goes on to the upstream
	Wait                  // would have to be held, or is held
	Reject                // 429
)

var verdictNames = [...]string{"admit", "wait", "reject"}

// String is the verdict's lower-case name.
func (v Verdict) String() string { return name(verdictNames[:], int(v)) }

// Reason says why a request was rejected, or would have been.
type Reason uint8

// The reasons. Their names are part of the product's interface.
const (
	None          Reason = iota
	ClientLimit          // a limit of its client or tenant refused it
	TenantShare          // its tenant's share of the pool is used up, or the AQM chose it
	QueueFull            // the tenant's queue holds as many as it may
	QueueTimeout         // it waited for as long as it may
	UnknownTenant        // no such tenant, and no default tenant
	NotConfigured        // no configuration has arrived yet and the boot policy is CLOSED
)

var reasonNames = [...]string{
	"", "client_limit", "tenant_share", "queue_full", "queue_timeout", "unknown_tenant", "not_configured",
}

// String is the stable name of the reason, "" for None.
func (r Reason) String() string { return name(reasonNames[:], int(r)) }

// Reasons is the number of reasons, None included: the size of a table by Reason.
const Reasons = len(reasonNames)

// name looks up an enumeration's name; an unknown value has none.
func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "invalid"
}

// Request is one request as the engine sees it. The strings may alias foreign
// memory: the engine copies what it keeps, and keeps none of them.
type Request struct {
	Tenant string
	Client string  // "" is one client: all requests without a known client
	Pool   string  // the upstream pool it goes to
	Cost   float64 // cost units, > 0; anything else counts as 1, at most MaxCost
	// Identities are the values that limits may use instead of Client; nil:
	// it has none.
	Identities *Identities
	Costs      *Costs // what it costs by name; nil: it has no such costs
	Classes    uint32 // that it is in, a bit per place
	// Mode is the caller's mode of the decision: SHADOW and OFF never refuse
	// or hold this request, whatever limits and quotas say.
	Mode config.Mode
}

// MaxCost bounds the cost of one request, in cost units.
const MaxCost = 1e6

// cost returns the cost in fixed point, within [1, MaxCost·unit].
func (r *Request) cost() int64 {
	if !(r.Cost > 0) {
		return unit
	}
	return max(1, int64(min(r.Cost, MaxCost)*unit+0.5))
}

// Micros is the plain cost that is charged, in millionths of a unit.
func (r *Request) Micros() int64 { return r.cost() }

// costBy returns the cost by a name, in fixed point; 0: it has none.
func (r *Request) costBy(by costName) int64 {
	if by == plainCost {
		return r.cost()
	}
	return r.Costs.by(by)
}

// Micros converts a cost that was settled, ≥ 0, to millionths of a unit.
func Micros(cost float64) int64 { return int64(min(cost, MaxCost)*unit + 0.5) }

// Outcome is a decision.
type Outcome struct {
	Verdict Verdict
	Reason  Reason // of a Reject, or of what SHADOW held back
	Mark    bool   // admitted with a congestion mark
	Shadow  bool   // would not have been admitted at once, but a SHADOW mode let it pass
	// RetryAfter is the time until a rejected request may succeed, from the answer on:
	// by the ledger that refused it, or by backlog and rate of the queue. 0: waiting
	// does not help (a limit of rate 0, a quota with a max of 0, a cost above the
	// burst), or no tenant or configuration is known.
	RetryAfter time.Duration
	Waited     time.Duration // how long an event's request was held
	// Flight counts the request once it is released: it is set for an Admit, and for
	// a Wait by Enqueue, to a pool that is adaptive. Nil otherwise.
	Flight *Flight
	// Slots is set for an Admit that has slots of concurrency limits: [Engine.FreeSlots] is to be called at the end of
	// its stream.
	Slots Slots
	// Limit is the name of the limit that refused the request, would have in
	// SHADOW, or holds it; ShareName for the tenant's share. "" when neither is so,
	// and of events that timed out.
	Limit string
}

// Event is the end of a held request's wait. Its Outcome's verdict is Admit or
// Reject.
type Event struct {
	Ticket  uint64 // as given to Enqueue
	Outcome Outcome
	// Whose request it was: the tenant that it counts for, its client, its pool, "" if that is not
	// configured.
	Tenant, Client, Pool string
	// HeldBy is the cause of the wait. It is the name of a limit, the last if several held
	// it, or ShareName if it waited for its tenant's share alone, or for longer.
	HeldBy string
}

// Handle names a held request until its event; the zero Handle names none. It
// carries the generation of its place, so a handle of long ago is never
// mistaken for a new one.
//
//	bits 63…40 flow    39…20 place in the flow's queue    19…0 generation ≥ 1
type Handle uint64

const (
	placeBits      = 20 // queue.MaxPlaces
	generationBits = 20 // queue.MaxGeneration
)

func newHandle(flow uint32, place int32, generation uint32) Handle {
	return Handle(uint64(flow)<<(placeBits+generationBits) | uint64(place)<<generationBits | uint64(generation))
}

func (h Handle) flow() uint32       { return uint32(h >> (placeBits + generationBits)) }
func (h Handle) place() int32       { return int32(h >> generationBits & (queue.MaxPlaces - 1)) }
func (h Handle) generation() uint32 { return uint32(h & queue.MaxGeneration) }
