// Package demand has the clients of a fleet of several sites, and judges what they got. It has no socket, and the
// caller has the clock.
//
// # Model
//
//	Client   requests at random times to one site or to all, at a part of its limit
//	Log      the outcomes of a client's requests
//	Figures  the outcomes beside those of one token bucket for all sites
//	Crowd    many clients in turn, each at all sites, each below its limit
//
// A crowd's clients are known at all sites soon after the start. Then each goes on at its own rate, to one site after
// the other.
package demand
