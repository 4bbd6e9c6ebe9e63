// Package installation starts Titrate's processes on one machine: for the demo, the tests of processes, the
// benchmarks, the soak, the fleet and the robustness runs.
//
// # Model
//
//	Rig ── a directory with logs, configurations and sockets, and a child.Group
//	    ── Etcd, Coordinator, Agent, Upstream, Envoy: a Server each
//	Installation ── a Rig with etcd, coordinators, an upstream and gateways, started in the order of their needs
//
// A [Server] is a process that can be started, stopped, killed and started again. The [Rig] reports each
// unexpected end. An [Envoy] has one worker, one listener and one filter: Titrate's, one of Envoy's own to
// compare with, or none. A [Proxy] is the server that runs it.
package installation

// EnvoyVersion is the version of Envoy that the filter is built for.
const EnvoyVersion = "1.40.0"
