// Command titrate-filter is Titrate inside Envoy: a dynamic module, built with
// -buildmode=c-shared as libtitrate.so, that decides on every request whether
// it passes, waits or is refused.
//
// # Model
//
//	Envoy ── hooks ──► C (this package) ── one call per request ──► Go
//	                   identify tenant,                             enforcer    engine, ticker, panics
//	                   client, pool, cost                           agentlink   link to the agent
//	                   hold and wake streams                        stats       counters → Envoy's stats
//	                   answer 429                                   settings    what the operator wrote
//	                   count what is at the upstream                adminpage   who is limited, and why
//	                                                                hotrestart  from Envoy to its successor
//
// C sees each stream; Go sees a question about it. All C is in this package,
// and so is everything of Go that touches Envoy; the packages below know
// nothing of either and are tested without. (texttest runs this package's C
// parsers by themselves.) What tells requests apart, and where limits and filters
// meet over it: identify.c and package slots.
//
// # One state per process
//
// Envoy loads two extensions from this one object. The bootstrap extension owns
// the engine, the ticker, the link and the metrics, from Envoy's start to its
// shutdown; the HTTP filter, of which there may be many and which come and go
// with their listeners, only asks. So a reloaded listener forgets nothing.
//
// # Invariants
//
//   - A request crosses into Go once when it is admitted or refused at once,
//     twice when it is held, and once more if it ends while it waits. A tick's
//     releases cross into C once, all together.
//   - Nothing below an exported function panics into Envoy.
//   - Each held stream's scheduler is deleted exactly once (held.c).
//   - After Envoy's shutdown hook returns, no goroutine calls Envoy.
//
// # Requirements
//
// Envoy 1.40, ENVOY_DYNAMIC_MODULES_SEARCH_PATH at the folder of libtitrate.so,
// do_not_close: true, and no other module written in Go: a process has room for
// one Go runtime, so the module refuses to load beside another.
package main

// main is never run: the object is loaded, not started.
func main() {}
