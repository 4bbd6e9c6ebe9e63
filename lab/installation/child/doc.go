// Package child runs processes that must not outlive this one.
//
// # Model
//
// A [Group] starts processes, each in its own process group, with its output in a file. So a Ctrl-C at the
// terminal reaches only the parent, which then stops the processes in order. On Linux each also asks the kernel
// for SIGKILL when its parent dies, so even a parent killed by SIGKILL leaves nothing.
//
// The kernel sends that signal when the thread that forked ends, and the Go runtime may end a thread at any
// time. So a Group forks on one locked thread, which lives until Close.
//
// # Invariants
//
//   - after Close returns, no process of the group is alive;
//   - Stop kills processes that do not end within the grace period;
//   - Exited is closed once a process is dead and reaped, never before.
package child
