package exact

import "time"

// Burst of the limit of each client, which states EXACT, requests.
const Burst = 10

// What clients ask for. The first request of a client costs so much that its bucket is not whole again within
// eight minutes: a key with a whole bucket is forgotten. From then on the client asks for less than its limit allows.
const (
	firstCost = 3
	mostRate  = .02 // requests/s of a limit
	asked     = .8  // of its limit by each client
	// spread: one of so many clients goes to all gateways in turn. The others keep to one.
	spread = 20
)

// Bounds of the load of all gateways together. They and their agents run on one machine, and a client that is new or
// asks costs each of the agents something.
const (
	mostRequests = 15_000 // per second, times agents
	mostNew      = 45_000 // clients per second that come at first, times agents
	// mostNewEach is the bound of each gateway. It asks owners 20,000 questions a second; four limits may use
	// 3/16 each (package control/budget).
	mostNewEach = 5000
)

// Rate returns the rate of the limit of each client in requests/s, for so many gateways with so many clients each.
func Rate(gateways, clients int) float64 {
	all := float64(gateways) * float64(clients)
	return min(mostRate, mostRequests/float64(gateways)/(asked*all))
}

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

// newClients is the number of clients per second that come to the gateway at first.
func (p *plan) newClients() float64 { return min(mostNewEach, mostNew/float64(p.gateways*p.gateways)) }

// begins returns the seconds after which all clients have asked once.
func (p *plan) begins() float64 { return float64(p.keys) / p.newClients() }

// due returns how many requests are due within t since the start.
func (p *plan) due(t time.Duration) int {
	begins := p.begins()
	if t.Seconds() < begins {
		return int(t.Seconds() * p.newClients())
	}
	return p.keys + int((t.Seconds()-begins)*asked*Rate(p.gateways, p.keys)*float64(p.keys))
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
