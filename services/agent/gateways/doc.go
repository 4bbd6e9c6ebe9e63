// Package gateways is the agent's end of the link: a server on a Unix socket
// for the filters inside the Envoys of this host or pod.
//
// # Model
//
// Each connection is one filter process, a [Gateway]. After both Hellos, what
// the filter says goes to a [Handler] in order, and what the agent says goes
// through a mailbox with one slot per kind of message: a newer one replaces what
// was not sent yet. So Send never blocks, a stuck filter costs one slot of each
// kind, and after [link.DeadAfter] without progress its connection is closed.
//
// # Invariants
//
//   - Only processes of the agent's own user, or root, are served, whatever the
//     mode of the socket became (SO_PEERCRED where the system has it).
//   - The socket is born with mode 0600. A socket file that a dead agent left
//     is replaced; a living one is never taken over.
//   - Malformed bytes close the connection that they came on, nothing else.
//   - Of one process (name and generation) only the newest connection lives;
//     two generations of one name may be there at once: a hot restart.
//   - When Serve has returned, no goroutine and no socket file is left.
package gateways
