package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// quotaOwner is the one owner of all keys of an engine, which has so many units of each.
type quotaOwner struct {
	e       *Engine
	now     int64
	keys    map[uint64]*calendar.Owner
	amount  float64
	replies []exchange.QuotaReply
	later   []func()
	silent  bool
}

type quotaOutbox struct {
	o   *quotaOwner
	key uint64
}

func (b quotaOutbox) Reply(_ calendar.Peer, m calendar.Reply) {
	b.o.replies = append(b.o.replies, exchange.QuotaReply{Key: b.key, Reply: m})
}

func (b quotaOutbox) Book(w calendar.Want) {
	if w.Wanted > 0 {
		k := b.o.keys[b.key]
		from := w.Known
		to := min(from+w.Wanted, calendar.UnitsOf(b.o.amount))
		reason := calendar.Whole
		if to < from+w.Wanted {
			reason = calendar.UsedUp
		}
		b.o.later = append(b.o.later, func() {
			k.Booked(b.o.now, calendar.Booked{Session: w.Session, Number: w.Number, Period: w.Period, From: from, To: to,
				Reason: reason}, b)
		})
	}
}

func quotaLimit(amount float64) config.Limit {
	return config.Limit{Name: "monthly", Quota: &config.CalendarQuota{Amount: amount,
		Calendar: config.Calendar{Zone: "UTC", StartsOn: 1}}, Queue: config.Queue{Law: config.Police}}
}

func newQuotaOwner(t *testing.T, amount float64, limits ...config.Limit) *quotaOwner {
	t.Helper()
	o := &quotaOwner{now: sec, keys: map[uint64]*calendar.Owner{}, amount: amount}
	o.e = New(Options{Keys: 1024, Ask: func() {}})
	mustApply(t, o.e, &config.Config{Revision: 1, Tenants: []config.Tenant{{Name: "acme",
		Limits: append([]config.Limit{quotaLimit(amount)}, limits...)}}})
	o.e.LinkTokens(o.now, true)
	o.e.LinkSlots(true)
	o.e.LinkQuotas(true)
	o.e.AnswerTokens(o.now, &exchange.TokenAnswers{Owners: exchange.Owners{View: 1,
		List: []exchange.Owner{{Hash: 1, Life: 9}}}}, nil)
	return o
}

// settle carries messages until there are none.
func (o *quotaOwner) settle() (events []Event) {
	for range 20 {
		list, _ := o.e.PollQuotas(o.now, nil)
		for _, m := range list {
			for _, a := range m.List {
				k := o.keys[a.Key]
				if k == nil {
					k = calendar.NewOwner(calendar.Terms{Amount: calendar.UnitsOf(o.amount)}, 9, 1)
					o.keys[a.Key] = k
					k.SetPeriod(o.now, 24_000, o.now+int64(time.Hour), 2, quotaOutbox{o, a.Key})
				}
				if !o.silent {
					k.Ask(o.now, 1, a.Ask, quotaOutbox{o, a.Key})
				}
			}
		}
		for len(o.later) > 0 {
			do := o.later[0]
			o.later = o.later[1:]
			do()
		}
		replies := o.replies
		o.replies = nil
		if len(replies) > 0 {
			events = o.e.AnswerQuotas(o.now, &exchange.QuotaReplies{Owner: 9, List: replies}, events)
		}
	}
	return events
}

func (o *quotaOwner) request(cost float64) Outcome {
	r := &Request{Tenant: "acme", Client: "c", Cost: cost}
	out := o.e.Decide(o.now, r)
	if out.Verdict == Wait {
		if out, _ = o.e.Enqueue(o.now, r, 7); out.Verdict == Wait {
			for _, e := range o.settle() {
				out = e.Outcome
			}
		}
	}
	o.now += int64(10 * time.Millisecond)
	return out
}

