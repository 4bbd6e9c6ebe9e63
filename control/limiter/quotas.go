package limiter

import (
	"cmp"
	"time"

	"github.com/titrate/titrate/control/calendar"
	quotakeys "github.com/titrate/titrate/control/calendar/keys"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/slots"
	"github.com/titrate/titrate/control/slots/keys"
)

// Limits with a quota of a calendar's period (package calendar). A request spends units of such a limit when it is
// released, after its slots: see slots.go, which has the way of a request.

// QuotaStats are counters of the limits with a quota.
type QuotaStats = quotakeys.Stats

// quotaNumbers are the amounts of a limit by client.
type quotaNumbers struct {
	amount    float64
	per       config.Per
	overrides map[string]float64
}

// quotaNumbersOf returns the amounts of a limit; nil: it has no quota.
func quotaNumbersOf(l *config.Limit) *quotaNumbers {
	if l.Quota == nil {
		return nil
	}
	n := &quotaNumbers{amount: l.Quota.Amount, per: l.Quota.Calendar.Per}
	for client, o := range l.Overrides {
		if n.overrides == nil {
			n.overrides = make(map[string]float64, len(l.Overrides))
		}
		n.overrides[client] = o.Amount
	}
	return n
}

// amountOf returns the amount of a client.
func (l *limit) amountOf(client string) float64 {
	if o, found := l.ownOf(client); found {
		return o.Number
	}
	if o, found := l.quota.overrides[client]; found {
		return o
	}
	return l.quota.amount
}

// QuotaKey returns the hash of a key of a limit with a quota, and what a configuration gives it at an instant. Not ok:
// the configuration has no such limit. O(limits of the tenant).
func QuotaKey(in *config.Set, at config.Instant, n *exchange.KeyName) (key uint64, t calendar.Terms,
	periods config.Calendar, ok bool) {
	l := in.Limit(n.Tenant, n.Limit, at)
	if l == nil || l.Quota == nil || l.PerTenant && n.Client != "" || n.Plan != "" {
		return 0, t, periods, false
	}
	amount := l.Quota.Amount
	if o, found := overrideOf(in, at, l, n); found {
		amount = o.Amount
	}
	key = hash.OfLimit(in.Seed(), n.Tenant, n.Limit, "").Key(l.PerTenant, n.Client, uint64(ResetOf(in, n)))
	t = calendar.Terms{Amount: calendar.UnitsOf(amount), Open: l.Quota.OnLoss == config.AdmitOwn}
	return key, t, l.Quota.Calendar, true
}

func unitsName(n *keys.Name) *quotakeys.Name {
	return &quotakeys.Name{Key: n.Key, Rest: n.Rest, KeyName: n.KeyName}
}

// order has false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (e *Engine) lookUnits(l *limit, c *call) quotakeys.State {
	name := c.slotName(l)
	return e.slots.units.Look(c.now, unitsName(&name), calendar.Units(c.costOf(l)))
}

// waitOf returns the advice to a request that a limit has refused whose slots or units were used up.
func (e *Engine) waitOf(l *limit, c *call) int64 {
	if l.quota == nil {
		return slotRetry
	}
	a, _, _ := e.quotaAllowance(l, c)
	return cmp.Or(int64(a.Wait), slotRetry) // the owner has not answered
}

// quotaAllowance returns what a limit with a quota leaves a client, whether that is known here, and whether the cost
// asked about would pass, as far as is known.
func (e *Engine) quotaAllowance(l *limit, c *call) (a Allowance, known, passes bool) {
	s := e.lookUnits(l, c)
	cost := units(c.costOf(l))
	a = Allowance{Limit: l.name, Amount: l.amountOf(c.under(l)), Per: l.quota.per, Cost: cost}
	if s.Known {
		a.Amount, a.Remaining = s.Amount.Cost(), s.Remaining.Cost()
		if s.Ends > c.now {
			a.Reset = time.Duration(s.Ends - c.now)
			a.Next = a.Reset
		}
	}
	passes = s.Next == slots.Waits && (!s.Known || a.Remaining >= cost)
	switch {
	case passes:
	case s.Known && a.Remaining < cost && a.Reset > 0:
		a.Wait = a.Reset // nothing comes before
	default:
		a.Wait = time.Duration(slotRetry)
	}
	return a, s.Known, passes
}

// quotaState is the state of a limit with a quota.
func (e *Engine) quotaState(l *limit, c *call) LimitState {
	a, _, passes := e.quotaAllowance(l, c)
	state := LimitState{Name: l.name, Mode: l.mode, Counts: l.counted, Amount: a.Amount, Free: a.Remaining,
		Passes: passes, Wait: a.Wait, Silent: e.lookUnits(l, c).Next == slots.CutOff}
	if !l.perTenant {
		state.Client = c.under(l)
	}
	return state
}

// correctQuotas corrects what quotas that count by a cost were charged. A request that only a SHADOW mode let pass was
// not charged: a route in SHADOW gets nothing back from a limit that other routes enforce.
func (e *Engine) correctQuotas(c *call, asked config.Mode, by costName, extra int64) {
	for _, l := range c.route.slots {
		if l.quota == nil || l.cost != by || !c.counts(l) ||
			extra < 0 && asked != config.Enforce && l.mode == config.Enforce {
			continue
		}
		name := c.slotName(l)
		e.slots.addUnits(e.slots.units.Settle(c.now, unitsName(&name), calendar.Units(extra), nil))
	}
}

// AnswerQuotas takes in what an owner of a quota's units says, and appends the events of requests that go on by that.
func (e *Engine) AnswerQuotas(now int64, m *exchange.QuotaReplies, out []Event) []Event {
	e.slots.addUnits(e.slots.units.Answer(now, m, nil))
	return e.resumeSlots(now, out)
}

// PollQuotas appends what the owners of quotas' units are to be sent now, and returns when there is more to send; 0:
// when Options.Ask is called.
func (e *Engine) PollQuotas(now int64, out []*exchange.QuotaAsks) (all []*exchange.QuotaAsks, next int64) {
	return e.slots.units.Poll(now, out)
}

// LinkQuotas says whether an agent carries what PollQuotas returns, and answers. While none does, requests spend the
// units that are here, and are refused then.
func (e *Engine) LinkQuotas(up bool) { e.slots.units.Link(up) }
