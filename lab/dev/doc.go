// Package dev runs the whole of Titrate on one machine, under load, breaks it,
// and judges it: `titrate-lab dev`.
//
// # Model
//
// An [Installation] is a set of child processes: etcd, a coordinator, and per gateway an agent and a real Envoy
// with the filter; and an upstream with a real capacity. They are separate processes so that they can really be
// killed. A [scenario] says which load is offered and which faults happen when. The load generator sends the
// load, the Installation makes the faults. The trace of every request goes to the verdict, which knows nothing
// of the system.
//
//	scenario ─► load ─► Envoys ─► upstream          children, one process group each
//	    │         │        ▲
//	    │         ▼        │ shares
//	    │       trace    coordinator ─ etcd
//	    ▼         │
//	  faults      └─► verdict ─► exit status
//
// The configuration is demo.yaml, applied through the admin API as a user would. All files of a run are in one
// directory: configurations, sockets, and a log per child. The directory is removed after a run that passed and
// kept otherwise.
//
// # Invariants
//
//   - when Run returns, no child is alive and no socket is left;
//   - a child that ends unasked ends the run with an error that shows the end
//     of its log;
//   - the outcome is Passed only if the verdict says so.
package dev
