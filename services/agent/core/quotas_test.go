package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // the zones, wherever this runs

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/applied"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"github.com/titrate/titrate/services/agent/quotas"
)

// quotaWorld has agents as they ship, each with a gateway's engine as it ships, and a coordinator that books.
type quotaWorld struct {
	t      *testing.T
	now    time.Duration
	random *rand.Rand
	agents []*quotaAgent
	mail   []letter
	book   bookkeeper

	admitted, refused map[int64]int // by period
}

type quotaAgent struct {
	*Core
	w      *quotaWorld
	name   string
	engine *limiter.Engine
	life   uint64
	poll   bool
}

type letter struct {
	at time.Duration
	do func()
}

// bookkeeper is the coordinator: it gives each session intervals, and keeps the use.
type bookkeeper struct {
	end    map[string]uint64
	given  map[string]*controlv1.Booking
	use    map[string]*controlv1.BookingRequest
	away   bool
	reset  config.Instant // of the client c
	number int64
	ends   time.Duration
	length time.Duration
}

var monthly = config.Calendar{Per: config.Day, Zone: "Europe/Berlin"}

const quotaAmount = 300

func newQuotaWorld(t *testing.T, n int) *quotaWorld {
	w := &quotaWorld{t: t, now: time.Second, random: rand.New(rand.NewPCG(1, 2)), admitted: map[int64]int{},
		refused: map[int64]int{}}
	w.book = bookkeeper{end: map[string]uint64{}, given: map[string]*controlv1.Booking{}, use: map[string]*controlv1.BookingRequest{}, number: 20_000,
		ends: time.Hour, length: 24 * time.Hour}
	for i := range n {
		w.agents = append(w.agents, &quotaAgent{w: w, name: fmt.Sprint("agent-", i)})
	}
	for _, a := range w.agents {
		w.begin(a)
	}
	for _, a := range w.agents {
		for _, b := range w.agents {
			if a != b {
				a.PeerAlive(w.now, b.name, "", true, schedule.Version)
			}
		}
	}
	w.run(200 * time.Millisecond)
	return w
}

func (w *quotaWorld) configuration() *config.Config {
	return &config.Config{Revision: 1, Seed: 7, Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{
		{Name: "monthly", Quota: &config.CalendarQuota{Amount: quotaAmount, Calendar: monthly}, Queue: config.Queue{
			Law: config.Police}}}}}}
}

func (w *quotaWorld) begin(a *quotaAgent) {
	a.life++
	a.Core = New(Options{Name: a.name, Incarnation: uint64(w.now) + a.life<<40, Period: period, T1: 10 * time.Second,
		T2: 15 * time.Second, Everybody: 16})
	c := w.configuration()
	a.perform(func() Effects {
		out, err := a.Configure(&applied.Configuration{Revision: 1, Config: c})
		if err != nil {
			w.t.Fatal(err)
		}
		return out
	})
	if a.engine == nil {
		a.engine = limiter.New(limiter.Options{Keys: 1000, Replica: a.name, Start: int64(w.now),
			Ask: func() { a.poll = true }})
		if err := a.engine.Apply(c); err != nil {
			w.t.Fatal(err)
		}
	}
	a.perform(func() Effects {
		return a.Connected(w.now, 1, link.Hello{Version: link.Version, Replica: "gw-" + a.name, Generation: 1, Weight: 1}, 0)
	})
	a.engine.LinkTokens(int64(w.now), true)
	a.engine.LinkSlots(true)
	a.engine.LinkQuotas(true)
	w.announce(a, true)
}

func (w *quotaWorld) announce(a *quotaAgent, fresh bool) {
	a.perform(func() Effects {
		return a.SetPeriods(w.now, []quotas.Period{{Calendar: monthly, Number: w.book.number, Left: w.book.ends - w.now,
			Next: w.book.length}}, fresh)
	})
}

// perform does what follows from an event of an agent.
func (a *quotaAgent) perform(f func() Effects) {
	w := a.w
	out := f()
	for _, frame := range out.Frames {
		w.after(100*time.Microsecond, func() { a.toGateway(frame.Message) })
	}
	for _, p := range out.Packets {
		to := p.To
		packet := p.Packet
		w.after(time.Duration(300+w.random.IntN(500))*time.Microsecond, func() {
			for _, b := range w.agents {
				if b.name == to {
					b.perform(func() Effects {
						_, out := b.ReceivePackets(w.now, []*gossipv1.Packet{packet}...)
						return out
					})
				}
			}
		})
	}
	for _, m := range quotas.EncodeBookings(out.Bookings) {
		w.after(time.Millisecond, func() { w.takeBookings(a, m) })
	}
}

