// Package local starts the system's processes on one machine: for the demo, the tests of
// processes, the benchmarks, the soak and the robustness runs.
//
// # Model
//
//	Rig ── a directory with logs, configurations and sockets, and a child.Group
//	    ── Etcd, Coordinator, Agent, Upstream, Envoy: a Server each, as it is started
//
// A [Server] has the command of a process, and the URL that answers once the process serves. The caller starts,
// restarts and kills it. An [Envoy] has one worker, one listener and one filter: Titrate's, one of Envoy's own
// to compare with, or none.
package local
