// Package shim is between Envoy and Go: the hooks that Envoy calls, in C, and the Go functions that the hooks
// call. C sees each stream; Go sees questions about requests. Functions that Go exports to C are named
// titrateX, functions of C titrate_x.
//
// # A request
//
//	http_filter.c      Envoy's hook request_headers
//	  identify.c       tenant, client, pool, cost, identities, classes → question
//	  request.go       titrateDecide: question → enforcer.Decide → answer
//	  response.c       admitted: what the response will need
//	  refusal.c        refused: the response itself
//	  held.c           has to wait: titrateEnqueue, and the event that ends the wait
//
// # Invariants
//
//   - A request crosses into Go once when it is admitted or refused at once,
//     twice when it is held, and once more if its stream ends while it waits. All
//     requests that a tick releases cross into C together.
//   - No exported function panics into Envoy.
//   - The scheduler of each held stream is deleted exactly once (held.c).
//   - After Envoy's shutdown hook returns, no goroutine calls Envoy.
//
// # What is tested where
//
// parse.c reads bytes from clients; package parsetest runs and fuzzes parse.c without Envoy. All else is tested
// in a real Envoy (envoytest).
package shim
