package tokens

import (
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
	"google.golang.org/protobuf/proto"
)

// outbox sends the grants and recalls of the owner of a key.
type outbox struct {
	d   *Desk
	key uint64
}

// Grant sends a grant.
func (o outbox) Grant(to grant.Peer, g grant.Grant) {
	c := o.d.numbers[to]
	if c == nil {
		return // it is gone
	}
	o.d.stats.Grants++
	o.d.grant(c.Process, exchange.TokenGrant{Key: o.key, Grant: g})
}

func (d *Desk) grant(to owners.Process, m exchange.TokenGrant) {
	if to.Agent == d.o.Agent {
		a := d.answer(to.Number)
		a.Grants = append(a.Grants, m)
		return
	}
	out := d.packet(to.Agent)
	out.Grants = append(out.Grants, toGrant(to.Number, &m))
}

// Recall has a recall wait for room on the way to its process.
func (o outbox) Recall(to grant.Peer, _ grant.Recall) {
	if c := o.d.numbers[to]; c != nil {
		o.d.recalling.add(&c.line, o.key)
	}
}

// sendRecalls sends the recalls for which there is room.
func (d *Desk) sendRecalls() {
	d.recalling.send(int64(d.now), func(to *line, key uint64) bool {
		k := d.owned[key]
		if k == nil || k.away {
			return false
		}
		r, open := k.o.Recalling(to.number)
		if open {
			d.sendRecall(to.Process, &exchange.TokenRecall{Key: key, Recall: r})
		}
		return open
	})
}

func (d *Desk) sendRecall(to owners.Process, m *exchange.TokenRecall) {
	d.stats.Recalls++
	if to.Agent == d.o.Agent {
		a := d.answer(to.Number)
		a.Recalls = append(a.Recalls, *m)
		return
	}
	out := d.packet(to.Agent)
	out.Recalls = append(out.Recalls, toRecall(to.Number, m))
}

func (d *Desk) answer(process uint64) *exchange.TokenAnswers {
	return owners.At(d.answers, process)
}

func (d *Desk) packet(agent string) *gossipv1.Tokens {
	return owners.At(d.packets, agent)
}

// Take returns what is to be sent, and forgets it: answers to gateways here by process, and
// packets to other agents.
func (d *Desk) Take() (answers map[uint64]*exchange.TokenAnswers, packets map[string][]*gossipv1.Tokens) {
	d.sendRecalls()
	d.sendCalls()
	if len(d.answers) > 0 {
		answers, d.answers = d.answers, map[uint64]*exchange.TokenAnswers{}
	}
	if len(d.packets) > 0 {
		packets = map[string][]*gossipv1.Tokens{}
		for to, m := range d.packets {
			packets[to] = split(m)
		}
		d.packets = map[string]*gossipv1.Tokens{}
	}
	return answers, packets
}

// split cuts what one agent is sent into packets.
func split(m *gossipv1.Tokens) (out []*gossipv1.Tokens) {
	room := 0
	part := func(n int) *gossipv1.Tokens {
		if room -= n + 3; room < 0 {
			out = append(out, &gossipv1.Tokens{})
			room = owners.MaxPacket - n - 3
		}
		return out[len(out)-1]
	}
	fill(part, m.Requests, func(p *gossipv1.Tokens) *[]*gossipv1.TokenRequest { return &p.Requests })
	fill(part, m.Grants, func(p *gossipv1.Tokens) *[]*gossipv1.TokenGrant { return &p.Grants })
	fill(part, m.Recalls, func(p *gossipv1.Tokens) *[]*gossipv1.TokenRecall { return &p.Recalls })
	for _, x := range m.Lost {
		p := part(8)
		p.Lost = append(p.Lost, x)
	}
	fill(part, m.Calls, func(p *gossipv1.Tokens) *[]*gossipv1.PartCall { return &p.Calls })
	fill(part, m.Answers, func(p *gossipv1.Tokens) *[]*gossipv1.PartAnswer { return &p.Answers })
	if m.View != nil {
		part(proto.Size(m.View)).View = m.View
	}
	if m.Statement != nil {
		part(proto.Size(m.Statement)).Statement = m.Statement
	}
	return out
}

// fill puts each of a list into the packet that part says has room.
func fill[T proto.Message](part func(n int) *gossipv1.Tokens, list []T, field func(*gossipv1.Tokens) *[]T) {
	for _, x := range list {
		in := field(part(proto.Size(x)))
		*in = append(*in, x)
	}
}