func (w *quotaWorld) takeBookings(a *quotaAgent, m *controlv1.Bookings) {
	out := &controlv1.Booked{}
	for _, r := range m.GetRequests() {
		out.Bookings = append(out.Bookings, w.book.take(r))
	}
	life := a.life
	w.after(5*time.Millisecond, func() {
		if a.life == life {
			a.perform(func() Effects { return a.Booked(w.now, quotas.DecodeBooked(out)) })
		}
	})
}

func (k *bookkeeper) take(r *controlv1.BookingRequest) *controlv1.Booking {
	session := fmt.Sprint(r.GetSession(), r.GetPeriod())
	b := &controlv1.Booking{Tenant: r.GetTenant(), Limit: r.GetLimit(), Client: r.GetClient(), Session: r.GetSession(),
		Number: r.GetNumber(), Period: r.GetPeriod()}
	if k.away {
		b.Reason = controlv1.Booking_REASON_STORE_AWAY
		return b
	}
	k.use[session] = r
	name, key := fmt.Sprint(session, r.GetNumber()), string(r.GetClient())+fmt.Sprint(r.GetPeriod(), "/", r.GetReset_())
	had := k.given[name]
	switch {
	case r.GetWanted() == 0:
		if had != nil && r.GetReturned() != 0 && had.To == k.end[key] {
			k.end[key] = r.GetReturned()
		}
		return b
	case had != nil:
		return had
	}
	if config.Instant(r.GetReset_()) != k.reset {
		b.Reason = controlv1.Booking_REASON_NOT_CONFIGURED
		return b
	}
	b.From = max(k.end[key], r.GetKnown())
	b.To = min(b.From+r.GetWanted(), max(b.From, quotaAmount*1e6))
	if b.To < b.From+r.GetWanted() {
		b.Reason = controlv1.Booking_REASON_USED_UP
	}
	k.end[key] = b.To
	k.given[name] = b
	return b
}

// used is the cost that owners have reported for a period.
func (k *bookkeeper) used(period int64) (sum float64) {
	for _, r := range k.use {
		if r.GetPeriod() == period {
			sum += float64(r.GetSettled()) / 1e6
		}
	}
	return sum
}

func (a *quotaAgent) toGateway(m link.Message) {
	var events []limiter.Event
	switch m := m.(type) {
	case *exchange.TokenAnswers:
		events = a.engine.AnswerTokens(int64(a.w.now), m, nil)
	case *exchange.QuotaReplies:
		events = a.engine.AnswerQuotas(int64(a.w.now), m, nil)
	}
	a.count(events)
}

func (a *quotaAgent) count(events []limiter.Event) {
	for _, e := range events {
		a.decided(e.Outcome)
	}
}

func (a *quotaAgent) decided(o limiter.Outcome) {
	w := a.w
	if o.Verdict == limiter.Admit {
		w.admitted[w.book.number]++
	} else {
		w.refused[w.book.number]++
	}
}

func (w *quotaWorld) after(d time.Duration, do func()) {
	w.mail = append(w.mail, letter{w.now + d, do})
}

// run lets time pass, a millisecond at a time.
func (w *quotaWorld) run(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += time.Millisecond {
		if w.now >= w.book.ends {
			w.book.number++
			w.book.ends += w.book.length
		}
		mail := w.mail
		w.mail = nil
		for _, l := range mail {
			if l.at <= w.now {
				l.do()
			} else {
				w.mail = append(w.mail, l)
			}
		}
		for _, a := range w.agents {
			w.step(a)
		}
	}
}

func (w *quotaWorld) step(a *quotaAgent) {
	if due := a.TokensDue(); due != 0 && due <= w.now {
		a.perform(func() Effects { return a.TickTokens(w.now) })
	}
	if w.now%(25*time.Millisecond) == 0 {
		a.perform(func() Effects { return a.Tick(w.now) })
		out, _ := a.Round(w.now, false)
		a.perform(func() Effects { return Effects{Packets: out} })
	}
	if w.now%(5*time.Millisecond) == 0 {
		a.count(a.engine.Tick(int64(w.now), nil))
	}
	var asked exchange.TokenRequests
	a.engine.PollTokens(int64(w.now), &asked)
	slots, _, _ := a.engine.PollSlots(int64(w.now), nil)
	list, _ := a.engine.PollQuotas(int64(w.now), nil)
	messages := []link.Message{}
	if len(asked.List) > 0 || asked.Registered != 0 {
		messages = append(messages, &asked)
	}
	for _, m := range slots {
		messages = append(messages, m)
	}
	for _, m := range list {
		messages = append(messages, m)
	}
	for _, m := range messages {
		w.after(100*time.Microsecond, func() { a.perform(func() Effects { return a.Received(w.now, 1, m) }) })
	}
}

// request is one of a client at an agent's gateway.
func (a *quotaAgent) request(client string) {
	r := &limiter.Request{Tenant: "acme", Client: client, Cost: 1}
	out := a.engine.Decide(int64(a.w.now), r)
	if out.Verdict == limiter.Wait {
		if out, _ = a.engine.Enqueue(int64(a.w.now), r, 1); out.Verdict == limiter.Wait {
			return
		}
	}
	a.decided(out)
}

