// Package rig starts what the benchmarks measure, and reads what it used.
//
// # Model
//
//	Rig ── Envoy          one real Envoy, one worker, of one variant (Filter)
//	    ── Installation   etcd, a coordinator, and per gateway an agent and an Envoy
//	    ── Service        a rate limit service that Envoys ask: ours, or another one
//
// All of it are real processes on loopback ports that were free, with their
// logs and configurations in one directory. They are children of a
// [child.Group]: none outlives the benchmark, whatever ends it.
//
// # Variants
//
// Every variant is the same Envoy configuration but for the filter: an HTTP/1.1
// listener that answers by itself, or, with an upstream's port, sends on. What
// names tenants and clients are the headers x-tenant and x-client, for Titrate,
// for the descriptors of the native filters and for ratelimit alike.
//
// # Reading
//
// CPU is the user and system time of a whole process with all its threads, from
// the kernel's clock of that process (nanoseconds, not ticks). [CPU.Of] sums
// over all processes that a variant needs.
package rig
