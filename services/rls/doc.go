// Package rls serves envoy.service.ratelimit.v3, the API of Envoy's rate limit filter and of other proxies, with the
// limiter that the filter has. An agent with it is one more gateway next to the gateways of its Envoys. It claims
// what it admits, as they do, and one limit holds over all of them.
//
// # Model
//
//	ShouldRateLimit(domain, descriptors, hits)
//	   │ each descriptor alone
//	   ├─ a domain of files or xDS      server.go     limit found as envoyproxy/ratelimit does
//	   │     ├─ a tenant of the engine with that limit alone           composer.go
//	   │     └─ or a counter of a fixed window                         fixed.go, windows
//	   └─ the domain "titrate"          direct.go     tenant, client, pool, identities, classes
//	         └─ the tenant's own limits and share, as for a request at a filter
//	   ▼
//	 enforcer ─ limiter.Engine ─ agentlink ══ the agent's own socket
//
// The engine's configuration is the coordinator's and, for each limit of the files, a
// tenant whose only limit it is. No resource can have the name of such a tenant: it has a
// slash. So files may have as many limits as they like, though a tenant may not.
//
// The limits come from a directory (watch.go) or from an xDS server (xds.go). Where the text says "files" the latter's
// resources are meant, too: they are read as files.
//
// # What a fixed window becomes
//
// N per unit is a bucket of N that refills at N per unit. A client may spend N at once, as
// in a window; then it gets N per unit evenly instead of all at the window's edge. In any
// span of length t it is admitted at most N·(1 + t/unit).
//
// A descriptor that is refused with hits above 1 takes what was left, so that its limit is
// used up as a counter beyond its limit is. Options.StopOverLimit turns that off.
//
// With Options.Windows Fixed, package windows counts limits of the files instead of the engine, over the same link. A
// limit is N in each second, minute and so on, as envoyproxy/ratelimit counts.
//
// # Failures
//
// No request waits for anything outside the process. Without the other agents and the coordinator the engine goes on as
// a filter does. Files that cannot be read leave the configuration before in force, are logged and counted; so do
// limits of the xDS server, which is sent the reason. Without the xDS server the limits that it has sent stay in force;
// an agent that starts without it has none until it is back, and answers OK. A limit that the engine does not know, or
// a decision that panicked, is answered OK and counted.
//
// # Bounds
//
// A request has at most maxRequestBytes and maxRequestEntries; what is beyond is refused by package
// intake. The limits of an xDS server have at most maxStateBytes together. There are at most
// maxOverrides different limits of descriptors that bring their own, at most maxMetrics names in
// the metrics. What is beyond is answered OK or counted as "other", and counted.
package rls