// flood has each gateway ask so often in a second.
func (w *quotaWorld) flood(d time.Duration, perSecond int) {
	for end := w.now + d; w.now < end; {
		for _, a := range w.agents {
			a.request("c")
		}
		w.run(time.Second / time.Duration(perSecond))
	}
}

// All that the quota has is used, over three agents and gateways, and no more.
func TestQuotaOverAgents(t *testing.T) {
	w := newQuotaWorld(t, 3)
	w.flood(5*time.Second, 40)
	w.run(3 * time.Second)
	if got := w.admitted[20_000]; got != quotaAmount {
		t.Errorf("%d admitted, %d refused, want %d admitted", got, w.refused[20_000], quotaAmount)
	}
	if used := w.book.used(20_000); used != quotaAmount {
		t.Errorf("owners have reported %v", used)
	}
	_, left := w.agents[1].engine.Peek(int64(w.now), &limiter.Request{Tenant: "acme", Client: "c", Cost: 1})
	if left.Amount != quotaAmount || left.Remaining != 0 || left.Reset < 50*time.Minute || left.Reset > time.Hour {
		t.Errorf("a peek says %+v", left)
	}
	other := w.admitted[20_000]
	w.agents[0].request("another client")
	w.run(time.Second)
	if w.admitted[20_000] != other+1 {
		t.Error("another client is refused")
	}
}

// The next period begins at once for all, with the whole amount.
func TestQuotaTurns(t *testing.T) {
	w := newQuotaWorld(t, 3)
	w.book.ends = w.now + 4*time.Second
	for _, a := range w.agents {
		w.announce(a, false)
	}
	w.flood(8*time.Second, 40)
	w.run(time.Second)
	for _, p := range []int64{20_000, 20_001} {
		if got := w.admitted[p]; got > quotaAmount || got < quotaAmount-5 {
			t.Errorf("%d admitted in period %d, %d refused", got, p, w.refused[p])
		}
	}
}

// While the store is away the owner goes on by its own count, and no more than the amount is admitted.
func TestQuotaWithoutStore(t *testing.T) {
	w := newQuotaWorld(t, 3)
	w.flood(time.Second, 20)
	w.book.away = true
	w.flood(time.Second, 20)
	if w.refused[20_000] > 0 {
		t.Errorf("%d refused while the store is away", w.refused[20_000])
	}
	w.flood(3*time.Second, 60)
	w.book.away = false
	w.flood(3*time.Second, 20)
	if got := w.admitted[20_000]; got != quotaAmount {
		t.Errorf("%d admitted, want %d", got, quotaAmount)
	}
}

// An agent that owns the key ends in order, and comes back.
func TestQuotaOwnerEnds(t *testing.T) {
	w := newQuotaWorld(t, 3)
	w.flood(time.Second, 20)
	owner := w.agents[0]
	for _, a := range w.agents {
		if a.quotas.Keys() > 0 {
			owner = a
		}
	}
	owner.perform(func() Effects { return owner.CloseQuotas(w.now) })
	w.run(10 * time.Millisecond)
	w.begin(owner)
	for _, b := range w.agents {
		if b != owner {
			owner.PeerAlive(w.now, b.name, "", true, schedule.Version)
			b.PeerFailed(w.now, owner.name)
			b.PeerAlive(w.now, owner.name, "", true, schedule.Version)
		}
	}
	w.run(100 * time.Millisecond)
	w.flood(6*time.Second, 40)
	w.run(4 * time.Second)
	got := w.admitted[20_000]
	if got > quotaAmount || got < quotaAmount-10 {
		t.Errorf("%d admitted, %d refused, want %d admitted", got, w.refused[20_000], quotaAmount)
	}
	if used := w.book.used(20_000); used < float64(got)-25 || used > float64(got) {
		t.Errorf("owners have reported %v of %d", used, got)
	}
}

// Other agents come, to which the key moves. All that is used is reported.
func TestQuotaMoves(t *testing.T) {
	w := newQuotaWorld(t, 2)
	for i := range 6 {
		w.flood(500*time.Millisecond, 20)
		a := &quotaAgent{w: w, name: fmt.Sprint("another-", i)}
		w.agents = append(w.agents, a)
		w.begin(a)
		for _, b := range w.agents[:len(w.agents)-1] {
			a.PeerAlive(w.now, b.name, "", true, schedule.Version)
			b.PeerAlive(w.now, a.name, "", true, schedule.Version)
		}
	}
	w.flood(3*time.Second, 20)
	w.run(5 * time.Second)
	got := w.admitted[20_000]
	if used := w.book.used(20_000); got != quotaAmount || used != quotaAmount || len(w.book.use) < 2 {
		t.Errorf("%d admitted, %v reported by %d owners", got, used, len(w.book.use))
	}
}