func TestQuotaIsUsedUp(t *testing.T) {
	o := newQuotaOwner(t, 10)
	for i := range 10 {
		if out := o.request(1); out.Verdict != Admit {
			t.Fatalf("request %d: %+v", i, out)
		}
	}
	out := o.request(1)
	if out.Verdict != Reject || out.Reason != ClientLimit || out.Limit != "monthly" || out.RetryAfter < 59*time.Minute ||
		out.RetryAfter > time.Hour {
		t.Errorf("the eleventh: %+v", out)
	}
	a := o.e.Allowance(o.now, &Request{Tenant: "acme", Client: "c", Cost: 1}, ClientLimit)
	if a.Limit != "monthly" || a.Amount != 10 || a.Remaining != 0 || a.Reset < 59*time.Minute {
		t.Errorf("%+v", a)
	}
	x := o.e.Explain(o.now, &Request{Tenant: "acme", Client: "c", Cost: 1})
	if len(x.Limits) != 1 || x.Limits[0].Amount != 10 || x.Limits[0].Passes || x.Outcome.Verdict != Reject {
		t.Errorf("%+v", x)
	}
}

// A request that another limit refuses uses nothing of the quota, and a true cost counts in the place of an estimate.
func TestQuotaIsGivenBack(t *testing.T) {
	o := newQuotaOwner(t, 10, config.Limit{Name: "rate", Rate: 1e-6, Burst: 4, Precision: config.Local,
		Queue: config.Queue{Law: config.Police}})
	for range 4 {
		o.request(1)
	}
	for range 20 {
		if out := o.request(1); out.Verdict != Reject || out.Limit != "rate" {
			t.Fatalf("%+v", out)
		}
	}
	left := func() float64 {
		o.now += int64(2 * time.Second)
		o.settle()
		for _, l := range o.e.Explain(o.now, &Request{Tenant: "acme", Client: "c", Cost: 1}).Limits {
			if l.Name == "monthly" {
				return l.Free
			}
		}
		return -1
	}
	if got := left(); got != 6 {
		t.Errorf("%v left after four requests of ten", got)
	}
	o.e.Settle(o.now, &Request{Tenant: "acme", Client: "c", Cost: 1}, Plain, 3)
	if got := left(); got != 4 {
		t.Errorf("%v left, though one of the four has cost 3", got)
	}
	o.e.Settle(o.now, &Request{Tenant: "acme", Client: "c", Cost: 1}, Plain, 0)
	if got := left(); got != 5 {
		t.Errorf("%v left, though one has cost nothing", got)
	}
}

// Without an answer a request is refused after a while, and at once without an agent.
func TestQuotaWithoutOwner(t *testing.T) {
	o := newQuotaOwner(t, 10)
	o.silent = true
	r := &Request{Tenant: "acme", Client: "c", Cost: 1}
	if out, _ := o.e.Enqueue(o.now, r, 7); out.Verdict != Wait {
		t.Fatalf("%+v", out)
	}
	events := o.e.Tick(o.now+calendar.MaxWait, nil)
	if len(events) != 1 || events[0].Outcome.Verdict != Reject || events[0].Outcome.RetryAfter != time.Second {
		t.Errorf("%+v", events)
	}
	o.e.LinkQuotas(false)
	if out := o.e.Decide(o.now, r); out.Verdict != Reject || o.e.slots.units.Stats().CutOff != 2 {
		t.Errorf("%+v, %+v", out, o.e.slots.units.Stats())
	}
}

// A limit in SHADOW lets pass what it counts, and says what it would refuse.
func TestQuotaInShadow(t *testing.T) {
	o := newQuotaOwner(t, 5)
	l := quotaLimit(5)
	l.Mode = config.Shadow
	mustApply(t, o.e, &config.Config{Revision: 2, Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{l}}}})
	shadowed := 0
	for range 10 {
		out := o.request(1)
		if o.settle(); out.Verdict != Admit {
			t.Fatalf("%+v", out)
		}
		if out.Shadow {
			shadowed++
		}
	}
	if shadowed == 0 || shadowed > 6 {
		t.Errorf("%d of 10 would have been refused", shadowed)
	}
}

// A request that only the SHADOW mode of its route let pass gives nothing back to the quota, whatever it has cost.
func TestQuotaGivesBackOnlyCharges(t *testing.T) {
	o := newQuotaOwner(t, 5)
	for range 6 {
		o.request(1)
	}
	r := &Request{Tenant: "acme", Client: "c", Cost: 4, Mode: config.Shadow}
	for range 3 {
		if out := o.e.Decide(o.now, r); out.Verdict != Admit || !out.Shadow {
			t.Fatalf("%+v", out)
		}
		o.e.Settle(o.now, r, Plain, 0)
	}
	o.settle()
	if out := o.request(1); out.Verdict != Reject {
		t.Errorf("%+v", out)
	}
}
