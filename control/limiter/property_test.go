package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"
)

// model is what an engine must agree with, whatever happens to it.
type model struct {
	e                         *Engine
	now                       int64
	asked, admitted, rejected int
	cancelled                 int
	admittedCost              int64
	waiting                   map[uint64]*waiter
	order                     map[string][]uint64 // tickets that wait, by client
	serial                    uint64
	served                    []Request // admitted, not settled
}

type waiter struct {
	client string
	cost   int64
	handle Handle
}

// never-refilling limit: what it holds as spent is what it was charged.
const (
	ledgerBurst = 2000
	ledgerRate  = 1e-6
)

func newModel(t *rapid.T) *model {
	e := New(Options{Keys: 1024})
	law := rapid.SampledFrom([]config.Law{config.VariableStructure, config.DropTail, config.Police, config.CoDel}).Draw(t, "law")
	conf := simple(rapid.Float64Range(20, 2000).Draw(t, "capacity"),
		config.Queue{Law: law, MaxRequests: rapid.IntRange(1, 60).Draw(t, "most"), MaxWait: 300 * time.Millisecond, DelayTarget: 100 * time.Millisecond},
		config.Limit{Name: "all", PerTenant: true, Rate: ledgerRate, Burst: ledgerBurst},
		config.Limit{Name: "client", Rate: 40, Burst: 5, Queue: config.Queue{MaxRequests: 20, MaxWait: 400 * time.Millisecond}},
		config.Limit{Name: "police", Rate: 200, Burst: 30})
	conf.Tenants[0].Quotas = []config.Quota{{Pool: "api", Max: config.Unbounded, Mode: rapid.SampledFrom([]config.Mode{config.Enforce, config.Enforce, config.Shadow}).Draw(t, "mode")}}
	if err := e.Apply(conf); err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "contended") {
		e.SetSums(sec, &exchange.Sums{Replicas: 2, TotalWeight: 2, Lag: 100 * time.Millisecond})
	}
	return &model{e: e, now: sec, waiting: map[uint64]*waiter{}, order: map[string][]uint64{}}
}

func (m *model) ask(t *rapid.T) {
	r := &Request{
		Tenant: "a", Pool: "api", Client: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "client"),
		Cost: float64(rapid.IntRange(1, 4).Draw(t, "cost")),
	}
	cost := r.cost()
	m.asked++
	out := m.e.Decide(m.now, r)
	if out.Verdict == Wait {
		m.serial++
		var h Handle
		out, h = m.e.Enqueue(m.now, r, m.serial)
		if out.Verdict == Wait {
			m.waiting[m.serial] = &waiter{r.Client, cost, h}
			m.order[r.Client] = append(m.order[r.Client], m.serial)
			return
		}
	}
	if out.Verdict == Admit {
		m.admit(r.Client, cost)
		if n := len(m.order[r.Client]); n > 0 {
			t.Fatalf("a request of %s overtook %d earlier ones", r.Client, n)
		}
		return
	}
	m.rejected++
}

func (m *model) admit(client string, cost int64) {
	m.admitted++
	m.admittedCost += cost
	m.served = append(m.served, Request{Tenant: "a", Pool: "api", Client: client, Cost: units(cost)})
}

// settle tells what one of the admitted requests has cost in truth.
func (m *model) settle(t *rapid.T) {
	if len(m.served) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.served)-1).Draw(t, "request")
	r := m.served[i]
	m.served = append(m.served[:i:i], m.served[i+1:]...)
	actual := rapid.SampledFrom([]float64{0, 0.5, 1, 2, 7, 30}).Draw(t, "actual")
	m.e.Settle(m.now, &r, actual)
	m.admittedCost += int64(actual*unit) - r.cost()
}

