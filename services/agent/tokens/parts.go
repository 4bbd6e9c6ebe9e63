package tokens

import (
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
)

// Standing parts of buckets (package control/grant): the agents agree by how many gateways buckets are divided.
//
//	agents ── statements ──► each other ──► each one's plan ──► its owners count it ──► statements say so
//	   all agents count the statement of this one ──► its gateways are sent a Division, once a second
//
// A gateway's Division lapses. So a process, or an agent, is forgotten a while after its link or its last
// packet.

const (
	// stepEvery is the least time between two steps of the agreement. Questions wait while at most stepKeys owners take
	// in another plan in a step. Owners that cannot yet are asked again after stepSlow if they are more.
	stepEvery, stepSlow = 20 * time.Millisecond, 200 * time.Millisecond
	stepKeys            = 2048
	// repeatFor is the time for which a statement is repeated each second. Then it is each repeatRarely seconds.
	repeatFor, repeatRarely = 10 * time.Second, 16
	// lapsed is the time after which a gateway without a message of its agent has no parts.
	lapsed = time.Duration(exchange.DivisionFor) + time.Second
	// mostEnded bounds the earlier sizes of parts that are remembered.
	mostEnded = 16
)

// parts is a desk's side of the agreement.
type parts struct {
	division *grant.Division
	begun    uint64 // divisions
	changed  bool   // something that division has not looked at
	apart    bool   // see Apart
	stepped  time.Duration
	seconds  int

	plan    grant.Plan
	roster  *grant.Roster // of the plan; nil: no gateway has had parts yet
	planned time.Duration // when it began
	dropped dropped
	pending []*owned // have to take it in
	refused []*owned // have left pending, and cannot yet
	named   map[owners.Process]*member
	members map[grant.Peer]*member
	calling lines // of calls

	sent    map[string]sentStatement // the latest statement to each agent
	leaving map[uint64]time.Duration // processes here without a link: they have no parts from then on
	gone    map[string]time.Duration // agents that are not alive: their gateways have none from then on
}

// sentStatement is a statement, and when it was new.
type sentStatement struct {
	number, life uint64
	seen         grant.Seen
	begun        bool
	at           time.Duration
}

func (d *Desk) initParts() {
	d.parts = parts{named: map[owners.Process]*member{}, members: map[grant.Peer]*member{},
		sent: map[string]sentStatement{}, leaving: map[uint64]time.Duration{}, gone: map[string]time.Duration{}}
	d.beginDivision(0)
}

// beginDivision begins the agreement again, as an agent that has just started: none of its gateways has parts.
func (d *Desk) beginDivision(now time.Duration) {
	p := &d.parts
	before := p.division
	if p.division = grant.NewDivision(int64(now), d.o.Agent, d.o.Life+p.begun); before != nil {
		p.division.After(before)
	}
	if p.apart {
		p.division.Apart()
	}
	p.begun++
	p.changed = true
	clear(p.sent)
	p.leaving = map[uint64]time.Duration{}
	d.agreeWith(now)
	for process, l := range d.locals {
		l.given = 0
		p.division.Connect(process)
	}
}

// Apart notes that there are other sites, see [grant.Division.Apart]. A site that is cut off still counts.
func (d *Desk) Apart() {
	if !d.parts.apart {
		d.parts.apart, d.parts.changed = true, true
		d.parts.division.Apart()
	}
}

// divided reports whether this agent knows all gateways that may have parts.
func (d *Desk) divided(now time.Duration) bool {
	return d.o.Undivided || d.parts.division.Complete(int64(now))
}

// agreeWith gives the agreement the agents that are alive.
func (d *Desk) agreeWith(now time.Duration) {
	var others []string
	for _, a := range d.view.agents {
		others = append(others, a.Name)
	}
	d.parts.division.SetAgents(int64(now), others)
	d.parts.changed = true
}

// agentsChanged notes other agents, or their other lives.
func (d *Desk) agentsChanged(now time.Duration, before []Agent) {
	p := &d.parts
	alive := map[string]uint64{}
	for _, a := range d.view.agents {
		alive[a.Name] = a.Life
		delete(p.gone, a.Name)
	}
	for _, a := range before {
		switch life, is := alive[a.Name]; {
		case !is:
			p.gone[a.Name] = now + lapsed
			delete(p.sent, a.Name)
		case life != a.Life:
			p.division.Began(a.Name)
			delete(p.sent, a.Name)
		}
	}
	d.agreeWith(now)
}

