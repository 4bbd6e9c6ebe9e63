package workload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
)

// Plan is the number of gateways, keys and flows, and their use.
type Plan struct {
	// Gateways are all synthetic gateways that are ever there.
	Gateways int
	// Keys are the contended keys.
	Keys int
	// Users is the number of gateways that use a key; 0 or more than Gateways: all.
	Users int
	// Rate is a key's requests per second, of all its users together.
	Rate float64
	// Flows are used by all gateways.
	Flows int
}

// flowRate is the rate that a gateway claims of a flow, cost units/s. Gateways add their number, so that no two
// claims are equal.
const flowRate = 10

// Fleet is all synthetic gateways.
type Fleet struct {
	Gateways []*Gateway
	users    [][]seat       // by number of the key
	numbers  map[uint64]int // of keys
}

// seat is a gateway's use of a key.
type seat struct {
	gateway *Gateway
	at      int // in its list of keys
}

// New makes the gateways of a plan. None is there yet.
func New(p Plan) (*Fleet, error) {
	if p.Gateways < 1 || p.Keys < 0 || p.Users < 0 || !(p.Rate > 0) || p.Flows < 0 {
		return nil, fmt.Errorf("workload: cannot plan %+v: want at least one gateway, a rate above 0, and no "+
			"number below 0", p)
	}
	f := &Fleet{numbers: make(map[uint64]int, p.Keys)}
	for i := range p.Gateways {
		f.Gateways = append(f.Gateways, newGateway(p, i))
	}
	users := min(cmp.Or(p.Users, p.Gateways), p.Gateways)
	for k := range p.Keys {
		rate := p.Rate / float64(users)
		f.use(id(uint64(k)), rate, choose(uint64(k), users, p.Gateways))
	}
	for _, g := range f.Gateways {
		g.perSecond = float64(len(g.keys)) * p.Rate / float64(users)
	}
	return f, nil
}

// use gives a key to its users. Their claims differ by up to a tenth, so that a sum without one user's claim
// differs from a sum without another's.
func (f *Fleet) use(key uint64, rate float64, gateways []int) {
	var seats []seat
	for _, i := range gateways {
		g := f.Gateways[i]
		seats = append(seats, seat{g, len(g.keys)})
		g.add(key, rate*(1+float64(id(key+uint64(i))%100)/1000))
	}
	f.numbers[key] = len(f.users)
	f.users = append(f.users, seats)
}

// UsersOf are the numbers of the gateways that use the n-th key.
func (f *Fleet) UsersOf(n int) (gateways []int) {
	for _, s := range f.users[n] {
		gateways = append(gateways, s.gateway.Number)
	}
	return gateways
}

// choose draws n of so many gateways, the same for a key each time.
func choose(key uint64, n, of int) []int {
	r := rand.New(rand.NewPCG(key, 0x666c656574))
	if 2*n > of {
		return r.Perm(of)[:n]
	}
	var chosen []int
	seen := make(map[int]bool, n)
	for len(chosen) < n {
		if i := r.IntN(of); !seen[i] {
			seen[i] = true
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// firstFlow is the number of the first flow; keys are numbered from 0.
const firstFlow = 1 << 40

// id spreads numbers as the hashes of names are (splitmix64).
func id(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
