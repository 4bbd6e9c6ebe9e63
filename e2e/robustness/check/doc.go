// Package check judges what was seen against what Titrate guarantees, with the
// stated graces of the faults that were there. It has no clock and no processes.
//
// # Model
//
// A [Fault] is a span of time in which something was broken, and what that
// excuses. Outside of what is excused:
//
//	failed     no request ends without an answer, or with a status of 500 or more
//	blocked    every request is answered within a bound
//	admitted   in each window of length t a limit admits at most rate·t + burst
//	           + slack over all gateways, a pool at most capacity·t + its slack
//	entitled   in each quiet window each tenant gets 90 % of what is due to it
//
// # How windows are checked
//
// The most that was admitted beyond rate·t in any window that ends now is the level of a
// bucket (Lindley's recursion). Each admitted request adds 1, time drains it at the rate,
// and it is never below 0.
//
//	level ← max(0, level − rate·Δt) + 1
//
// What a fault lets pass in addition is drained too. It is a rate while it lasts, an amount
// when it is over, and until then the bound is higher by that amount.
package check
