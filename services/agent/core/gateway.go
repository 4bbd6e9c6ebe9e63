package core

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/aggregation"
	"github.com/titrate/titrate/services/agent/reports"
)

// Link is a connection to a gateway, as the caller numbers them: no number comes twice.
type Link uint64

// Process is one life of a gateway.
type Process = reports.Process

// presence is the state of a gateway's process and link.
type presence uint8

const (
	connected    presence = iota
	disconnected          // the link is gone, the process may live on
	exited                // the process is gone
)

// gateway is one filter process, from its Hello until it is forgotten.
type gateway struct {
	Process
	number uint64 // see processNumber
	state  presence
	since  time.Duration // of the state
	pid    int           // 0: not known
	link   Link          // while connected
	facts
}

// facts are the properties of a gateway on its present link.
type facts struct {
	hello     link.Hello
	heartbeat link.Heartbeat
	unsent    link.Heartbeat  // a configuration that could not be sent, as a refusal
	names     *exchange.Names // nil: not received, or link version 1
	leftOut   link.Refused

	overBudget   uint64        // requests for keys beyond the filter's budget, and
	overBudgetAt time.Duration // when that rose last

	sentSums      exchange.Sums // without flows and keys
	sumsStamp     uint64        // up to which it was sent them
	sent          sent          // of the configuration
	loggedRefusal int64         // configuration whose refusal was logged
}

// sent is the configuration that a gateway was sent last.
type sent struct {
	revision int64
	any      bool // one was sent
	change   bool // it was sent as a change of the one before
}

// Connected notes a gateway whose Hellos are exchanged. hello.Version is the version of
// the link that both sides understand; pid is 0 if the process is not known. It sends the
// gateway all that is in force.
func (c *Core) Connected(now time.Duration, at Link, hello link.Hello, pid int) Effects {
	c.run(now)
	id := Process{Gateway: hello.Replica, Generation: hello.Generation}
	g := c.gateways[id]
	if g != nil && g.isOther(pid) {
		c.doubt(id.Gateway, DoubtIdentity, 1)
		c.out.Close = append(c.out.Close, at)
		return c.take()
	}
	if g == nil {
		c.makeRoom(now, pid)
		g = &gateway{Process: id, number: processNumber(id)}
		c.gateways[id] = g
	} else if g.state == connected {
		delete(c.links, g.link)
		c.out.Close = append(c.out.Close, g.link)
	}
	g.state, g.since, g.pid, g.link, g.facts = connected, now, pid, at, facts{hello: hello}
	c.links[at] = g
	c.processes[g.number] = g
	c.aggregator.Connect(now, id.Gateway, id.Generation, hello.Weight)
	if hello.Again {
		c.aggregator.HadAgent(now, id.Gateway, id.Generation)
	}
	c.peers.HeadsChanged(now)
	if s := c.spent.For(now, id.Gateway); s != nil {
		c.send(g, s)
	}
	c.sendStateTo(g)
	sums, stamp := c.sumsFor(now, g, 0)
	g.noteSums(sums)
	g.sumsStamp = stamp
	c.send(g, sums)
	c.setOwners(now)
	for _, d := range c.tokens {
		d.Connected(now, g.number)
	}
	return c.take()
}

// isOther reports whether a process with the name and generation of this one is another one, by the kernel's word.
// Then it may not take its link and speak for it.
func (g *gateway) isOther(pid int) bool {
	return g.state != exited && g.pid != 0 && pid != 0 && g.pid != pid
}

// maxProcesses bounds the gateways' processes that are known, as many as other agents take of one agent.
const maxProcesses = 256

// makeRoom forgets processes without a link before their time, if there are too many. First go the processes that the
// kernel takes for the process that comes, which says another name or generation each time. Then go the processes
// without a link for longest.
func (c *Core) makeRoom(now time.Duration, pid int) {
	for len(c.gateways) >= maxProcesses {
		var out *gateway
		for _, g := range c.gateways {
			if g.state != connected && (out == nil || g.before(out, pid)) {
				out = g
			}
		}
		if out == nil {
			return
		}
		c.doubt(out.Gateway, DoubtRoom, 1)
		c.lose(now, out.number)
		c.forget(now, out)
	}
}

// before reports whether a process is forgotten before another one, when a process with this number of the kernel's
// needs room.
func (g *gateway) before(h *gateway, pid int) bool {
	same := func(g *gateway) bool { return pid != 0 && g.pid == pid }
	if same(g) != same(h) {
		return same(g)
	}
	return cmp.Or(cmp.Compare(g.since, h.since), cmp.Compare(g.Gateway, h.Gateway),
		cmp.Compare(g.Generation, h.Generation)) < 0
}

