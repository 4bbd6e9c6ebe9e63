package delivery

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
)

// keptMembers is the number of lists of members that are kept to send agents the difference. More memory serves agents
// that miss more rounds.
const keptMembers = 16

// membership is a list of members, by name.
type membership struct {
	version uint64 // of the list, 0 = there was none
	list    []allocation.Replica
}

// newMembership gives a list its version, which depends on nothing else.
func newMembership(list []allocation.Replica) membership {
	h := fnv.New64a()
	var number [8]byte
	for _, r := range list {
		h.Write([]byte(r.Name))
		h.Write([]byte{0})
		h.Write([]byte(r.Gossip))
		binary.LittleEndian.PutUint64(number[:], math.Float64bits(r.Weight))
		h.Write(number[:])
	}
	return membership{max(h.Sum64(), 1), list}
}

// publishMembers takes a list of members.
func (p *Publisher) publishMembers(list []allocation.Replica) {
	if p.members.version != 0 && slices.Equal(list, p.members.list) {
		return
	}
	if p.members.version != 0 {
		p.past = append(p.past, p.members)
		p.past = p.past[max(len(p.past)-keptMembers, 0):]
	}
	p.members = newMembership(list)
}

// addMembers adds to a message what an agent lacks that holds the list of a version.
func (p *Publisher) addMembers(m *controlv1.Leases, version uint64) {
	m.MembersVersion = p.members.version
	if version == p.members.version {
		return
	}
	i := slices.IndexFunc(p.past, func(q membership) bool { return q.version == version })
	if i < 0 {
		m.Members = replicas(p.members.list)
		return
	}
	m.MembersBase = version
	old, now := p.past[i].list, p.members.list
	for len(old) > 0 || len(now) > 0 {
		switch side := compare(old, now); {
		case side < 0:
			m.MembersRemoved, old = append(m.MembersRemoved, old[0].Name), old[1:]
		case side > 0:
			m.Members, now = append(m.Members, replica(now[0])), now[1:]
		default:
			if old[0] != now[0] {
				m.Members = append(m.Members, replica(now[0]))
			}
			old, now = old[1:], now[1:]
		}
	}
}

// compare says which of two lists, of which one may be empty, has the next name.
func compare(a, b []allocation.Replica) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return cmp.Compare(a[0].Name, b[0].Name)
}

func replicas(list []allocation.Replica) []*controlv1.Replica {
	out := make([]*controlv1.Replica, len(list))
	for i, r := range list {
		out[i] = replica(r)
	}
	return out
}

func replica(r allocation.Replica) *controlv1.Replica {
	return &controlv1.Replica{Name: r.Name, Weight: r.Weight, Gossip: r.Gossip}
}
