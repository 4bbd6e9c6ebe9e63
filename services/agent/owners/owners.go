// Package owners has the code that the owners of tokens, slots and quotas at an agent share. It names processes of
// gateways and the reasons for which a message is dropped, and keeps the messages of owners that wait to be sent.
package owners

import (
	"maps"
	"slices"

	"github.com/titrate/titrate/control/exchange"
)

// Agents picks the owner of each key among agents: the one with the highest score for the key (rendezvous hashing).
// When an agent comes, it takes about one key in N, from all others alike; when one goes, its keys are spread over
// the rest; no other key moves.
type Agents struct {
	Names  []string
	hashes []uint64
}

// Add adds an agent.
func (a *Agents) Add(name string) {
	a.Names, a.hashes = append(a.Names, name), append(a.hashes, exchange.OwnerHash(name))
}

// Of returns the owner of a key; "": there is no agent.
func (a *Agents) Of(key uint64) string {
	name, _ := a.Best(key)
	return name
}

// Best returns the owner of a key, and its score.
func (a *Agents) Best(key uint64) (name string, score uint64) {
	for i, h := range a.hashes {
		if s := exchange.OwnerScore(key, h); s > score || name == "" {
			name, score = a.Names[i], s
		}
	}
	return name, score
}

// MaxProcesses is the most processes of gateways of one agent that an owner knows: an agent may speak for 256
// gateways (package aggregation), and as many have just been restarted. With so many users of one key a request for
// tokens costs its owner 10 µs.
const MaxProcesses = 512

// Process is a gateway's process, at an agent.
type Process struct {
	Agent  string
	Number uint64
}

// Drop says why a message is dropped.
type Drop uint8

// The reasons.
const (
	Accepted    Drop = iota
	Astray           // the key is not this agent's, or the list of agents has changed; of an answer: not its sender's
	Unusable         // a number is out of its bounds
	Unknown          // no limit here has the key, or the message does not say which one
	Crowded          // there is no room for the key
	Processes        // its agent has MaxProcesses processes
	Unconfirmed      // the end of an owner of a quota: too many wait for the coordinators
	Drops
)

// String is the reason's label in metrics.
func (d Drop) String() string {
	return [Drops]string{"accepted", "astray", "unusable", "unknown", "crowded", "processes", "unconfirmed"}[d]
}

// MaxPacket bounds the messages of owners in a packet in bytes, so that the packet fits one datagram.
const MaxPacket = 1200

// At returns the value of a key, which is made if there is none.
func At[K comparable, V any](of map[K]*V, key K) *V {
	v := of[key]
	if v == nil {
		v = new(V)
		of[key] = v
	}
	return v
}

// Convert converts the messages of a list.
func Convert[A, B any](list []A, convert func(A) B) []B {
	out := make([]B, len(list))
	for i, m := range list {
		out[i] = convert(m)
	}
	return out
}

// Answers are messages of owners to processes here that wait to be sent, by process and life of the owner.
type Answers[M any] map[uint64]map[uint64]*M

// At returns the message of an owner to a process, which is made if there is none.
func (a Answers[M]) At(process, life uint64, made func() *M) *M {
	by := a[process]
	if by == nil {
		by = map[uint64]*M{}
		a[process] = by
	}
	if by[life] == nil {
		by[life] = made()
	}
	return by[life]
}

// Take returns the messages by process, and forgets them.
func (a Answers[M]) Take() map[uint64][]*M {
	out := map[uint64][]*M{}
	for process, by := range a {
		for _, life := range slices.Sorted(maps.Keys(by)) {
			out[process] = append(out[process], by[life])
		}
	}
	clear(a)
	return out
}