// Received takes a message of a gateway.
func (c *Core) Received(now time.Duration, from Link, m link.Message) Effects {
	c.run(now)
	g := c.links[from]
	if g == nil {
		return c.take() // a newer link of the process has replaced this one, or this agent stood still
	}
	c.bound(g, m)
	switch m := m.(type) {
	case *exchange.Claims:
		c.setOwners(now)
		bad, full := c.aggregator.Announce(now, g.Gateway, g.Generation, m)
		c.doubt(g.Gateway, DoubtNumber, bad)
		c.doubt(g.Gateway, DoubtRoom, full)
		c.out.GossipSoon = c.peers.Pending()
	case *exchange.Report:
		c.doubt(g.Gateway, DoubtRoom, c.reports.Add(now, g.Process, m))
		c.activity.Add(now, g.Gateway, m)
		c.logUnasked(now, g, m)
	case *exchange.TokenRequests:
		c.setOwners(now)
		c.tokens[exchange.ScopeOf(m.Global)].Ask(now, g.number, m)
	case *exchange.SlotAsks:
		c.setOwners(now)
		c.beginSlots(now)
		c.slots.Ask(now, g.number, m)
	case *exchange.QuotaAsks:
		c.setOwners(now)
		c.beginSlots(now)
		c.quotas.Ask(now, g.number, m)
	case *exchange.Decisions:
		c.decisions.Add(now, g.Gateway, m)
	case *exchange.Spent:
		c.doubt(g.Gateway, DoubtNumber, c.spent.Add(now, g.Gateway, g.Generation, m))
	case *exchange.Names:
		g.names = m
	case *link.Refused:
		g.leftOut = *m
		c.logLeftOut(now, g)
	case *link.Heartbeat:
		c.receiveHeartbeat(now, g, m)
	}
	return c.take()
}

func (c *Core) receiveHeartbeat(now time.Duration, g *gateway, m *link.Heartbeat) {
	g.heartbeat = *m
	if m.Parted > g.overBudget {
		g.overBudget, g.overBudgetAt = m.Parted, now
	}
	if m.Refused != 0 && m.Refused != g.loggedRefusal && c.mayLog(now) {
		c.log(slog.LevelError, "a gateway refused the configuration; its older one stays in force",
			"gateway", g.Gateway, "revision", m.Refused, "in_force", m.Revision, "reason", m.Reason)
	}
	g.loggedRefusal = m.Refused
	c.resend(now, g, m.Refused)
}

// unaskedEvery is the least time between two lines about limits that ask about too many keys.
const unaskedEvery = time.Minute

// logUnasked logs which limit has asked about so many keys that the ledger decides for new ones.
func (c *Core) logUnasked(now time.Duration, g *gateway, r *exchange.Report) {
	if c.unaskedLogged != 0 && now-c.unaskedLogged < unaskedEvery {
		return
	}
	for i := range r.Limits {
		if l := &r.Limits[i]; l.Counts.OwnerUnasked > 0 {
			c.unaskedLogged = now
			c.log(slog.LevelWarn, "an EXACT limit has used up its part of its gateway's questions or keys: new keys "+
				"of it go by the ledger meanwhile, other limits are not concerned; are its clients' names invented?",
				"tenant", l.Tenant, "limit", l.Limit, "gateway", g.Gateway, "requests", l.Counts.OwnerUnasked)
			return
		}
	}
}

func (c *Core) logLeftOut(now time.Duration, g *gateway) {
	if len(g.leftOut.Limits) == 0 || !c.mayLog(now) {
		return
	}
	first := g.leftOut.Limits[0]
	c.log(slog.LevelError,
		"a gateway does not enforce some limits: it is older than they are, or refuses them; upgrade it",
		"gateway", g.Gateway, "revision", g.leftOut.Revision, "limits", g.leftOut.Total,
		"tenant", first.Tenant, "limit", first.Limit, "reason", first.Reason)
}

// ConfigSent notes that a configuration was sent to a gateway, or why it could not be
// encoded: that counts as the gateway's refusal.
func (c *Core) ConfigSent(to Link, revision int64, err error) {
	g := c.links[to]
	switch {
	case g == nil:
	case err == nil:
		g.unsent = link.Heartbeat{}
	default:
		g.unsent = link.Heartbeat{Refused: revision, Reason: "the agent cannot send it: " + err.Error()}
		g.sent.any = g.sent.revision != revision // the next one is sent whole
	}
}

