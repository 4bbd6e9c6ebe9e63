// Package process tests Titrate as its processes: the real `titrate` binary as
// etcd, coordinator, agents and upstream, the real filter, and the real Envoy.
//
// It has tests only. Nothing in them is faked, so they kill real processes, as on an operator's machine:
//
//   - the demo, judged by its own verdict, by a second reading of its trace, and
//     by what it leaves behind;
//   - one installation of two gateways that the other tests share. Its requests are given
//     up by their clients, an Envoy receives SIGTERM, agents, coordinators and an etcd are
//     killed and come back. There are strangers on the agent's socket, bad documents,
//     quotas that change while requests wait, a limit by user and method;
//   - the developer's commands: Ctrl-C, a port that is taken;
//   - an installation of the version before, whose parts are replaced by parts of this version one
//     after the other in any order, and back (`make e2e-upgrade`).
//
// # What they need
//
//	TITRATE_BIN     the binary            default ../../bin/titrate
//	TITRATE_LAB_BIN the laboratory's      default ../../bin/titrate-lab, and beside TITRATE_BIN
//	TITRATE_MODULE  the filter            default ../../bin/libtitrate.so
//	ENVOY_BIN       Envoy 1.40            default: the Envoy that `make envoy` fetched
//
// Where one is missing, the tests are skipped and say so; with TITRATE_E2E=1 they
// fail instead, so that a build cannot pass by having nothing to test.
//
// # Invariants
//
//   - everything is on loopback, and ends with the test process even when the test
//     process is killed (lab/installation/child);
//   - only traffic waits for a time to pass: a test polls for a state, with a deadline
//     that only a broken system reaches;
//   - rates are checked from above over every window, as the guarantee is, and
//     from below only where less would be a fault on any machine.
package process
