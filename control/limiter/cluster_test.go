package limiter

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/claims"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// cluster is N engines on virtual time that gossip through claims.Tables.
type cluster struct {
	t        testing.TB
	rng      *rand.Rand
	now      int64
	engines  []*Engine
	agents   []*agent
	delay    int64   // of gossip
	loss     float64 // of gossip
	mail     []letter
	sources  []*source
	waiting  map[uint64]*asked
	serial   uint64
	log      []answer
	epoch    int64
	isolated []bool
	phases   []int64 // when in a period each publishes and receives
	stopped  map[int]*stopped
}

type agent struct {
	keys, flows   *claims.Table
	known, knownF map[uint64]bool
	seq           uint64
	generation    uint64
	life          uint32 // of the agent
	last          map[uint64]claims.Record
}

type letter struct {
	at          int64
	from        int
	keys, flows []claims.Record
}

// source is a stream of requests.
type source struct {
	req    Request
	rate   func(t float64) float64 // offered requests/s at time t
	pick   func(t float64) int     // gateway
	steady bool                    // evenly spaced, otherwise Poisson
	next   int64
	after  func() // each request
}

type asked struct {
	src    *source
	gw     int
	at     int64
	handle Handle
}

type answer struct {
	src    *source
	gw     int
	at     int64 // of the answer
	asked  int64
	out    Outcome
	direct bool
}

func constant(r float64) func(float64) float64 { return func(float64) float64 { return r } }
func pinned(i int) func(float64) int           { return func(float64) int { return i } }

func newCluster(t testing.TB, n int, c *config.Config, o Options) *cluster {
	cl := &cluster{
		t: t, rng: rand.New(rand.NewPCG(1, 2)), now: sec, delay: 20 * ms,
		waiting: map[uint64]*asked{}, isolated: make([]bool, n), stopped: map[int]*stopped{},
	}
	for i := range n {
		o.Replica = string(rune('a' + i))
		if o.Keys == 0 {
			o.Keys = 4096
		}
		e := New(o)
		if err := e.Apply(c); err != nil {
			t.Fatal(err)
		}
		cl.engines = append(cl.engines, e)
		cl.agents = append(cl.agents, newAgent(1))
		cl.phases = append(cl.phases, int64(i)*7*ms) // agents are not in step
	}
	for i := range n {
		cl.sendSums(i)
	}
	return cl
}

func newAgent(generation uint64) *agent {
	return &agent{
		keys: claims.New(claims.Params{Stale: 5, Forget: 10}), flows: claims.New(claims.Params{Stale: 5, Forget: 10}),
		known: map[uint64]bool{}, knownF: map[uint64]bool{}, last: map[uint64]claims.Record{}, generation: generation,
	}
}

// replace puts a new gateway with a new agent, which knows nothing, in the place of one.
func (c *cluster) replace(i int, config *config.Config) {
	c.engines[i] = New(Options{Keys: 4096, Replica: string(rune('a' + i))})
	mustApply(c.t, c.engines[i], config)
	c.agents[i] = newAgent(c.agents[i].generation + 1)
	c.mail = slices.DeleteFunc(c.mail, func(l letter) bool { return l.from == i })
	c.sendSums(i)
}

// weighted picks a gateway at random in the given proportions.
func (c *cluster) weighted(w ...float64) func(float64) int {
	total := 0.0
	for _, x := range w {
		total += x
	}
	return func(float64) int {
		x := c.rng.Float64() * total
		for i := range w {
			if x -= w[i]; x < 0 {
				return i
			}
		}
		return len(w) - 1
	}
}

func (c *cluster) source(tenant, client, pool string, rate func(float64) float64, pick func(float64) int) *source {
	s := &source{req: Request{Tenant: tenant, Client: client, Pool: pool, Cost: 1}, rate: rate, pick: pick, next: c.now}
	c.sources = append(c.sources, s)
	return s
}

