// Package child runs processes that must not outlive this one.
//
// # Model
//
// A [Group] starts processes, each in a process group of its own (so that a
// Ctrl-C at the terminal reaches only the parent, who then stops them in
// order), with its output in a file. On Linux each also asks the kernel for
// SIGKILL when its parent dies, so even a parent killed by SIGKILL leaves
// nothing.
//
// The kernel ties that wish to the thread that forked, not to the process, and
// the Go runtime may end a thread at any time: so a Group forks on one locked
// thread of its own, which lives until Close.
//
// # Invariants
//
//   - after Close returns, no process of the group is alive;
//   - Stop kills what does not end within the grace period;
//   - Exited is closed once a process is dead and reaped, never before.
package child