func (m *model) tick(t *rapid.T) {
	m.now += rapid.Int64Range(0, 60*ms).Draw(t, "dt")
	for _, ev := range m.e.Tick(m.now, nil) {
		w := m.waiting[ev.Ticket]
		if w == nil {
			t.Fatalf("event for %d, which does not wait", ev.Ticket)
		}
		if ev.Outcome.Verdict == Admit {
			m.admit(w.client, w.cost)
			if first := m.order[w.client][0]; first != ev.Ticket {
				t.Fatalf("%s: ticket %d released before %d", w.client, ev.Ticket, first)
			}
		} else {
			m.rejected++
		}
		m.forget(ev.Ticket)
		if m.e.Cancel(m.now, w.handle) {
			t.Fatal("cancelled after its event")
		}
	}
}

func (m *model) cancel(t *rapid.T) {
	for _, client := range []string{"x", "y", "z"} {
		tickets := m.order[client]
		if len(tickets) == 0 {
			continue
		}
		ticket := tickets[rapid.IntRange(0, len(tickets)-1).Draw(t, "which")]
		h := m.waiting[ticket].handle
		if !m.e.Cancel(m.now, h) {
			t.Fatalf("ticket %d waits but cannot be cancelled", ticket)
		}
		if m.e.Cancel(m.now, h) {
			t.Fatal("cancelled twice")
		}
		m.cancelled++
		m.forget(ticket)
		return
	}
}

func (m *model) forget(ticket uint64) {
	w := m.waiting[ticket]
	delete(m.waiting, ticket)
	for i, x := range m.order[w.client] {
		if x == ticket {
			m.order[w.client] = append(m.order[w.client][:i:i], m.order[w.client][i+1:]...)
			return
		}
	}
}

// check compares the engine with the model.
func (m *model) check(t *rapid.T) {
	if sum := m.admitted + m.rejected + m.cancelled + len(m.waiting); sum != m.asked {
		t.Fatalf("admitted %d + rejected %d + cancelled %d + waiting %d ≠ asked %d", m.admitted, m.rejected, m.cancelled, len(m.waiting), m.asked)
	}
	if int(m.e.heldNow.Load()) != len(m.waiting) {
		t.Fatalf("the engine holds %d, want %d", m.e.heldNow.Load(), len(m.waiting))
	}
	flows := m.e.live()
	if len(flows) == 0 {
		return
	}
	f := flows[0]
	reserved := int64(0)
	if f.q != nil {
		reserved = f.q.eligibleCost
		if f.q.eligible > f.queueing.MaxRequests {
			t.Fatalf("%d wait for the share, want at most %d", f.q.eligible, f.queueing.MaxRequests)
		}
		f.q.verify(t)
	}
	if spent, want := m.spent(), units(m.admittedCost+reserved); math.Abs(spent-want) > 1e-3 {
		t.Fatalf("the tenant's limit was charged %.6f, want admitted + reserved = %.6f", spent, want)
	}
	m.backlog(t, f, units(reserved))
}

// spent is what the limit that never refills was charged.
func (m *model) spent() float64 {
	c, ok := m.e.locate(TenantLimitKey(7, "a", "all"))
	if !ok {
		return 0
	}
	if full := c.full(); full != 0 {
		if s := m.e.states.at(full - 1); s.live {
			return s.ledger.Spent()
		}
	}
	return drc.SpentAt(c.tat().Load(), m.now, ledgerRate)
}

// backlog checks S = waiting − paid, when nothing is on its way to the controller.
func (m *model) backlog(t *rapid.T, f *flow, waiting float64) {
	if f.policing() || f.pending != 0 || f.credit.Load() != f.published || f.turned.Load() != 0 || f.bypassed.Load() != 0 {
		return
	}
	want := max(0, waiting-f.pacer.Credit())
	if got := f.ctl.Backlog(); math.Abs(got-want) > 1e-6 {
		t.Fatalf("S = %.9f, want waiting %.6f − credit %.6f", got, waiting, f.pacer.Credit())
	}
}

