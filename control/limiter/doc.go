// Package limiter is one gateway's engine: it decides for every request whether it may go
// on to its upstream now, has to wait, or is rejected.
//
// # Model
//
// A request has a tenant, a client, a pool and a cost. It passes two stages.
//
//	client stage   every limit of its tenant that matches: a rate and a burst per client,
//	               or for the tenant as a whole, over all gateways. A limit may
//	               distinguish clients by another identity of the request, and hold for
//	               classes of requests only
//	tenant stage   the tenant's share of the pool: the share is the coordinator's, and is
//	               split among the gateways by announced claims
//
// An EXACT limit is paid before the others, with tokens of a bucket that an agent has. A
// request that finds none waits for the agent's answer, outside of its flow's queue
// (exact.go, exactspent.go, ownerwait.go, ownerlink.go).
//
// Without a queue a limit rejects what is beyond it. With one, the request waits in the
// one queue that its flow (tenant × pool) has, in its client's line, until the limit
// admits it. Then it is eligible and waits for the share. Eligible requests are released
// by deficit round robin over clients, in cost, at the pace of the flow's controller.
// Those of clients within their equal part of the share come first. The AQM marks or
// rejects requests of the other clients on arrival.
//
// # Rooms
//
// A request goes down through the rooms and comes back once. Each room knows those below
// it only.
//
//	engine      decide.go queue.go tick.go release.go
//	                                        the way of a request: Decide, Enqueue, Tick
//	            engine.go apply.go snapshot.go compile.go route.go shares.go
//	                                        configuration, routes and shares
//	            lifecycle.go report.go claims.go heard.go allowance.go explain.go settle.go
//	                                        flows that come and go, and what others ask
//	flow        limits.go                   client stage: all limits are charged, or none
//	            tenant.go                   tenant stage, written once: passageOf, pass
//	            flow.go                     the flow's controller: advance, publish
//	            credit.go unused.go         what requests use without a lock
//	            law.go model.go             the queue's law; its rules as functions of numbers
//	queue       internal/queue              lines, turns, deadlines
//	            internal/fairness           which clients ask for more than their part
//	keys        internal/keys               what clients have used: slots and ledgers
//	tokens      internal/tokens             tokens of EXACT limits' keys, and who waits for them
//	everywhere  internal/{hash,fixed,members,lock}
//
// keys and queue are packages: nothing above them touches a slot, a ledger or a ring.
// Engine and flow are one package: a flow answers with the engine's public types
// (Outcome, Event, Handle, Flight) and refunds limits under its lock. So a boundary
// between them would export most of both. There the structs are the rooms: credit,
// heldCounts, terms, pace, law and reporting make a flow; settings, flowLists, applied and
// registry are parts of an engine.
//
//	Decide ──► limits ──► credit of the flow ──► Admit              no lock
//	   │ Wait     │ police: Reject    │ none left
//	   ▼          ▼                   ▼
//	Enqueue ─► held for a limit ─► eligible ─► released by Tick     flow's lock
//
// Everything is charged at release: a request that is rejected, times out or is cancelled
// has charged no limit and leaves no backlog. (A waiting request keeps a reservation with
// its limits, which is refunded then.)
//
// # State
//
//   - The configuration is an immutable snapshot. Flows and keys survive it; flows and keys
//     that nothing has used for a minute or two are freed (lifecycle.go).
//   - A client's key is one word, the TAT of a GCRA, in a table without pointers. A key
//     that several gateways use, or that is used enough to be worth announcing, gets a
//     drc.Ledger.
//   - A flow is a drc.Controller, a pacer, an AQM and, once needed, a queue. Requests that
//     need no lock take its credit.
//
// # Invariants
//
//   - offered = admitted + rejected + cancelled + waiting, in requests and cost.
//   - What a limit was charged is what was admitted, plus reservations.
//   - S of a controller is the waiting eligible cost less what is already paid.
//   - Within one client requests leave in the order of their arrival.
//   - Inventing keys wins nothing: beyond the table's room new keys share one, and no key
//     loses its slot before its bucket is full again.
//   - Decide → Wait changes nothing.
//
// # Locks
//
// Package lock has the order of the locks, keys/slot.go says which of a slot and its state
// counts a key. Each lock is released by a defer, so a panic leaves none locked. Tests
// with the build tag lockrank check the order, let threads give way before each lock, and
// panic there.
//
// # Demand
//
// A flow's demand is the cost that passed the client stage, each request once, admitted or
// not. What the tenant stage turns away enters the controller as demand, not as backlog.
// SHADOW and OFF count as if admitted.
//
// # Bounds and costs
//
// Decide is O(limits of the tenant) and allocates nothing. Admitting takes no lock unless the key is
// contended (that key's own), a key is new (its bucket's) or a request is held (its flow's). Tick is O(active
// flows + clients with held requests + released). Claims is O(active flows + contended keys in use): a
// contended key that nobody asks for costs nothing until it has something to announce
// (internal/keys/wakes.go). Memory: 40 B per key of the budget, about 600 B per contended key while it is one
// (and 50 B for two minutes after). A flow in use takes about 2 KiB, and 8 KiB more while its clients
// compete; a waiting request about 140 B and copies of its identities.
//
// # Time and numbers
//
// Times are nanoseconds of any clock that does not run backwards, ≥ 0 and at most 2^61,
// see Options.Start. Threads may be a few microseconds apart. Cost is counted in
// millionths of a unit.
//
// The laws and their sources are in packages drc (ledger, controller), pacing and
// aqm (marks).
package limiter
