package tokens

import (
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/services/agent/owners"
)

// member is a process that may have parts, as the owners here know it.
type member struct {
	line        // of calls
	since int64 // grant.Roster.Since
}

// member returns a process that may have parts from now on.
func (d *Desk) member(of owners.Process) *member {
	m := d.parts.named[of]
	if m == nil {
		d.latest++
		m = &member{line: line{Process: of, number: d.latest}}
		d.parts.named[of], d.parts.members[m.number] = m, m
	}
	return m
}

// forgetMembers forgets the processes that are in no roster any more.
func (d *Desk) forgetMembers() {
	p := &d.parts
	if p.roster == nil || len(p.members) == len(p.roster.Members) {
		return
	}
	in := map[grant.Peer]bool{}
	for _, n := range p.roster.Members {
		in[n] = true
	}
	for n, m := range p.members {
		if !in[n] {
			delete(p.members, n)
			delete(p.named, m.Process)
			m.waits = grant.Line[uint64]{}
		}
	}
}

// CallPart has a call of a part wait for room on the way to its process.
func (o outbox) CallPart(to grant.Peer) {
	if m := o.d.parts.members[to]; m != nil {
		o.d.parts.calling.add(&m.line, o.key)
	}
}

// sendCalls sends the calls for which there is room.
func (d *Desk) sendCalls() {
	d.parts.calling.send(int64(d.now), func(to *line, key uint64) bool {
		k := d.owned[key]
		if k == nil || k.away {
			return false
		}
		c, open := k.o.Calling(int64(d.now), to.number)
		if open {
			d.sendCall(to.Process, exchange.PartCall{Key: key, PartCall: c})
		}
		return open
	})
}

func (d *Desk) sendCall(to owners.Process, c exchange.PartCall) {
	d.stats.Calls++
	switch {
	case to.Agent != d.o.Agent:
		out := d.packet(to.Agent)
		out.Calls = append(out.Calls, toPartCall(to.Number, &c))
	case d.locals[to.Number] != nil:
		a := d.answer(to.Number)
		a.Calls = append(a.Calls, c)
	}
}

// answered takes the answer of a gateway here to the owner of the key.
func (d *Desk) answered(now time.Duration, process uint64, a *exchange.PartAnswer) {
	switch owner := d.o.Owner(a.Key); {
	case !a.Usable():
		d.drop(now, owners.Process{Agent: d.o.Agent, Number: process}, owners.Unusable)
	case owner == d.o.Agent:
		d.partAnswer(now, owners.Process{Agent: owner, Number: process}, a)
	default:
		p := d.packet(owner)
		p.Answers = append(p.Answers, toPartAnswer(process, a))
	}
}

// partAnswer gives an answer to the owner of its key, which is this agent.
func (d *Desk) partAnswer(now time.Duration, from owners.Process, a *exchange.PartAnswer) {
	k, m := d.owned[a.Key], d.parts.named[from]
	switch {
	case !a.Usable():
		d.drop(now, owners.Process{Agent: from.Agent}, owners.Unusable)
		return
	case k == nil || k.away || m == nil:
		return // late
	}
	k.o.PartAnswer(int64(now), m.number, a.PartAnswer, outbox{d, a.Key})
	if _, open := k.o.Calling(int64(now), m.number); !open {
		m.waits.Done(int64(now), a.Key, true)
	}
	d.schedule(k)
}
