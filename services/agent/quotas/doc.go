// Package quotas has an agent's part of limits with a quota of a calendar's period. The agent owns keys, books their
// units at the coordinators and grants them to gateways (package calendar). It also carries the messages of its
// gateways to the owners at other agents.
//
//	gateway here ── Ask ──► Desk ──► owner here, or a Packet to the agent that owns the key
//	coordinators ── Periods, Booked ──► Desk ──► Bookings
//
// It is pure: time comes in, and Take returns what is to be sent.
package quotas
