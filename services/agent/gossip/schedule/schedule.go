// Package schedule is the part of the gossip that needs neither socket nor clock. It decides when the agent sends
// what to which agent, which agents are reachable, and how long packets take. The simulator runs the same code.
//
// # Model
//
// Each half period P/2 an agent looks to whom it has something to say. A packet goes to a
// peer
//
//	at once   if something fresh waits for it, and the last packet to it left P/2 ago; to another site P or more
//	after P   if it is owed an acknowledgement
//	each P    for a second after something was said either way; with up to 16 peers also
//	          while anything is in use. With n > 16 peers it is each n/16·P, rounded up
//	rarely    otherwise: each Idle·P, with n peers each n/keepalives seconds, at most
//	          longestKeepalive
//
// and promises when the next one is due. So peers that share no key cost each other little,
// and silence is noticed within three promised packets.
//
// # Budget
//
// An agent sends at most PacketsPerPeriod packets and BytesPerPeriod bytes in a period, whatever its gateways use.
// Packets are given out one to each peer in turn, and within a peer fresh items first, with some that wait for longest
// (package delivery). Items that do not fit wait: they are counted ([Traffic]), and their wait is reported to the
// peers, which count it in their lag.
//
// # Delay
//
// Each packet acknowledges the latest one received from its addressee, the 64 before it,
// and says how long ago the latest was. The round trip is measured with the sender's clock
// alone: τ = (now − sent − held)/2. Per peer the maximum is kept, decaying slowly ([Delay]).
//
// Now is any time that does not run back. A round costs O(peers with due packets + items sent), and for each item
// that the peers have acknowledged its share of refreshCycle. With up to busyPeers peers O(peers + items sent).
package schedule

import "time"

const (
	// Idle is the number of periods between two packets without claims.
	Idle = 10
	// hangover is the time for which packets are sent each period after the last claim, so that the longer promise
	// arrives before it is needed.
	hangover = time.Second
)
