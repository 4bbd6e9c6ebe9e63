package core

import (
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// What an agent takes of its gateways. A gateway may be broken or in the wrong hands, and what it sends goes on to
// other agents and to the coordinator. So each number and each text has a bound. It is next to the number here, in
// packages link, aggregation, tokens, reports, activity, decisions and spent, and in the guarantees. What is beyond
// is cut or dropped, counted, and logged once a minute.

// Doubt says why something of a gateway is dropped or cut.
type Doubt uint8

// The reasons.
const (
	DoubtIdentity Doubt = iota // another living process has that name and generation
	DoubtNumber                // a number is out of its bounds
	DoubtText                  // a text is too long, or no UTF-8
	DoubtRoom                  // there is no room, or the gateway has its part of it
	Doubts
)

// String is the reason's label in metrics.
func (d Doubt) String() string { return [Doubts]string{"identity", "number", "text", "room"}[d] }

const (
	// maxText bounds a name and an ID in bytes, maxReason a reason.
	maxText, maxReason = 256, 1024
	// maxCost bounds costs and amounts of a report, cost units, maxCount its numbers of requests and microseconds.
	maxCost, maxCount = 1e15, 1 << 40
	// maxInterval bounds what a report covers: a gateway without an agent adds up for so long.
	maxInterval = 30 * 24 * time.Hour
	// maxDecisions bounds the decisions of one message, and maxSteps the limits of one.
	maxDecisions, maxSteps = 256, 32
	// doubtsEvery is the least time between two lines about what is dropped.
	doubtsEvery = time.Minute
	// linesAtOnce bounds the lines about what gateways refuse; as many more may come each minute.
	linesAtOnce = 60
)

// doubts counts what is dropped of gateways.
type doubts struct {
	count  [Doubts]uint64
	news   uint64 // since the last line
	last   string // gateway, and
	why    Doubt  // why
	logged time.Duration
}

// doubt counts things that a gateway sent and that are dropped or cut.
func (c *Core) doubt(gateway string, why Doubt, n int) {
	if n > 0 {
		c.doubts.count[why] += uint64(n)
		c.doubts.news += uint64(n)
		c.doubts.last, c.doubts.why = gateway, why
	}
}

// logDoubts logs what was dropped, once a minute.
func (c *Core) logDoubts(now time.Duration) {
	d := &c.doubts
	if d.news == 0 || d.logged != 0 && now-d.logged < doubtsEvery {
		return
	}
	c.log(slog.LevelWarn, "what gateways here send is dropped or cut: identity: another process has the name and "+
		"generation; number: out of its bounds; text: too long, or no UTF-8; room: no room, or more than one "+
		"gateway's part", "dropped", d.news, "last_gateway", d.last, "last_reason", d.why.String())
	d.news, d.logged = 0, max(now, 1)
}

// mayLog reports whether one more line about what a gateway refuses may be logged.
func (c *Core) mayLog(now time.Duration) bool { return c.lines.AllowN(time.Unix(0, int64(now)), 1) }

// believer brings a message into its bounds.
type believer struct{ dropped [Doubts]int }

// text returns a text of at most so many bytes, as UTF-8.
func (b *believer) text(s string, most int) string {
	if len(s) <= most && utf8.ValidString(s) {
		return s
	}
	b.dropped[DoubtText]++
	return strings.ToValidUTF8(strings.Clone(s[:min(len(s), most)]), "?") // a part of it would keep all of it
}

func (b *believer) texts(all ...*string) {
	for _, s := range all {
		*s = b.text(*s, maxText)
	}
}

// names reports whether names are usable: a name that is cut would name something else.
func (b *believer) names(all ...string) bool {
	for _, s := range all {
		if len(s) > maxText || !utf8.ValidString(s) {
			b.dropped[DoubtText]++
			return false
		}
	}
	return true
}

// amounts brings numbers into [0, maxCost].
func (b *believer) amounts(all ...*float64) {
	for _, v := range all {
		if *v < -1 || *v > maxCost { // else it is rounded
			b.dropped[DoubtNumber]++
		}
		*v = min(max(0, *v), maxCost)
	}
}

func (b *believer) counts(c *exchange.Counts) {
	for _, n := range c.Fields() {
		if *n > maxCount {
			b.dropped[DoubtNumber]++
			*n = maxCount
		}
	}
}

// first returns the first of a list, so many at most.
func first[T any](b *believer, list []T, most int) []T {
	if len(list) > most {
		b.dropped[DoubtRoom] += len(list) - most
		list = list[:most]
	}
	return list
}

// keep leaves those of a list for which is returns true, in its memory.
func keep[T any](list []T, is func(*T) bool) []T {
	kept := list[:0]
	for i := range list {
		if is(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// bound brings a message of a gateway into its bounds. The message belongs to the agent. Claims, Spent and questions
// for tokens are bounded where they are taken.
func (c *Core) bound(g *gateway, m link.Message) {
	var b believer
	switch m := m.(type) {
	case *exchange.Report:
		b.report(m)
	case *exchange.Decisions:
		b.decisions(m)
	case *exchange.Names:
		for _, list := range [][]string{m.Identities, m.Classes, m.Costs} {
			for i := range list {
				b.texts(&list[i])
			}
		}
	case *link.Refused:
		m.Total = min(m.Total, math.MaxInt32)
		for i := range m.Limits {
			l := &m.Limits[i]
			b.leftOut(l)
		}
	case *link.Heartbeat:
		m.Reason = b.text(m.Reason, maxReason)
		m.Features = b.text(m.Features, maxReason)
	}
	for why, n := range b.dropped {
		c.doubt(g.Gateway, Doubt(why), n)
	}
}

func (b *believer) leftOut(l *config.LeftOut) { b.texts(&l.Tenant, &l.Limit, &l.Reason) }

func (b *believer) report(m *exchange.Report) {
	if m.Interval < 0 || m.Interval > maxInterval {
		b.dropped[DoubtNumber]++
		*m = exchange.Report{}
		return
	}
	m.Flows = keep(m.Flows, func(f *exchange.FlowReport) bool {
		b.amounts(&f.Demand, &f.Served, &f.Waiting, &f.Marked, &f.Rejected, &f.ClientRejected, &f.Shadowed,
			&f.Completed, &f.Residence, &f.Shed, &f.InFlight)
		b.counts(&f.Counts)
		return b.names(f.Tenant, f.Pool)
	})
	m.Limits = keep(m.Limits, func(l *exchange.LimitCounts) bool {
		b.counts(&l.Counts)
		return b.names(l.Tenant, l.Limit)
	})
	if m.Parts > exchange.MaxClientParts {
		b.dropped[DoubtRoom] += len(m.Clients)
		m.Parts, m.Clients = 0, nil
	}
	m.Clients = first(b, m.Clients, exchange.MaxPartClients)
	for i := range m.Clients {
		x := &m.Clients[i]
		x.Client = strings.ToValidUTF8(x.Client, "\ufffd") // a client may choose any bytes
		x.Tenant, x.Pool = strings.ToValidUTF8(x.Tenant, "\ufffd"), strings.ToValidUTF8(x.Pool, "\ufffd")
		b.texts(&x.Tenant, &x.Pool, &x.Limit)
		x.Client = b.text(x.Client, 2*maxText)
		b.amounts(&x.Count, &x.Error)
	}
}

func (b *believer) decisions(m *exchange.Decisions) {
	m.List = first(b, m.List, maxDecisions)
	for i := range m.List {
		d := &m.List[i]
		b.texts(&d.Request, &d.Tenant, &d.Client, &d.Pool, &d.Reason, &d.Limit, &d.HeldBy)
		d.Limits = first(b, d.Limits, maxSteps)
		for j := range d.Limits {
			b.texts(&d.Limits[j].Name, &d.Limits[j].Client)
		}
	}
}
