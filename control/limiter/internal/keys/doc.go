// Package keys counts what the clients of limits use: one key per client of a limit, or
// one per limit.
//
// # Where a key is counted
//
// Most keys are used at one gateway only, and little. Such a key has a slot of 32 bytes
// in a table without pointers (table.go). The slot's TAT, the state of a GCRA, is one
// word: a request is charged by one compare-and-swap. A key that several gateways use,
// or that is used enough to be worth announcing, is contended: a state with a
// drc.Ledger counts it (state.go). The keys of tenants as a whole, and of clients beyond
// the key budget, have slots outside the table (dedicated.go).
//
//	Take · Refund · Owe · WouldTake · Usage       store.go   one key of one request
//	   │
//	   ▼
//	obtain · find                                 slot.go    who counts: the slot or the state
//	   │ the slot                │ the state, locked
//	   ▼                         ▼
//	table.go · dedicated.go   state.go · pool.go · budget.go
//
// slot.go is the only file that knows the protocol between a slot and its state. A reader
// or writer of a key asks obtain or find, and gets what counts it: the slot or the state.
//
// # What replicas exchange
//
// Claims announces the contended keys (claims.go, wakes.go) and SetSums takes in what the
// others announce (sums.go); either only what has changed. VisitSpent, SpentChanges and
// Restore carry what keys have spent to the process that takes this one's place (spent.go,
// changes.go).
//
// # Invariants
//
//   - Inventing names wins nothing: beyond the table's room new keys share one, and no
//     key loses its slot before its bucket is full again.
//   - A key beyond the budget of states is held to its part of the limit, rate/N.
//   - At most one of a slot and its state counts a key at any time.
//   - A contended key that nobody uses costs nothing per period; the memory of states is
//     given back.
//
// Reading and charging a key that is not contended takes no lock; a contended key takes
// its own. Nothing here allocates per request.
package keys
