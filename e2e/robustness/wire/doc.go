// Package wire is a network in user space: hosts in separate network namespaces, and a switch whose links can
// be cut, delayed and made to lose packets.
//
// # Model
//
// Each [Host] is a network namespace with a loopback device and a TUN device, a
// network device whose packets a program reads and writes. The [Switch] reads the
// packets of all hosts and writes each to the host that its IPv4 destination
// names. On the way it asks for the fault of the link:
//
//	cut     the packet is dropped
//	loss    it is dropped with a probability
//	delay   it is written later; jitter is added to that
//
// A fault holds for packets between two sets of hosts, or within one direction. A filter can exempt packets, so
// that the clients' traffic passes while the messages between processes are disturbed.
//
// A namespace lives as long as a process or a file descriptor uses it, and a TUN device as long as its
// descriptor. Nothing is left behind, however this process ends.
//
// # What it needs
//
// /dev/net/tun, and CAP_NET_ADMIN in the namespace of this process: root, or a user namespace. Without them
// [New] gives hosts that share this process's loopback, each with its own address in 127.0.0.0/8, and no link
// can be disturbed ([Switch.Disturbs]).
package wire