// verify walks the queue and compares its counts with what it finds.
func (q *queue) verify(t *rapid.T) {
	eligible, held := 0, 0
	cost := int64(0)
	for key, si := range q.byClient {
		s := &q.subs[si]
		if s.key != key || s.head == nobody {
			t.Fatalf("subqueue %d: key %x, want %x, with a head", si, s.key, key)
		}
		sawHeld := false
		e, h := 0, 0
		for i := s.head; i != nobody; i = q.entries[i].next {
			if en := &q.entries[i]; en.eligible {
				if sawHeld {
					t.Fatal("an eligible request stands behind a held one")
				}
				e++
				cost += en.cost
			} else {
				if !sawHeld && s.firstHeld != i {
					t.Fatal("firstHeld is not the first")
				}
				sawHeld = true
				h++
			}
		}
		if e != s.eligible || h != s.held || (e > 0) != (s.ring.next != nobody) || h > 0 && q.retry[s.due] != si {
			t.Fatalf("subqueue counts %d/%d, found %d/%d", s.eligible, s.held, e, h)
		}
		eligible += e
		held += h
	}
	verifyHeap(t, q.retry, retries{q})
	verifyHeap(t, q.ends, deadlines{q})
	if len(q.ends) != q.len() {
		t.Fatalf("%d deadlines, %d requests wait", len(q.ends), q.len())
	}
	if eligible != q.eligible || held != q.held || cost != q.eligibleCost {
		t.Fatalf("queue counts %d/%d/%d, found %d/%d/%d", q.eligible, q.held, q.eligibleCost, eligible, held, cost)
	}
}

func TestPropertyEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		var claims exchange.Claims
		t.Repeat(map[string]func(*rapid.T){
			"ask":    m.ask,
			"ask2":   func(t *rapid.T) { m.ask(t); m.ask(t); m.ask(t) },
			"tick":   m.tick,
			"cancel": m.cancel,
			"settle": m.settle,
			"claims": func(*rapid.T) { claims.Reset(); m.e.Claims(m.now, &claims) },
			"":       m.check,
		})
		for range 40 { // nothing waits for ever
			m.now += 50 * ms
			m.tick(t)
		}
		if len(m.waiting) > 0 {
			t.Fatalf("%d still wait after 2 s", len(m.waiting))
		}
		m.check(t)
		var r exchange.Report
		m.e.Report(m.now, &r)
		served := 0.0
		for _, f := range r.Flows {
			served += f.Served
		}
		if math.Abs(served-units(m.admittedCost)) > 1e-6 {
			t.Fatalf("reported %.6f served, want %.6f", served, units(m.admittedCost))
		}
	})
}

// Deficit round robin: while all wait, every client gets the same cost, within
// one request of the largest, whatever its requests cost.
func TestPropertyRoundRobinIsFairInCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(0)
		n := rapid.IntRange(2, 6).Draw(t, "clients")
		largest := int64(0)
		for c := range n {
			cost := rapid.Int64Range(1, 9).Draw(t, "cost") * unit
			largest = max(largest, cost)
			for range 60 * 9 * unit / cost {
				q.push(q.subOf(uint64(c), fmt.Sprint(c)), entry{ticket: uint64(c), cost: cost, eligible: true})
			}
		}
		got := make([]int64, n)
		for range rapid.IntRange(1, 50*n).Draw(t, "releases") {
			i := q.next(math.MaxInt64/4, 1)
			got[q.entries[i].ticket] += q.entries[i].cost
			q.serve(i)
		}
		low, high := got[0], got[0]
		for _, x := range got {
			low, high = min(low, x), max(high, x)
		}
		if high-low > 2*largest {
			t.Fatalf("served %v, want equal within two requests of %d", got, largest)
		}
	})
}

// verifyHeap holds a heap against its order and the places that it keeps.
func verifyHeap(t *rapid.T, h due, by timed) {
	for k, i := range h {
		if int(*by.at(i)) != k || by.time(h[(k-1)/2]) > by.time(i) && k > 0 {
			t.Fatalf("place %d of the heap: %d says that it is at %d, due at %d", k, i, *by.at(i), by.time(i))
		}
	}
}