func (c *cluster) share(tenant, pool string, v float64) {
	c.epoch++
	for _, e := range c.engines {
		sh := &exchange.Shares{Epoch: c.epoch}
		for name, x := range e.shares.Load().flows {
			sh.Flows = append(sh.Flows, exchange.Share{Tenant: name.tenant, Pool: name.pool, Share: x.share})
		}
		sh.Flows = append(sh.Flows, exchange.Share{Tenant: tenant, Pool: pool, Share: v})
		e.SetShares(sh)
	}
}

// run lets d of virtual time pass.
func (c *cluster) run(d time.Duration) {
	end := c.now + int64(d)
	for c.now < end {
		c.now += ms
		for _, s := range c.sources {
			c.offer(s)
		}
		if c.now%(5*ms) == 0 {
			c.tick()
		}
		c.deliver()
		for i := range c.engines {
			if (c.now+c.phases[i])%(50*ms) == 0 {
				c.publish(i)
				c.sendSums(i)
			}
		}
	}
}

func (c *cluster) offer(s *source) {
	for s.next <= c.now {
		r := s.rate(float64(s.next) / 1e9)
		if r <= 0 {
			s.next = c.now + ms
			return
		}
		at := s.next
		gap := 1.0
		if !s.steady {
			gap = c.rng.ExpFloat64()
		}
		s.next += max(1, int64(gap/r*1e9))
		if r := s.rate(float64(at) / 1e9); r > 0 {
			c.ask(s, s.pick(float64(at)/1e9), at)
			if s.after != nil {
				s.after()
			}
		}
	}
}

func (c *cluster) ask(s *source, gw int, at int64) {
	e := c.engines[gw]
	out := e.Decide(at, &s.req)
	direct := true
	if out.Verdict == Wait {
		direct = false
		c.serial++
		a := &asked{src: s, gw: gw, at: at}
		out, a.handle = e.Enqueue(at, &s.req, c.serial)
		if out.Verdict == Wait {
			c.waiting[c.serial] = a
			return
		}
	}
	c.log = append(c.log, answer{s, gw, at, at, out, direct})
}

func (c *cluster) tick() {
	for i, e := range c.engines {
		if !e.Busy() && c.now%(50*ms) != 0 || c.stopped[i] != nil {
			continue
		}
		for _, ev := range e.Tick(c.now, nil) {
			a := c.waiting[ev.Ticket]
			if a == nil || a.gw != i {
				c.t.Fatalf("event for ticket %d that does not wait", ev.Ticket)
			}
			delete(c.waiting, ev.Ticket)
			if int64(ev.Outcome.Waited) != c.now-a.at {
				c.t.Fatalf("waited %v, want %v", ev.Outcome.Waited, c.now-a.at)
			}
			c.log = append(c.log, answer{a.src, i, c.now, a.at, ev.Outcome, false})
		}
	}
}

func (c *cluster) publish(i int) {
	var cl exchange.Claims
	if c.stopped[i] == nil {
		c.engines[i].Claims(c.now, &cl)
	}
	ag := c.agents[i]
	ag.seq++
	l := letter{at: c.now + c.delay, from: i}
	for _, k := range cl.Keys {
		ag.last[k.Key] = claims.Record{KeyClaim: k, Generation: ag.generation, Seq: ag.seq}
	}
	for _, f := range cl.Flows {
		k := exchange.KeyClaim{Key: f.Key, Claim: f.Claim, Active: f.Active, Unsaturated: f.Unsaturated}
		ag.last[f.Key] = claims.Record{KeyClaim: k, Generation: ag.generation, Seq: ag.seq}
		ag.knownF[f.Key] = true
	}
	for _, w := range cl.Withdrawn {
		r := ag.last[w]
		r.Seq, r.Claim, r.Active, r.Unsaturated, r.Spent, r.Own = ag.seq, 0, 0, 0, 0, 0
		ag.last[w] = r
	}
	for k, r := range ag.last { // the latest state, all of it
		if ag.knownF[k] {
			l.flows = append(l.flows, r)
		} else {
			l.keys = append(l.keys, r)
		}
	}
	c.mail = append(c.mail, l)
}