// stepParts moves the agreement on.
func (d *Desk) stepParts(now time.Duration) {
	p := &d.parts
	d.endParts(now)
	if p.changed = p.changed && !d.o.Undivided; !p.changed || now < d.stepAt() {
		return
	}
	p.stepped, p.changed = now, false
	p.division.Step(int64(now), func(plan grant.Plan) bool { return d.adopt(now, plan) })
	p.changed = len(p.pending)+len(p.refused) > 0
	for process, l := range d.locals {
		if by := d.parts.division.Given(process); by != l.given {
			d.sendDivision(process, l)
		}
	}
	d.sendStatements(now, false)
}

// stepAt is the earliest time of the next step.
func (d *Desk) stepAt() time.Duration {
	switch {
	case d.parts.stepped == 0:
		return 0
	case len(d.parts.pending) == 0 && len(d.parts.refused) > stepKeys:
		return d.parts.stepped + stepSlow
	}
	return d.parts.stepped + stepEvery
}

// partsDue returns when stepParts has something to do; 0: never.
func (d *Desk) partsDue() (due time.Duration) {
	if d.parts.changed {
		due = max(1, d.stepAt())
	}
	for _, at := range d.parts.leaving {
		due = sooner(due, at)
	}
	for _, at := range d.parts.gone {
		due = sooner(due, at)
	}
	return due
}

// endParts forgets the processes and agents whose parts have lapsed.
func (d *Desk) endParts(now time.Duration) {
	p := &d.parts
	for process, at := range p.leaving {
		if now >= at {
			delete(p.leaving, process)
			p.division.Gone(process)
			p.changed = true
		}
	}
	for agent, at := range p.gone {
		if now >= at {
			delete(p.gone, agent)
			p.division.Forget(agent)
			p.changed = true
		}
	}
}

// partsSecond repeats what is repeated once a second.
func (d *Desk) partsSecond(now time.Duration) {
	d.parts.changed = true // an owner may be ready to take in a plan, or time has passed
	d.parts.seconds++
	d.stepParts(now)
	for process, l := range d.locals {
		if l.given > 0 {
			d.sendDivision(process, l)
		}
	}
	d.sendStatements(now, true)
}

func (d *Desk) sendDivision(process uint64, l *local) {
	l.given = d.parts.division.Given(process)
	d.answer(process).Division = &exchange.Division{Gateways: uint32(l.given), Full: d.parts.division.Full(process)}
}

// sendStatements sends the agents the statements that are new, or are to be repeated.
func (d *Desk) sendStatements(now time.Duration, second bool) {
	p := &d.parts
	if d.o.Undivided {
		return
	}
	for i, a := range d.view.agents {
		s := p.division.StatementFor(a.Name)
		was, known := p.sent[a.Name]
		next := sentStatement{s.Number, s.Life, s.Seen, s.Begun, was.at}
		if !known || next != was {
			next.at = now
		} else if !second || now-was.at >= repeatFor && (p.seconds+i)%repeatRarely != 0 {
			continue
		}
		p.sent[a.Name] = next
		d.packet(a.Name).Statement = toStatement(&s)
	}
}

// receiveStatement takes in what another agent states.
func (d *Desk) receiveStatement(now time.Duration, agent string, m *gossipv1.DivisionStatement) {
	s, ok := fromStatement(m)
	if !ok {
		d.drop(now, owners.Process{Agent: agent}, owners.Unusable)
		return
	}
	d.parts.division.Receive(agent, s)
	d.parts.changed = true
}

