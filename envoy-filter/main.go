// Command titrate-filter is Titrate inside Envoy: a dynamic module that decides for
// every request whether it passes, waits or is refused. Built with -buildmode=c-shared
// it is libtitrate.so.
//
// # Packages
//
//	Envoy ── hooks ──► shim       C, and the Go functions that C calls
//	                   process    the state that an Envoy's filters share: wires the others
//	                   enforcer   the engine with its clock and ticker; recovers panics
//	                   answer     what clients read: status, body, RateLimit fields
//	                   settings   the operator's settings in Envoy's configuration
//	                   slots      slots for the names of identities and classes
//	                   agentlink  the link to the agent
//	                   hotrestart hands spent tokens from an Envoy to its successor
//	                   stats      the engine's counters as Envoy's metrics
//	                   heavyhitters, adminpage   the clients that are limited the most, and why
//
// Only shim knows Envoy; all others are tested without Envoy. envoytest tests the whole module in a real Envoy.
//
// # Requirements
//
// Envoy 1.38, 1.39 or 1.40, ENVOY_DYNAMIC_MODULES_SEARCH_PATH at the folder of libtitrate.so, do_not_close:
// true, and no other module written in Go: a process has room for one Go runtime. So the module refuses to load
// if another is loaded.
package main

import _ "github.com/titrate/titrate/envoy-filter/shim" // its hooks are called by Envoy

// main is never run: the object is loaded, not started.
func main() {}