// Disconnected notes that a link is gone. The gateway's process may live on without it,
// so its claims count until T2.
func (c *Core) Disconnected(now time.Duration, from Link) {
	g := c.links[from]
	if g == nil {
		return
	}
	delete(c.links, from)
	g.state, g.since, g.link = disconnected, now, 0
	c.aggregator.Disconnect(now, g.Gateway, g.Generation)
}

// Exited notes that the process of a gateway that is disconnected is gone: its claims are
// withdrawn.
func (c *Core) Exited(now time.Duration, p Process) Effects {
	g := c.gateways[p]
	if g == nil || g.state != disconnected {
		return Effects{}
	}
	g.state, g.since = exited, now
	c.reports.Drop(p)
	c.lose(now, g.number)
	c.slots.Exited(now, g.number)
	c.quotas.Exited(g.number)
	c.aggregator.Exit(now, p.Gateway, p.Generation)
	c.peers.HeadsChanged(now)
	c.out.GossipSoon = true
	return c.take()
}

// MayHaveExited returns the processes of gateways that are disconnected, with their PIDs
// as the kernel knows them, for the caller to look whether they live.
func (c *Core) MayHaveExited() map[Process]int {
	var out map[Process]int
	for p, g := range c.gateways {
		if g.state == disconnected && g.pid > 0 {
			if out == nil {
				out = map[Process]int{}
			}
			out[p] = g.pid
		}
	}
	return out
}

// forgetGateways forgets gateways that no other agent needs to know any more.
func (c *Core) forgetGateways(now time.Duration) {
	for _, g := range c.gateways {
		if g.state == exited && now-g.since > aggregation.Linger || g.state == disconnected && now-g.since > c.o.T2 {
			c.forget(now, g)
		}
	}
}

func (c *Core) forget(now time.Duration, g *gateway) {
	delete(c.gateways, g.Process)
	delete(c.processes, g.number)
	c.reports.Drop(g.Process)
	c.aggregator.Forget(now, g.Gateway, g.Generation)
}

// HasLink reports whether a gateway of a name is connected.
func (c *Core) HasLink(gateway string) bool {
	for _, g := range c.links {
		if g.Gateway == gateway {
			return true
		}
	}
	return false
}

// Empty reports that no gateway is connected, and none lives on without a link.
func (c *Core) Empty() bool {
	for _, g := range c.gateways {
		if g.state != exited {
			return false
		}
	}
	return true
}

// connected returns the gateways that are connected, by name and generation.
func (c *Core) connected() []*gateway {
	return slices.SortedFunc(maps.Values(c.links), func(a, b *gateway) int {
		return cmp.Or(cmp.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Generation, b.Generation))
	})
}

// noteSums keeps the membership that a gateway was sent.
func (g *gateway) noteSums(s *exchange.Sums) {
	g.sentSums = *s
	g.sentSums.Flows, g.sentSums.Keys, g.sentSums.Lag = nil, nil, 0
}

// sumsSince is the stamp of the sums that a gateway has; 0: it needs all of them. A filter that was alone has not read
// the sums that it was sent.
func (g *gateway) sumsSince() uint64 {
	if g.sentSums.Replicas <= 1 {
		return 0
	}
	return g.sumsStamp
}

// inForce returns the configuration in force at a gateway and the refused one.
func (g *gateway) inForce() link.Heartbeat {
	in := g.heartbeat
	if g.unsent.Refused != 0 {
		in.Refused, in.Reason = g.unsent.Refused, g.unsent.Reason
	}
	return in
}

// isDouble reports that two processes of one name are not the parent and the child of a
// hot restart: both are connected, and neither follows the other.
func isDouble(a, b *gateway) bool {
	if a.Gateway != b.Gateway || a.Generation == b.Generation || a.hello.Restart == 0 || b.hello.Restart == 0 {
		return false
	}
	step := a.hello.Restart - b.hello.Restart
	return step != 1 && step != -1
}

// findDoubles looks for Envoys that were given one name, and logs each name once.
func (c *Core) findDoubles() {
	now := map[string]bool{}
	all := c.connected()
	for i, a := range all {
		for _, b := range all[:i] {
			if now[a.Gateway] || !isDouble(a, b) {
				continue
			}
			now[a.Gateway] = true
			if !c.doubled[a.Gateway] {
				c.doubles++
				c.log(slog.LevelError, "two Envoys have one replica name: each counts as a hot restart of the "+
					"other, and their limits are not added up; give each Envoy its own replica",
					"gateway", a.Gateway, "pids", []int{a.pid, b.pid})
			}
		}
	}
	c.doubled = now
}
