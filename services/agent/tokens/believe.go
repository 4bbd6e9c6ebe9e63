package tokens

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/titrate/titrate/control/budget"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/services/agent/owners"
)

// What a desk believes of a request. Its sender may be hostile: what a limit allows is taken from the
// configuration, never from a message, and each number has a bound. Grants and recalls count only of the
// agent that owns the key: sessions and lives of owners can be guessed.

const (
	// silentProcess is the time without a packet after which a process makes room for another one.
	silentProcess = time.Minute
	// most bounds counts, in millionths of a cost unit, and durations in nanoseconds. A session ends
	// before its counts come there (package grant), and no difference of two of them overflows.
	most = int64(3) << 60
)

// judge says why a request is dropped, if it is. p is the limit of the key if the request begins
// it, and name whose key it is from now on; nil: as before.
func (d *Desk) judge(now time.Duration, k *owned, from owners.Process, q *exchange.TokenRequest) (
	name *exchange.KeyName, p grant.Params, why owners.Drop,
) {
	switch {
	case k == nil && !d.room.Fits(partOf(q)):
		return nil, p, owners.Crowded
	case !q.Forgotten && !inRange(&q.Request):
		return nil, p, owners.Unusable
	case !d.admitProcess(now, from):
		return nil, p, owners.Processes
	case !q.Named():
		return nil, placeholder, owners.Accepted
	case k != nil && k.name == q.KeyName:
		return nil, p, owners.Accepted
	case k != nil && d.knows(k): // two names with one hash: the first one stays
		return nil, p, owners.Unknown
	}
	key, p, ok := d.allowed(&q.KeyName)
	switch {
	case !ok || key != q.Key:
		return nil, p, owners.Unknown
	case k != nil && !d.room.Fits(partOf(q)): // so far it had no name, and took nobody's part
		d.disown(k)
		return nil, p, owners.Crowded
	}
	return &q.KeyName, p, owners.Accepted
}

// placeholder has the numbers of a key before the key is named: nothing is granted until then.
var placeholder = grant.Params{Rate: 1, Burst: grant.Token}

// allowed looks up a key by its name.
func (d *Desk) allowed(name *exchange.KeyName) (key uint64, p grant.Params, ok bool) {
	if name.Limit == "" || name.Len() > exchange.MaxKeyName {
		return 0, p, false
	}
	return d.o.Allowed(name)
}

// knows reports whether a key is one of a limit of the configuration in force.
func (d *Desk) knows(k *owned) bool {
	_, _, ok := d.allowed(&k.name)
	return ok
}

// own begins to own a key. If the key is owned already, what is known of it begins anew in the same place.
func (d *Desk) own(now time.Duration, key, life uint64, p grant.Params) *owned {
	begin := p
	begin.Listen = int64(d.listenFor(now, key))
	k := d.owned[key]
	if k == nil {
		k = new(owned)
		d.order = append(d.order, k)
	} else {
		d.disown(k)
	}
	*k = owned{key: key, life: life, o: grant.NewOwner(begin, life, int64(now)), params: p}
	d.owned[key] = k
	d.room.Take(k.part)
	d.beginParts(now, k)
	return k
}

// partOf returns whose part of the room a request's key takes; a key without a name is of nobody.
func partOf(q *exchange.TokenRequest) budget.ID {
	if !q.Named() {
		return 0
	}
	return budget.Of(q.Tenant, q.Limit)
}

// name puts a key's tenant, limit and client in force, with what they are allowed. Before a key was named gateways have
// only been sent this owner.
func (d *Desk) name(now time.Duration, k *owned, name exchange.KeyName, p grant.Params) {
	if k.name.Limit == "" {
		d.own(now, k.key, k.life, p)
	}
	k.name, k.revision = name, d.o.Revision()
	d.room.Free(k.part)
	k.part = budget.Of(name.Tenant, name.Limit)
	d.room.Take(k.part)
	k.configure(now, p)
}

