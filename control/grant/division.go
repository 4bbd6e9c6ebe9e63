package grant

import (
	"cmp"
	"maps"
	"slices"
)

// Division is one agent's side of the agreement by how many gateways buckets are divided (part.go).
//
//	agent a: none of my gateways P divides by less than n   (Statement, numbered)  ──► all agents, again and again
//	agent b: my owners count your statement k               (Statement.Seen)       ──► a
//	a ── divide by n ──► its gateways ── confirmed ──► a
//
// A statement holds until another one does that all agents count. So a gateway divides by more at once, and its agent
// says so when the gateway has confirmed it. A gateway begins, or divides by less, when the statement of its agent
// allows that, all agents count the statement, and no other agent states less. All agents want the same
// number, that of all gateways in all statements; so when a gateway comes the others shrink first.
//
// Nothing here reads a clock or sends: call Step when something has changed and once a second.
type Division struct {
	name      string
	mine      Statement
	locals    map[uint64]*dividing
	others    map[string]*Statement
	alive     []string // others
	moved     int64    // when alive changed last
	fewer     int64    // since when there are fewer gateways than are wanted; 0: there are not
	wanted    int
	adopted   Plan
	adoptedOf map[string]Seen // the statements in adopted
	apart     bool            // see Apart
	begun     bool            // a gateway has had parts, as far as is known here
	newest    bool            // mine was made before that
	planFresh bool            // adopted was adopted before that
	fresh     map[string]bool // by agent: its statement was, or has changed nothing since
	counted   int             // of gateways, as of
	countedAt int64
	without   agreed
}

// agreed is a rule of the agreement that tests leave out, to see that it is needed.
type agreed uint8

const (
	agreedSeen    agreed = 1 << iota // all agents count the statement before gateways use it
	agreedLeast                      // nobody has said that gateways divide by less
	agreedConfirm                    // gateways have confirmed before they are said to divide by more
	agreedSettle                     // all agents know the same agents
)

// Statement goes from an agent to another one.
type Statement struct {
	Life      uint64 // of the agent; rising with each start
	Number    uint64 // rising within it
	Least     int    // none of the processes divides by less; 0: none has parts, nor gets one before the next statement
	Processes []uint64
	Seen      Seen // the latest statement of the addressee that owners at the sender count
	Fresh     bool // when they began to, the sender knew of no gateway that has ever had parts
	Begun     bool // it knows of one now
}

// Seen names a statement.
type Seen struct{ Life, Number uint64 }

// Plan has the gateways and the division for owners to count, see Roster.
type Plan struct {
	Members []Member
	Least   int
}

// Member is a process of a gateway.
type Member struct {
	Agent   string
	Process uint64
}

// dividing is a process here.
type dividing struct {
	given     int // it may divide by that; 0: it has no parts
	confirmed int // it does not divide by less
	full      bool
}

func (l *dividing) least() int {
	if l.given == 0 || l.confirmed == 0 {
		return max(l.given, l.confirmed)
	}
	return min(l.given, l.confirmed)
}

const (
	// firstAfter is the time for which there must be the same gateways before the first ones begin. These begin with
	// full parts: nobody has spent of a part before, and owners lose what the parts have. All later ones begin empty.
	firstAfter = 10 * second
	// fewerFor is the time for which there must be fewer gateways before parts grow.
	fewerFor = 10 * second
	// agentsSettle is the time in which all agents come to know the same agents.
	agentsSettle = second
	// hearFor is the longest time for which statements of other agents are waited for.
	hearFor = 15 * second
	// apartBy is a number of gateways of which none has a part, see Params.Part.
	apartBy = 1 << 20
	// MostDivided bounds the processes of one agent that have parts, so that a statement fits a packet.
	MostDivided = 100
)

// NewDivision returns that of an agent without gateways.
func NewDivision(now int64, name string, life uint64) *Division {
	return &Division{name: name, moved: now, mine: Statement{Life: life, Number: 1}, locals: map[uint64]*dividing{},
		others: map[string]*Statement{}, adoptedOf: map[string]Seen{}, newest: true, fresh: map[string]bool{}}
}

// After notes that this one goes on in place of an earlier one of the same agent: gateways may have had parts.
func (d *Division) After(before *Division) {
	if before.begun {
		d.begun, d.newest = true, false
	}
}

// SetAgents says which other agents are alive.
func (d *Division) SetAgents(now int64, others []string) {
	d.alive, d.moved = slices.Clone(others), now
}