func (c *cluster) deliver() {
	keep := c.mail[:0]
	for _, l := range c.mail {
		if l.at > c.now {
			keep = append(keep, l)
			continue
		}
		for i, ag := range c.agents {
			if i == l.from || c.isolated[i] || c.isolated[l.from] || c.rng.Float64() < c.loss {
				continue
			}
			ag.keys.Heard(claims.Peer(l.from), float64(c.now)/1e9)
			for _, r := range l.keys {
				ag.known[r.Key] = true
				if _, err := ag.keys.Apply(claims.Peer(l.from), float64(c.now)/1e9, r); err != nil {
					c.t.Fatal(err)
				}
			}
			for _, r := range l.flows {
				ag.knownF[r.Key] = true
				if _, err := ag.flows.Apply(claims.Peer(l.from), float64(c.now)/1e9, r); err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
	c.mail = keep
}

func (c *cluster) sendSums(i int) {
	n := len(c.engines)
	ag := c.agents[i]
	s := &exchange.Sums{Full: true, Replicas: n, TotalWeight: float64(n), Weight: 1,
		Lag: time.Duration(c.delay) + 70*time.Millisecond}
	at := float64(c.now) / 1e9
	for k := range ag.known {
		sum := ag.keys.Sums(k, claims.Peer(i), at)
		if sum.Epoch != 0 {
			sum.Epoch += 1000 * ag.life
		}
		s.Keys = append(s.Keys, sum)
	}
	for k := range ag.knownF {
		x := ag.flows.Sums(k, claims.Peer(i), at)
		s.Flows = append(s.Flows, exchange.FlowSum{Key: k, Claims: x.Claims, Active: x.Active,
			Unsaturated: x.Unsaturated})
	}
	slices.SortFunc(s.Keys, func(a, b exchange.KeySum) int { return int(a.Key>>33) - int(b.Key>>33) })
	if st := c.stopped[i]; st != nil {
		st.unread = append(st.unread, s)
		return
	}
	c.engines[i].SetSums(c.now, s)
}

// tally counts the outcomes of a source's requests in a window of time.
type tally struct {
	offered, admitted, rejected, marked int
	reasons                             map[Reason]int
	wait50, wait99, waitMean            time.Duration
	rate                                float64 // admitted per second
}

func (c *cluster) tally(from, to int64, match func(answer) bool) tally {
	r := tally{reasons: map[Reason]int{}}
	var waits []time.Duration
	for _, a := range c.log {
		if a.at < from || a.at >= to || !match(a) {
			continue
		}
		r.offered++
		if a.out.Verdict == Reject {
			r.rejected++
			r.reasons[a.out.Reason]++
			continue
		}
		r.admitted++
		if a.out.Mark {
			r.marked++
		}
		waits = append(waits, a.out.Waited)
		r.waitMean += a.out.Waited
	}
	if len(waits) > 0 {
		slices.Sort(waits)
		r.wait50, r.wait99 = waits[len(waits)/2], waits[len(waits)*99/100]
		r.waitMean /= time.Duration(len(waits))
	}
	r.rate = float64(r.admitted) / (float64(to-from) / 1e9)
	return r
}

func of(s *source) func(answer) bool { return func(a answer) bool { return a.src == s } }
func tenantIs(n string) func(answer) bool {
	return func(a answer) bool { return a.src.req.Tenant == n }
}

// excess is the most that was admitted in any window t beyond rate·t + burst.
func (c *cluster) excess(match func(answer) bool, rate, burst float64) float64 {
	var at []int64
	for _, a := range c.log {
		if match(a) && a.out.Verdict == Admit {
			at = append(at, a.at)
		}
	}
	slices.Sort(at)
	// Largest over i ≤ j of (j−i+1) − rate·(t_j−t_i) − burst, in one pass.
	worst, low := math.Inf(-1), math.Inf(1)
	for i, t := range at {
		x := float64(i) - rate*float64(t)/1e9
		low = min(low, x)
		worst = max(worst, x+1-low-burst)
	}
	return worst
}