// renew gives a key the numbers of the configuration in force. The key keeps its numbers if the
// configuration no longer has its limit.
func (d *Desk) renew(now time.Duration, k *owned) {
	revision := d.o.Revision()
	if k.revision == revision {
		return
	}
	k.revision = revision
	if _, p, ok := d.allowed(&k.name); ok {
		k.configure(now, p)
	}
}

func (k *owned) configure(now time.Duration, p grant.Params) {
	if k.params != p {
		k.params = p
		k.o.Configure(p, int64(now))
	}
}

// admitProcess notes that a process asks, and reports whether its agent may have so many.
func (d *Desk) admitProcess(now time.Duration, p owners.Process) bool {
	all := d.processes[p.Agent]
	if _, known := all[p.Number]; !known && len(all) >= owners.MaxProcesses {
		quiet := p
		for number, heard := range all {
			if now-heard > silentProcess {
				quiet.Number = number
				break
			}
		}
		if quiet == p {
			return false
		}
		d.gone(now, quiet)
		all = d.processes[p.Agent]
	}
	if all == nil {
		all = map[uint64]time.Duration{}
		d.processes[p.Agent] = all
	}
	all[p.Number] = now
	return true
}

// inRange reports whether each number of a request is within its bounds. Counts are cumulative
// within a session.
func inRange(q *grant.Request) bool {
	for _, n := range []int64{
		q.Granted, q.Spent, q.Returned, q.Held, q.Need, q.Least, q.Ahead, q.Use, // millionths
		q.Waited, q.Full, // nanoseconds
	} {
		if n < 0 || n > most {
			return false
		}
	}
	if q.Extra < -most || q.Extra > most || q.Level < -1 || q.Level > most {
		return false // Extra: refunds are below 0; Level: −1 is not known
	}
	return !slices.ContainsFunc(q.Refills[:], func(r grant.Refill) bool {
		return r.Amount < 0 || r.Amount > most || r.Age < 0 || r.Age > most
	})
}

// isUsable reports whether a gateway's request may go on to the owner of its key. It must fit into a packet with
// others', and its numbers are such as the owner takes. Else the owner would blame this agent, and what is sent with
// it is lost.
func isUsable(q *exchange.TokenRequest) bool {
	return q.Len() <= exchange.MaxKeyName && utf8.ValidString(q.Tenant) && utf8.ValidString(q.Limit) &&
		(q.Forgotten || inRange(&q.Request))
}

// Complaint counts the dropped requests of an agent.
type Complaint struct {
	Agent  string
	Number uint64      // of a process of this agent; of others 0
	Count  uint64      // since the last one
	Why    owners.Drop // of the last request
	told   time.Duration
}

// complainEvery is the least time between two log lines about one agent's dropped requests.
const complainEvery = time.Minute

// drop counts a request or an answer that is dropped.
func (d *Desk) drop(now time.Duration, from owners.Process, why owners.Drop) {
	d.stats.Dropped[why]++
	if why == owners.Astray || why == owners.Crowded { // in order when agents come or go; or seen elsewhere
		return
	}
	c := d.complaints[from.Agent]
	if c == nil {
		c = &Complaint{Agent: from.Agent, told: now - complainEvery}
		d.complaints[from.Agent] = c
	}
	c.Count++
	if from.Agent == d.o.Agent {
		c.Number = from.Number
	}
	c.Why = why
}

// Complaints returns what is to be logged now: each agent at most once a minute.
func (d *Desk) Complaints(now time.Duration) (out []Complaint) {
	for agent, c := range d.complaints {
		switch since := now - c.told; {
		case since < complainEvery:
		case c.Count == 0:
			delete(d.complaints, agent)
		default:
			out = append(out, *c)
			c.Count, c.told = 0, now
		}
	}
	slices.SortFunc(out, func(a, b Complaint) int { return strings.Compare(a.Agent, b.Agent) })
	return out
}
