package exchange

import "time"

// Decisions are requests that a replica refused, held, marked or let pass by SHADOW only, since
// the last Decisions. They are a part of all where there are many.
type Decisions struct{ List []Decision }

// Decision is the decision about one request, with the causes. Texts that a client chose are cut.
type Decision struct {
	Request              string // Envoy's x-request-id
	Tenant, Client, Pool string
	Age                  time.Duration // since it was decided
	Cost                 float64       // cost units
	// Refused or admitted; of an admitted one whether it was marked, and whether it passed only
	// because of a mode SHADOW.
	Refused, Marked, Shadowed bool
	Reason, Limit             string        // of a refusal, or of what SHADOW held back
	RetryAfter                time.Duration // 0: waiting does not help
	Waited                    time.Duration // in a queue
	HeldBy                    string        // what it waited for: a limit, or "tenant-share"
	Revision, Epoch           int64         // of the configuration and of the shares
	Limits                    []LimitStep   // that applied, in their order, as they were afterwards
	Share                     ShareStep
}

// LimitStep is the state of one limit for the request.
type LimitStep struct {
	Name, Client      string // the client as the limit knows it, mostly the decision's; "" of a limit per tenant
	Shadow            bool   // it is not enforced
	Passes            bool   // a request of that cost passes
	Rate, Burst, Free float64
	Wait              time.Duration // until it passes; 0 when it does, or never will
	Exact             bool          // the key's owner grants tokens
	Silent            bool          // and is unreachable: the ledger decides
	Unasked           bool          // and was not asked about a new key, as the limit asked for too much: likewise
	Parted            bool          // the gateway may use its standing part of the bucket before it asks the owner
	// Concurrency is set of a limit on requests in flight. Then Free are its idle slots at the replica, and without an
	// owner no request may start.
	Concurrency int64
	// Amount is set of a limit with a quota. Then Free is what is left of the period, and Wait until it ends.
	Amount float64
}

// ShareStep is the state of the tenant's share for the request.
type ShareStep struct {
	Known               bool    // the tenant has a share of the pool
	Share, Rate, Demand float64 // over all replicas; in force here, asked for here; cost units/s
	Credit              float64 // cost that may pass at once
	Waiting             int     // requests that wait for it here
	Lost                bool    // it has expired
}