// adopt has the owners here count a plan, as many of them as take it in now.
func (d *Desk) adopt(now time.Duration, plan grant.Plan) (all bool) {
	p := &d.parts
	if p.roster == nil && len(plan.Members) == 0 {
		return true
	}
	if p.roster == nil || plan.Least != p.plan.Least || !slices.Equal(plan.Members, p.plan.Members) {
		d.setPlan(now, plan)
	}
	if len(p.pending) == 0 {
		p.pending, p.refused = p.refused, nil
	}
	n := min(len(p.pending), stepKeys)
	for _, k := range p.pending[:n] {
		if d.owned[k.key] != k || k.away || k.roster == p.roster {
			continue
		}
		if k.o.SetRoster(int64(now), p.roster, outbox{d, k.key}) {
			k.roster = p.roster
		} else {
			p.refused = append(p.refused, k)
		}
		d.schedule(k)
	}
	if p.pending = p.pending[n:]; len(p.pending)+len(p.refused) > 0 {
		return false
	}
	d.forgetMembers()
	return true
}

// setPlan makes the roster of a plan.
func (d *Desk) setPlan(now time.Duration, plan grant.Plan) {
	p := &d.parts
	r := &grant.Roster{Least: plan.Least}
	if was := p.roster; was != nil {
		r.Ended, r.Left = slices.Clone(was.Ended), was.Left
		if hasLeft(p.plan.Members, plan.Members) {
			r.Left = int64(now)
		}
		if was.Least != 0 && was.Least != r.Least {
			r.Ended = append(r.Ended, grant.EndedRoster{Least: was.Least, Until: int64(now)})
			r.Ended = r.Ended[max(0, len(r.Ended)-mostEnded):]
		}
	}
	for _, of := range plan.Members {
		m := d.member(owners.Process{Agent: of.Agent, Number: of.Process})
		if p.division.Begun() && !slices.Contains(p.plan.Members, of) {
			m.since = max(1, int64(now))
		}
		r.Members, r.Since = append(r.Members, m.number), append(r.Since, m.since)
	}
	p.plan, p.roster, p.planned = plan, r, now
	p.pending, p.refused = slices.Concat(d.sweep.keys, d.order), nil
}

// hasLeft reports whether a member of before is none any more.
func hasLeft(before, now []grant.Member) bool {
	in := make(map[grant.Member]bool, len(now))
	for _, m := range now {
		in[m] = true
	}
	return slices.ContainsFunc(before, func(m grant.Member) bool { return !in[m] })
}

// beginParts gives the roster to an owner that has just begun, or comes back.
func (d *Desk) beginParts(now time.Duration, k *owned) {
	if r := d.parts.roster; r != nil && k.roster != r {
		k.o.BeginRoster(int64(now), r)
		k.o.FullSince(int64(max(d.view.change+unsettled, d.parts.planned, d.parts.dropped.of(k.key))))
		k.roster = r
	}
}

// receiveParts takes what another agent says about parts.
func (d *Desk) receiveParts(now time.Duration, agent string, m *gossipv1.Tokens) {
	for _, c := range m.GetCalls() {
		call := fromPartCall(c)
		switch {
		case d.o.Owner(call.Key) != agent:
			d.drop(now, owners.Process{Agent: agent}, owners.Astray)
		case !call.Usable():
			d.drop(now, owners.Process{Agent: agent}, owners.Unusable)
		case d.locals[c.GetProcess()] != nil:
			a := d.answer(c.GetProcess())
			a.Calls = append(a.Calls, call)
		}
	}
	for _, r := range m.GetAnswers() {
		a := fromPartAnswer(r)
		if d.o.Owner(a.Key) != d.o.Agent {
			d.drop(now, owners.Process{Agent: agent}, owners.Astray)
			continue
		}
		d.partAnswer(now, owners.Process{Agent: agent, Number: r.GetProcess()}, &a)
	}
	if s := m.GetStatement(); s != nil {
		d.receiveStatement(now, agent, s)
	}
}

// dropped says of keys that were forgotten since when their buckets were full.
type dropped struct {
	list   map[uint64]time.Duration
	before time.Duration // of all others
}

// mostDropped bounds the keys.
const mostDropped = 1 << 16

func (l *dropped) of(key uint64) time.Duration { return max(l.before, l.list[key]) }

// add notes a key that is forgotten.
func (l *dropped) add(key uint64, since time.Duration) {
	if len(l.list) >= mostDropped {
		for _, at := range l.list {
			l.before = max(l.before, at)
		}
		l.list = nil
	}
	if l.list == nil {
		l.list = map[uint64]time.Duration{}
	}
	l.list[key] = max(l.list[key], since)
}
