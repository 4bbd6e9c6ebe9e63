package traffic

import (
	"container/heap"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/lab/simulate/scenario"
)

// Request is one request.
type Request struct {
	At      time.Duration
	Client  int32 // place in Cast.Clients
	Gateway int32 // place in Cast.Gateways
	Cost    float64
	Central bool // one central bucket per key would have admitted it
	// Within reports in addition that the client's whole demand so far stays within rate and burst: to reject
	// this request for a limit is wrongful. See judge.Bucket.Count.
	Within bool
}

// Source makes the requests of a scenario in order of time.
type Source struct {
	cast    *Cast
	end     float64
	streams streams
	up      []bool
	there   []int          // places of the gateways that are up
	central []judge.Bucket // by key: the admitted requests
	wanted  []judge.Bucket // by key: all that is asked for
}

// stream is one client's requests to come.
type stream struct {
	client int32
	next   float64 // seconds; +Inf: no more
	cost   float64
	demand *scenario.Demand
	route  *scenario.Route
	random *rand.Rand
	turn   int
	home   int // place of the gateway that the client is pinned to
	shares []share
	trace  []scenario.Arrival // left
}

// share is a gateway's weight in a stream's route.
type share struct {
	gateway int
	weight  float64
}

// sharesOf are the weights of a route, in the order of the gateways.
func sharesOf(r *scenario.Route, gateways []string) (out []share) {
	if len(r.Weights) == 0 {
		return nil
	}
	for g, name := range gateways {
		if w := r.Weights[name]; w > 0 {
			out = append(out, share{g, w})
		}
	}
	return out
}

// NewSource starts the clients of a checked scenario; up are the gateways that are up at first.
func NewSource(s *scenario.Scenario, c *Cast, up []bool) *Source {
	src := &Source{cast: c, end: s.Duration.Seconds(), up: slices.Clone(up), central: make([]judge.Bucket, len(c.Keys)),
		wanted: make([]judge.Bucket, len(c.Keys))}
	src.Refresh(0)
	src.list()
	var shares []share
	home := -1
	for i := range c.Clients {
		group := &s.Clients[c.origin[i]]
		st := &stream{client: int32(i), cost: group.Cost, demand: &group.Demand, route: &group.Route,
			random: randomOf(s.Seed, &c.Clients[i], group.Name)}
		if i == 0 || c.origin[i] != c.origin[i-1] {
			shares, home = sharesOf(&group.Route, c.Gateways), slices.Index(c.Gateways, group.Route.Replica)
		}
		st.shares, st.home = shares, home
		st.turn = st.random.IntN(max(1, len(c.Gateways)))
		for _, a := range group.Demand.Trace {
			if a.Client == c.Clients[i].Name {
				st.trace = append(st.trace, a)
			}
		}
		if len(group.Demand.Trace) > 0 {
			st.advance(src.end)
		} else {
			st.next = st.demand.Next(0, st.gap(true), src.end)
		}
		if st.next < src.end {
			src.streams = append(src.streams, st)
		}
	}
	heap.Init(&src.streams)
	return src
}