// Apart notes that other sites use the same buckets. Owners charge each other what their sites admit, and do not know
// what parts admit: so no gateway gets one from now on.
func (d *Division) Apart() { d.apart = true }

// Began notes that an agent has begun a new life: its next statement is later than all before.
func (d *Division) Began(agent string) {
	if h := d.others[agent]; h != nil {
		h.Life, h.Number, h.Seen = 0, 0, Seen{}
	}
}

// Forget drops what an agent has said that has gone for so long that its gateways have no parts any more.
func (d *Division) Forget(agent string) {
	if !slices.Contains(d.alive, agent) {
		delete(d.others, agent)
	}
}

// Connect notes a process here that has no parts.
func (d *Division) Connect(process uint64) {
	if d.locals[process] == nil {
		d.locals[process] = &dividing{}
	}
}

// Gone notes that a process here has no parts any more.
func (d *Division) Gone(process uint64) { delete(d.locals, process) }

// Confirm notes by how many a process divides.
func (d *Division) Confirm(process uint64, by int) {
	if l := d.locals[process]; l != nil && l.given == by {
		l.confirmed = by
	}
}

// Given returns by how many a process here may divide; 0: it has no parts.
func (d *Division) Given(process uint64) int {
	if l := d.locals[process]; l != nil {
		return l.given
	}
	return 0
}

// Full reports whether a process here begins with full parts.
func (d *Division) Full(process uint64) bool {
	l := d.locals[process]
	return l != nil && l.full
}

// Receive takes in what another agent states.
func (d *Division) Receive(agent string, s Statement) {
	h := d.others[agent]
	switch {
	case h == nil && !slices.Contains(d.alive, agent): // a late message of an agent that has gone
		return
	case h == nil:
		h = &Statement{}
		d.others[agent] = h
	case s.Life < h.Life, s.Life == h.Life && s.Number < h.Number:
		return
	}
	if s.Life == h.Life && s.Number == h.Number && s.Seen.Life == h.Seen.Life && s.Seen.Number < h.Seen.Number {
		s.Seen, s.Fresh = h.Seen, h.Fresh // an earlier message of the same statement
	}
	*h = s
	d.begun = d.begun || s.Begun
}

// StatementFor returns the statement for another agent.
func (d *Division) StatementFor(to string) Statement {
	s := d.mine
	s.Seen, s.Fresh, s.Begun = d.adoptedOf[to], d.fresh[to], d.begun
	return s
}

// Complete reports whether owners here count what all agents that are alive have said. Until then there may be
// gateways with parts that they do not know of. An agent that says nothing for long counts as one without any.
func (d *Division) Complete(now int64) bool {
	uncounted := func(a string) bool { return d.adoptedOf[a].Life == 0 }
	return now-d.moved >= hearFor || !slices.ContainsFunc(d.alive, uncounted)
}

// haveStated reports whether each agent that is alive has made a statement in its present life.
func (d *Division) haveStated() bool {
	return !slices.ContainsFunc(d.alive, func(a string) bool { return d.others[a] == nil || d.others[a].Life == 0 })
}

// Begun reports whether a gateway has ever had parts, as far as is known here.
func (d *Division) Begun() bool { return d.begun }

// Plan returns the plan that owners here count.
func (d *Division) Plan() Plan { return d.adopted }

// Step moves on. adopt has the owners here count a plan; if they cannot yet, the next Step tries again. It reports
// whether other agents need the statement at once. If Given has changed, gateways need it.
func (d *Division) Step(now int64, adopt func(Plan) bool) (changed bool) {
	want := d.want(now)
	for _, l := range d.locals {
		if l.given != 0 && l.given < want {
			l.given, changed = want, true
		}
	}
	if d.state(now, want) {
		changed = true
	}
	if !d.adopt(now, adopt) {
		return changed
	}
	if d.allows(now, want) {
		full := d.beginFull()
		for _, p := range d.mine.Processes {
			if l := d.locals[p]; l != nil && l.given != want {
				l.full = l.full || full && l.given == 0
				l.given, l.confirmed, changed = want, want, true
			}
		}
		d.begun = true
	}
	return changed
}

