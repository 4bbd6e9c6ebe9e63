package exact

import "time"

// The limit of each client, which states EXACT.
const (
	Rate  = .02 // requests/s
	Burst = 10  // requests
)

// What clients ask for. The first request of a client costs so much that its bucket is not whole again within
// eight minutes: a key with a whole bucket is forgotten. From then on the client asks for less than its limit allows.
const (
	firstCost = 3
	period    = time.Duration(1e9 / (.8 * Rate)) // between two requests of a client
	// newKeys is the number of clients per second that come to a gateway at first. A gateway asks owners 20,000
	// questions a second; four limits may use 3/16 each (package control/budget).
	newKeys = 5000
	// spread: one of so many clients goes to all gateways in turn. The others keep to one.
	spread = 20
)

// plan is the order of a gateway's requests: all clients in turn, over and over.
type plan struct {
	home     int // place of the gateway
	gateways int // that have clients
	keys     int // clients
	sent     int // requests so far
}

// request is a request that is due.
type request struct {
	client  int
	gateway int // place of the gateway that it goes to
	cost    float64
}

// begins returns the time at which all clients have asked once.
func (p *plan) begins() time.Duration {
	return time.Duration(float64(p.keys) / newKeys * float64(time.Second))
}

// due returns how many requests are due within t since the start.
func (p *plan) due(t time.Duration) int {
	begins := p.begins()
	if t < begins {
		return int(t.Seconds() * newKeys)
	}
	return p.keys + int((t-begins).Seconds()/period.Seconds()*float64(p.keys))
}

// next returns the next request.
func (p *plan) next() request {
	round, client := p.sent/p.keys, p.sent%p.keys
	p.sent++
	r := request{client: client, gateway: p.home, cost: 1}
	if round == 0 {
		r.cost = firstCost
	}
	if client%spread == 0 {
		r.gateway = (p.home + round) % p.gateways
	}
	return r
}