// randomOf is a client's own random numbers.
func randomOf(seed uint64, c *Client, group string) *rand.Rand {
	h := fnv.New64a()
	for _, part := range []string{group, c.Tenant, c.Pool, c.Name} {
		_, _ = h.Write([]byte(part)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// gap is the demand that passes until the next request. The first of an even
// stream comes anywhere within one, or all clients would act in step.
func (s *stream) gap(first bool) float64 {
	switch {
	case s.demand.Random:
		return s.random.ExpFloat64()
	case first:
		return s.random.Float64()
	}
	return 1
}

// advance finds the next request.
func (s *stream) advance(end float64) {
	if len(s.demand.Trace) == 0 {
		s.next = s.demand.Next(s.next, s.gap(false), end)
		return
	}
	s.next = math.Inf(1)
	if len(s.trace) > 0 {
		s.next, s.cost, s.trace = s.trace[0].At.Seconds(), s.trace[0].Cost, s.trace[1:]
	}
}

// Next appends the requests before until to out.
func (s *Source) Next(until time.Duration, out []Request) []Request {
	for len(s.streams) > 0 && s.streams[0].next < until.Seconds() {
		st := s.streams[0]
		r := Request{At: time.Duration(st.next * 1e9), Client: st.client, Cost: st.cost}
		if r.At >= until { // rounding
			return out
		}
		r.Gateway = int32(s.pick(st, r.At))
		r.Central, r.Within = s.conforms(&s.cast.Clients[st.client], r.At, r.Cost)
		out = append(out, r)
		st.advance(s.end)
		if st.next < s.end {
			heap.Fix(&s.streams, 0)
		} else {
			heap.Pop(&s.streams)
		}
	}
	return out
}

// conforms asks the central buckets of all keys of a client.
func (s *Source) conforms(c *Client, t time.Duration, cost float64) (central, within bool) {
	central, within = true, true
	for _, k := range c.Keys {
		central = s.central[k].Fits(t, cost) && central
		within = s.wanted[k].Count(t, cost) && within
	}
	if central {
		for _, k := range c.Keys {
			s.central[k].Charge(cost)
		}
	}
	return central, central && within
}

// SetUp notes that a gateway is up, or no longer up.
func (s *Source) SetUp(gateway int, up bool) {
	s.up[gateway] = up
	s.list()
}

// list lists the gateways that are up.
func (s *Source) list() {
	s.there = s.there[:0]
	for g, up := range s.up {
		if up {
			s.there = append(s.there, g)
		}
	}
}

// Refresh takes over the numbers of the cast's keys at a time.
func (s *Source) Refresh(now time.Duration) {
	for i, k := range s.cast.Keys {
		s.central[i].Set(now, k.Rate, k.Burst)
		s.wanted[i].Set(now, k.Rate, k.Burst)
	}
}

// pick is the gateway that a request goes to.
func (s *Source) pick(st *stream, t time.Duration) int {
	switch st.route.Kind {
	case scenario.Pinned:
		return s.from(st.home)
	case scenario.Moving:
		return s.nth(st.turn + int(t/st.route.Every))
	case scenario.RoundRobin:
		st.turn++
		return s.nth(st.turn)
	}
	return s.draw(st)
}

// from is the first gateway that is up, from one on.
func (s *Source) from(gateway int) int {
	for i := range s.up {
		if g := (gateway + i) % len(s.up); s.up[g] {
			return g
		}
	}
	return gateway
}

// nth returns the n-th gateway that is up, counted modulo their number.
func (s *Source) nth(n int) int {
	if len(s.there) == 0 {
		return 0
	}
	return s.there[n%len(s.there)]
}

// draw picks at random by the route's weights; evenly without any, or if all that
// have one are down.
func (s *Source) draw(st *stream) int {
	x := st.random.Float64()
	if len(st.route.Weights) == 0 {
		return s.nth(int(x * float64(len(s.there))))
	}
	total := 0.0
	for _, h := range st.shares {
		if s.up[h.gateway] {
			total += h.weight
		}
	}
	if total == 0 {
		return s.nth(int(x * float64(len(s.up))))
	}
	last := 0
	x *= total
	for _, h := range st.shares {
		if s.up[h.gateway] {
			last = h.gateway
			if x -= h.weight; x < 0 {
				return h.gateway
			}
		}
	}
	return last
}

// streams is a heap by time, of one time by client.
type streams []*stream

func (h streams) Len() int { return len(h) }
func (h streams) Less(i, j int) bool {
	if h[i].next != h[j].next {
		return h[i].next < h[j].next
	}
	return h[i].client < h[j].client
}
func (h streams) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *streams) Push(x any)   { *h = append(*h, x.(*stream)) }
func (h *streams) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	*h = (*h)[:last]
	return s
}
