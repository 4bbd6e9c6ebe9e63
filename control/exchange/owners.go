package exchange

import "hash/fnv"

// Owners are the agents among which each key has an owner: the one with the highest score for the key
// (rendezvous hashing). When an agent comes, it takes about one key in N, from all others alike; when
// one goes, its keys are spread over the rest; no other key moves.
type Owners struct {
	// View is a number of the agent's own for this list: the gateway repeats it in
	// TokenRequests.Registered once all owners know what it holds.
	View uint64
	List []Owner
}

// Owner is an agent that owns keys.
type Owner struct {
	Hash uint64 // of its name
	Life uint64 // differs with each start of the agent, and from that of all others
}

// Of returns the life of the agent that owns a key; 0: there is none.
func (o *Owners) Of(key uint64) (life uint64) {
	most := uint64(0)
	for i := range o.List {
		if s := OwnerScore(key, o.List[i].Hash); s > most {
			life, most = o.List[i].Life, s
		}
	}
	return life
}

// OwnerHash is an agent's, for OwnerScore.
func OwnerHash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// OwnerScore returns the score of an agent for a key. The highest score owns the key.
func OwnerScore(key, agent uint64) uint64 {
	x := key ^ agent*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
