// Package linkserver is the agent's end of the link: a server on a Unix socket for the
// filters inside the Envoys of this host or pod.
//
// # Model
//
// Each connection is one filter process, a [Conn]. After both Hellos its messages go to a [Handler] in order. Messages
// to the filter go through a mailbox with one slot per kind: a newer message replaces the older one. Sums that are only
// what has changed are added to it, and a change of the configuration to the waiting one. So Send never blocks, and a
// filter that does not read costs one message of each kind; after [link.DeadAfter] without progress its connection is
// closed. What the messages mean is the handler's business.
//
// # Invariants
//
//   - Without a group only processes of the agent's own user, or root, are served, whatever
//     the mode of the socket became (SO_PEERCRED where the system has it). With a group the
//     mode decides, 0660, which the kernel checks: the peer's credentials do not name all the
//     groups that it is in.
//   - The socket is created with mode 0600, so there is no moment in which others could
//     connect. A socket file that a dead agent left is replaced; a socket with
//     a listening agent is never taken over.
//   - Malformed bytes close the connection that they came on, nothing else.
//   - When Serve has returned, no goroutine and no socket file is left.
package linkserver