// want returns by how many all are to divide.
func (d *Division) want(now int64) int {
	n := min(len(d.locals), MostDivided)
	for _, h := range d.others {
		n += len(h.Processes)
	}
	if d.apart && n > 0 {
		n = apartBy
	}
	if n != d.counted {
		d.counted, d.countedAt = n, now
	}
	if n >= d.wanted {
		d.wanted, d.fewer = n, 0
		return n
	}
	if d.fewer == 0 {
		d.fewer = max(now, 1)
	}
	if now-d.fewer >= fewerFor {
		d.wanted, d.fewer = n, 0
	}
	return d.wanted
}

// early reports whether it is too early for the first parts.
func (d *Division) early(now int64) bool {
	return !d.begun && (d.apart || now-d.countedAt < firstAfter)
}

// state makes another statement if there is something else to say. Owners count no parts before it is time for the
// first ones.
func (d *Division) state(now int64, want int) (changed bool) {
	next := Statement{Life: d.mine.Life, Number: d.mine.Number + 1, Least: want}
	for _, p := range slices.Sorted(maps.Keys(d.locals)) {
		l := d.locals[p]
		if len(next.Processes) == MostDivided && l.least() == 0 {
			continue
		}
		next.Processes = append(next.Processes, p)
		if least := l.least(); least != 0 && d.without&agreedConfirm == 0 {
			next.Least = min(next.Least, least)
		}
	}
	if len(next.Processes) == 0 || d.early(now) {
		next.Least = 0
	}
	if next.Least == d.mine.Least && slices.Equal(next.Processes, d.mine.Processes) {
		return false
	}
	d.mine, d.newest = next, !d.begun
	return true
}

// beginFull reports whether parts that begin now are full: all agents count them since before anybody had any.
func (d *Division) beginFull() bool {
	return d.newest && !slices.ContainsFunc(d.alive, func(a string) bool {
		h := d.others[a]
		return h == nil || !h.Fresh
	})
}

// adopt has the owners here count what all agents have said.
func (d *Division) adopt(now int64, adopt func(Plan) bool) (all bool) {
	of := map[string]Seen{d.name: {d.mine.Life, d.mine.Number}}
	for agent, h := range d.others {
		of[agent] = Seen{h.Life, h.Number}
	}
	if maps.Equal(of, d.adoptedOf) {
		return true
	}
	if !d.haveStated() && now-d.moved < hearFor {
		return false // in a new life an agent counts the earlier plan until it has received all statements
	}
	plan := d.stated()
	if !adopt(plan) {
		return false
	}
	if plan.Least != d.adopted.Least || !slices.Equal(plan.Members, d.adopted.Members) {
		d.planFresh = !d.begun
	}
	for agent, s := range of {
		if was := d.adoptedOf[agent]; was != s { // one may begin before all count what another one has said
			d.fresh[agent] = !d.begun || d.planFresh && was.Life == s.Life
		}
	}
	d.adopted, d.adoptedOf = plan, of
	return true
}

// stated returns the plan by what all agents have said.
func (d *Division) stated() (plan Plan) {
	plan.add(d.name, &d.mine)
	for agent, h := range d.others {
		plan.add(agent, h)
	}
	slices.SortFunc(plan.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Process, b.Process))
	})
	return plan
}

// add takes an agent's statement into a plan.
func (p *Plan) add(agent string, s *Statement) {
	for _, process := range s.Processes {
		p.Members = append(p.Members, Member{agent, process})
	}
	if s.Least != 0 && (p.Least == 0 || s.Least < p.Least) {
		p.Least = s.Least
	}
}

// allows reports whether gateways here may divide by want: all agents count that they do.
func (d *Division) allows(now int64, want int) bool {
	if d.early(now) {
		return false
	}
	settles := now-d.moved < agentsSettle && d.without&agreedSettle == 0
	if want == 0 || settles || d.mine.Least != want || !d.Complete(now) {
		return false
	}
	for _, h := range d.others {
		if h.Least != 0 && h.Least < want && d.without&agreedLeast == 0 {
			return false
		}
		if h.Least == 0 && len(h.Processes) > 0 && !d.begun { // the first ones begin together: all with full parts
			return false
		}
	}
	return d.without&agreedSeen != 0 || d.isCounted()
}

// isCounted reports whether the owners at all agents count the statement of this one.
func (d *Division) isCounted() bool {
	return !slices.ContainsFunc(d.alive, func(a string) bool {
		h := d.others[a]
		return h == nil || h.Seen != Seen{d.mine.Life, d.mine.Number}
	})
}
