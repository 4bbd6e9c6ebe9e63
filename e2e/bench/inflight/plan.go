package inflight

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/scenario"
)

// gateways that a client's requests come through.
const gateways = 3

// cell is one measurement: a limit, the mean stay of a request at the upstream, and how many requests would be in
// flight without a limit, over the limit.
type cell struct {
	limit   int
	stay    time.Duration
	wanted  float64
	crashes int // of gateways, at even intervals
	// use and wrongly are the figures on virtual time.
	use, wrongly float64
}

// cells and what control/slots reaches in them on virtual time, with three gateways.
var cells = []cell{
	{5, 5 * time.Millisecond, 1.5, 0, .99, .008},
	{20, 200 * time.Millisecond, 1, 0, .88, .006},
	{20, 200 * time.Millisecond, 1.5, 0, .97, .011},
	{200, 200 * time.Millisecond, 1.5, 0, 1, .014},
	{20, 200 * time.Millisecond, .5, 5, .98, .001},
}

// name is the tenant, and the counter's key.
func (c *cell) name() string {
	return fmt.Sprintf("c%d-%dms-%.0f", c.limit, c.stay.Milliseconds(), 100*c.wanted)
}

// rate is the requests per second over all gateways.
func (c *cell) rate() float64 { return c.wanted * float64(c.limit) / c.stay.Seconds() }

// plan is the load of a run. Each request has its own stay, so that all systems are asked for the same.
type plan struct {
	shots    []openloop.Shot
	requests [][]byte
	stays    []time.Duration
}

// Headers for the upstream: the stay there, in microseconds, and the number of the request in its plan.
const (
	stayHeader   = "x-stay"
	numberHeader = "x-number"
)

// plan draws the load of a run: a Poisson process at each gateway.
func (c *cell) plan(d time.Duration, seed uint64) *plan {
	tenant := scenario.Tenant{Name: c.name()}
	for i := range gateways {
		tenant.Clients = append(tenant.Clients, scenario.Client{Name: fmt.Sprintf("through gateway %d", i+1),
			Process: scenario.Poisson, Rates: []float64{c.rate() / gateways}})
	}
	random, p := rand.New(rand.NewPCG(seed, seed)), &plan{}
	for i, shot := range load.NewPlan(&scenario.Scenario{Seed: seed, Gateways: []scenario.Gateway{{Weight: 1}},
		Tenants: []scenario.Tenant{tenant}, Phases: []scenario.Phase{{End: d.Seconds()}}}) {
		stay := time.Duration(random.ExpFloat64() * float64(c.stay)).Truncate(time.Microsecond)
		p.shots = append(p.shots, openloop.Shot{Due: time.Duration(shot.T * 1e9), Target: int32(shot.Client),
			Request: int32(i)})
		p.stays = append(p.stays, stay)
		p.requests = append(p.requests, request(c.name(), stay, i))
	}
	return p
}

// request is a request of the cell's only client.
func request(tenant string, stay time.Duration, number int) []byte {
	plain := openloop.Request(tenant, "one")
	return fmt.Appendf(plain[:len(plain)-len("\r\n")], "%s: %d\r\n%s: %d\r\n\r\n", stayHeader, stay.Microseconds(),
		numberHeader, number)
}
