// Package quotas plays calendar quotas for a month of virtual time with the code that ships: the keys of gateways, the
// owners of agents, and the book of coordinators. Agents, gateways and coordinators are killed, and the store is slow,
// away or restored. Its tests judge what is admitted over all gateways, and what stays unused.
//
// The simulator of package world plays gossip, too, which is too much for a month.
package quotas
