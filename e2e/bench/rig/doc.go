// Package rig starts the processes that the benchmarks measure, and reads their use.
//
// # Model
//
//	Rig ── Envoy          one real Envoy, one worker, of one variant (Filter)
//	    ── Installation   etcd, a coordinator, and per gateway an agent and an Envoy (lab/installation)
//	    ── Service        a rate limit service that Envoys ask: ours, or another one
//
// All are real processes on free loopback ports, with their logs and configurations in one directory. They are
// children of a [child.Group]: none outlives the benchmark, even if it is killed.
//
// # Variants
//
// All variants have the same Envoy configuration except the filter: an HTTP/1.1 listener that answers itself
// or, with an upstream's port, sends requests on. The headers x-tenant and x-client name tenants and clients,
// for Titrate, for the descriptors of the native filters and for ratelimit alike.
//
// # Reading
//
// CPU is the user and system time of a whole process with all its threads, from
// the kernel's clock of that process (nanoseconds, not ticks). [CPU.Of] sums
// over all processes that a variant needs.
package rig
