package drc

import (
	"container/heap"
	"math"
	"math/rand/v2"

	"github.com/titrate/titrate/control/exchange"
)

// mesh is a small discrete-event simulation of N ledgers that gossip with
// random delay and loss. It is the test bench of the ledger's vectors.
type mesh struct {
	now      float64
	rng      *rand.Rand
	period   float64
	delay    [2]float64 // uniform, s
	loss     float64
	cut      func(from, to int, now float64) bool
	hold     bool // count unreachable peers at their last claim (strict partition)
	nodes    []*node
	queue    events
	seq      int
	log      []admission // all admissions, in time order
	offers   int
	arrivals []float64 // all offers, for comparison with a central bucket
}

type node struct {
	ledger Ledger
	peers  []LedgerClaim // latest received of each
	heard  []float64     // when
	gap    float64       // the last silence that has ended, s
	ended  float64       // when
	rejects,
	admits int
}

type admission struct{ at, cost float64 }

type event struct {
	at  float64
	seq int
	do  func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// newMesh starts n idle ledgers at t = 0 with gossip every period.
func newMesh(n int, p LedgerParams, period, delayMin, delayMax float64, seed uint64) *mesh {
	m := &mesh{rng: rand.New(rand.NewPCG(seed, 1)), period: period, delay: [2]float64{delayMin, delayMax}}
	p.Replicas = float64(n)
	for i := range n {
		m.nodes = append(m.nodes, &node{
			ledger: NewLedger(p, 0), peers: make([]LedgerClaim, n), heard: make([]float64, n),
		})
		m.after(period*m.rng.Float64(), func() { m.gossip(i) })
	}
	return m
}

func (m *mesh) after(d float64, do func()) {
	m.seq++
	heap.Push(&m.queue, event{m.now + d, m.seq, do})
}

func (m *mesh) gossip(from int) {
	c := m.nodes[from].ledger.Publish(m.now)
	for to := range m.nodes {
		if to == from || m.rng.Float64() < m.loss || m.cut != nil && m.cut(from, to, m.now) {
			continue
		}
		m.after(m.delay[0]+(m.delay[1]-m.delay[0])*m.rng.Float64(), func() { m.hear(to, from, c) })
	}
	m.after(m.period, func() { m.gossip(from) })
}

func (m *mesh) hear(to, from int, c LedgerClaim) {
	n := m.nodes[to]
	if c.Admitted >= n.peers[from].Admitted {
		n.peers[from] = c
	}
	if quiet := m.now - n.heard[from]; quiet > 0.5 {
		n.gap, n.ended = quiet, m.now
	}
	n.heard[from] = m.now
	n.ledger.Hear(m.now, m.sums(to))
}

// sums is the agent's part: unheard peers (.5 s) go on at their last claim.
func (m *mesh) sums(to int) LedgerSums {
	n := m.nodes[to]
	var s LedgerSums
	if m.now-n.ended < exchange.Late {
		s.Gap = n.gap
	}
	for j, c := range n.peers {
		s.Admitted += c.Admitted
		if quiet := m.now - n.heard[j]; m.hold && quiet > 0.5 && j != to {
			s.Admitted += c.Claim * quiet
		}
		s.Claims += c.Claim
		s.Active += c.Active
		s.Unsaturated += c.Unsaturated
	}
	return s
}

func (m *mesh) offer(at int, cost float64) bool {
	m.offers++
	m.arrivals = append(m.arrivals, m.now)
	n := m.nodes[at]
	if !n.ledger.Take(m.now, cost, m.rng.Float64()) {
		n.rejects++
		return false
	}
	n.admits++
	m.log = append(m.log, admission{m.now, cost})
	return true
}

// poisson offers unit requests at a replica, from start on.
func (m *mesh) poisson(at int, rate, start float64) {
	var next func()
	next = func() {
		m.offer(at, 1)
		m.after(m.rng.ExpFloat64()/rate, next)
	}
	m.after(start+m.rng.ExpFloat64()/rate, next)
}

// periodic offers unit requests at equal distances, at replica pick(i).
func (m *mesh) periodic(rate, start float64, pick func(i int) int) {
	i, begin := 0, m.now+start
	var next func()
	next = func() {
		m.offer(pick(i), 1)
		i++
		m.after(begin+float64(i)/rate-m.now, next) // errors of rounding must not add up
	}
	m.after(start, next)
}

func (m *mesh) run(until float64) {
	for len(m.queue) > 0 && m.queue[0].at <= until {
		e := heap.Pop(&m.queue).(event)
		m.now = e.at
		e.do()
	}
	m.now = until
}

// admitted returns the cost admitted in [from, to).
func (m *mesh) admitted(from, to float64) float64 {
	s := 0.0
	for _, a := range m.log {
		if a.at >= from && a.at < to {
			s += a.cost
		}
	}
	return s
}

// excess returns the largest admitted − r·T − b over all windows in [from, to):
// the depth that a fluid bucket of rate r would have needed, less b.
func (m *mesh) excess(r, b, from, to float64) float64 {
	level, last, worst := 0.0, from, 0.0
	for _, a := range m.log {
		if a.at < from || a.at >= to {
			continue
		}
		level = math.Max(0, level-r*(a.at-last)) + a.cost
		last = a.at
		worst = math.Max(worst, level)
	}
	return worst - b
}

// central returns what one bucket in front of all replicas would have admitted
// of the same unit arrivals in [from, to).
func (m *mesh) central(r, b, from, to float64) float64 {
	g, tat, n := GCRA{Rate: r, Burst: b}, int64(0), 0.0
	for _, at := range m.arrivals {
		next, ok := g.Take(tat, int64(at*1e9), 1)
		if tat = next; ok && at >= from && at < to {
			n++
		}
	}
	return n
}

func (m *mesh) rejects() int {
	n := 0
	for _, x := range m.nodes {
		n += x.rejects
	}
	return n
}
