// Package tokens has a replica's state of keys whose limits are EXACT: the tokens that
// the keys' owners have granted (package grant), and the requests that wait for them.
//
//	Take · Join · PutBack · Owe · Usage     one key of one request
//	Answer · Expire · Leave · Drain         how waits end
//	Poll · Sweep · Release                  messages to the owners
//	Link · Forget                           an agent comes or goes
//
// A request without a token joins the line of its key. The line ends in order, when an
// answer of the owner comes, or one by one when they have waited for Hold. A request that
// finds no answer is Unanswered: then the ledger decides (package keys), and Owe reports
// the request to the owner.
//
// # Invariants
//
//   - A waiter that has joined ends once: in the result of Answer, Expire or Drain, or by a
//     Leave that returned true.
//   - A limit has its part of the keys that are kept, and of the questions per second (budgets.go).
//     A new key beyond that is Unowned, so inventing names costs a gateway no more than that part, takes
//     nothing from other limits, and wins what the ledger gives.
//   - A key that has nothing to remember is released after a while.
//   - While the link to the agent is down nothing waits: a bucket or tokens that the replica
//     has are spent, everything else is Unanswered.
//
// Each call locks one shard of the keys at a time. Take, PutBack and Owe are O(1), Poll is O(keys
// with an open question), Answer is O(answers + waiters). Without keys nothing is done per tick.
package tokens
