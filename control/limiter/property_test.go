package limiter

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/drc"
	"github.com/titrate/titrate/control/exchange"

	"github.com/titrate/titrate/control/limiter/internal/hash"
)

// model is a model with which an engine must agree, whatever happens to it.
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
	law := rapid.SampledFrom([]config.Law{config.VariableStructure, config.DropTail, config.Police,
		config.CoDel}).Draw(t, "law")
	conf := simple(rapid.Float64Range(20, 2000).Draw(t, "capacity"),
		config.Queue{Law: law, MaxRequests: rapid.IntRange(1, 60).Draw(t, "most"), MaxWait: 300 * time.Millisecond,
			DelayTarget: 100 * time.Millisecond},
		config.Limit{Name: "all", PerTenant: true, Rate: ledgerRate, Burst: ledgerBurst},
		config.Limit{Name: "client", Rate: 40, Burst: 5, Queue: config.Queue{MaxRequests: 20,
			MaxWait: 400 * time.Millisecond}},
		config.Limit{Name: "police", Rate: 200, Burst: 30})
	conf.Tenants[0].Quotas = []config.Quota{{Pool: "api", Max: config.Unbounded,
		Mode: rapid.SampledFrom([]config.Mode{config.Enforce, config.Enforce, config.Shadow}).Draw(t, "mode")}}
	if err := e.Apply(conf); err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "contended") {
		e.SetSums(sec, &exchange.Sums{Full: true, Replicas: 2, TotalWeight: 2, Lag: 100 * time.Millisecond})
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

// settle reports the true cost of one of the admitted requests.
func (m *model) settle(t *rapid.T) {
	if len(m.served) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.served)-1).Draw(t, "request")
	r := m.served[i]
	m.served = append(m.served[:i:i], m.served[i+1:]...)
	actual := rapid.SampledFrom([]float64{0, 0.5, 1, 2, 7, 30}).Draw(t, "actual")
	m.e.Settle(m.now, &r, Plain, actual)
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
		t.Fatalf("admitted %d + rejected %d + cancelled %d + waiting %d ≠ asked %d",
			m.admitted, m.rejected, m.cancelled, len(m.waiting), m.asked)
	}
	if int(m.e.waiting.Load()) != len(m.waiting) {
		t.Fatalf("the engine holds %d, want %d", m.e.waiting.Load(), len(m.waiting))
	}
	flows := m.e.live()
	if len(flows) == 0 {
		return
	}
	f := flows[0]
	reserved := int64(0)
	if f.queue != nil {
		reserved = f.queue.EligibleCost()
		if f.queue.Eligible() > f.terms.queueing.MaxRequests {
			t.Fatalf("%d wait for the share, want at most %d", f.queue.Eligible(), f.terms.queueing.MaxRequests)
		}
		if err := f.queue.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if spent, want := m.spent(), units(m.admittedCost+reserved); math.Abs(spent-want) > 1e-3 {
		t.Fatalf("the tenant's limit was charged %.6f, want admitted + reserved = %.6f", spent, want)
	}
	m.backlog(t, f, units(reserved))
}

// spent returns the cost charged to the limit that never refills.
func (m *model) spent() float64 {
	return spentOf(m.e, m.now, hash.TenantLimit(7, "a", "all"), ledgerRate)
}

// spentOf returns the cost that a key has spent of a limit of such a rate.
func spentOf(e *Engine, now int64, key uint64, rate float64) (spent float64) {
	e.VisitSpent(now, func(k exchange.KeySpent) {
		if k.Key == key {
			spent = drc.SpentAt(now+int64(k.Ahead), now, rate)
		}
	})
	return spent
}

// backlog checks S = waiting − paid, when nothing is on its way to the controller.
func (m *model) backlog(t *rapid.T, f *flow, waiting float64) {
	if f.terms.policing() || f.pace.pending != 0 || f.credit.amount.Load() != f.pace.published ||
		f.counts.turned.Load() != 0 || f.counts.bypassed.Load() != 0 {
		return
	}
	want := max(0, waiting-f.pace.pacer.Credit())
	if got := f.pace.controller.Backlog(); math.Abs(got-want) > 1e-6 {
		t.Fatalf("S = %.9f, want waiting %.6f − credit %.6f", got, waiting, f.pace.pacer.Credit())
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
		for range 40 { // no request waits without end
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
