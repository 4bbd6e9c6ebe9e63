package slots

import (
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
	"google.golang.org/protobuf/proto"
)

// Encode cuts a packet into datagrams.
func Encode(p *Packet) (out []*gossipv1.Slots) {
	room := 0
	if len(p.Ended) > 0 {
		out = append(out, &gossipv1.Slots{Agents: p.Agents, Ended: p.Ended})
	}
	part := func(n int) *gossipv1.Slots {
		if room -= n; room < 0 || len(out) == 0 {
			out = append(out, &gossipv1.Slots{Agents: p.Agents})
			room = owners.MaxPacket - n
		}
		return out[len(out)-1]
	}
	for i := range p.Asks {
		a := &p.Asks[i]
		part(24)
		at := appendAsks(part(0), a)
		for j := range a.List {
			m := toAsk(&a.List[j])
			if to := part(proto.Size(m) + 3); len(to.Asks) == 0 || to.Asks[len(to.Asks)-1] != at {
				at = appendAsks(to, a)
			}
			at.List = append(at.List, m)
		}
	}
	for i := range p.Replies {
		t := &p.Replies[i]
		part(24)
		at := appendReplies(part(0), t)
		for j := range t.List {
			m := toReply(&t.List[j])
			if to := part(proto.Size(m) + 3); len(to.Replies) == 0 || to.Replies[len(to.Replies)-1] != at {
				at = appendReplies(to, t)
			}
			at.List = append(at.List, m)
		}
	}
	return out
}

func appendAsks(to *gossipv1.Slots, a *Asks) *gossipv1.SlotAsks {
	at := &gossipv1.SlotAsks{Process: a.Process, Sent: a.Sent}
	to.Asks = append(to.Asks, at)
	return at
}

func appendReplies(to *gossipv1.Slots, t *Replies) *gossipv1.SlotReplies {
	at := &gossipv1.SlotReplies{Process: t.Process, Echo: t.Echo}
	to.Replies = append(to.Replies, at)
	return at
}

// Decode returns the packet of a datagram.
func Decode(m *gossipv1.Slots) *Packet {
	p := &Packet{Agents: m.GetAgents(), Ended: m.GetEnded()}
	for _, a := range m.GetAsks() {
		p.Asks = append(p.Asks, Asks{a.GetProcess(), a.GetSent(), owners.Convert(a.GetList(), fromAsk)})
	}
	for _, t := range m.GetReplies() {
		p.Replies = append(p.Replies, Replies{t.GetProcess(), t.GetEcho(), owners.Convert(t.GetList(), fromReply)})
	}
	return p
}

func toAsk(a *exchange.SlotAsk) *gossipv1.SlotAsk {
	return &gossipv1.SlotAsk{Key: a.Key, Tenant: a.Tenant, Limit: a.Limit, Client: []byte(a.Client), Owner: a.Owner,
		Session: a.Session, Number: a.Number, Heard: a.Heard, Register: a.Register, Brought: a.Brought,
		Received: a.Received, Returned: a.Returned, Want: a.Want, Patience: a.Patience, Rate: a.Rate, Stay: a.Stay,
		Released: a.Released, Confirm: a.Confirm}
}

func fromAsk(m *gossipv1.SlotAsk) exchange.SlotAsk {
	name := exchange.KeyName{Tenant: m.GetTenant(), Limit: m.GetLimit(), Client: string(m.GetClient())}
	return exchange.SlotAsk{Key: m.GetKey(), KeyName: name, Ask: slots.Ask{Owner: m.GetOwner(),
		Session: m.GetSession(), Number: m.GetNumber(), Heard: m.GetHeard(), Register: m.GetRegister(),
		Brought: m.GetBrought(), Received: m.GetReceived(), Returned: m.GetReturned(), Want: m.GetWant(),
		Patience: m.GetPatience(), Rate: m.GetRate(), Stay: m.GetStay(), Released: m.GetReleased(),
		Confirm: m.GetConfirm()}}
}

func toReply(t *exchange.SlotReply) *gossipv1.SlotReply {
	return &gossipv1.SlotReply{Key: t.Key, Owner: t.Owner, Session: t.Session, Number: t.Number, Seen: t.Seen,
		Granted: t.Granted, Short: t.Short, Full: t.Full, Answer: t.Answer, Keep: t.Keep, Begin: t.Begin}
}

func fromReply(m *gossipv1.SlotReply) exchange.SlotReply {
	return exchange.SlotReply{Key: m.GetKey(), Reply: slots.Reply{Owner: m.GetOwner(), Session: m.GetSession(),
		Number: m.GetNumber(), Seen: m.GetSeen(), Granted: m.GetGranted(), Short: m.GetShort(), Full: m.GetFull(),
		Answer: m.GetAnswer(), Keep: m.GetKeep(), Begin: m.GetBegin()}}
}
