package quotas

import (
	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/agent/owners"
)

// Packet has the messages of one agent to another.
type Packet struct {
	Asks    []Asks
	Replies []Replies
}

// Asks are the messages of one gateway of the sender.
type Asks struct {
	Process uint64
	List    []exchange.QuotaAsk
}

// Replies are the messages of the sender's owners to one gateway of the addressee.
type Replies struct {
	Process uint64
	List    []exchange.QuotaReply
}

// Booking is a question of an owner here to the coordinators.
type Booking struct {
	exchange.KeyName
	Calendar config.Calendar
	Reset    config.Instant // when the key was reset; 0: never
	calendar.Want
}

func (d *Desk) packet(to string) *Packet { return owners.At(d.packets, to) }

// answer returns the messages of an owner to a process here that wait to be sent.
func (d *Desk) answer(process, life uint64) *exchange.QuotaReplies {
	return d.answers.At(process, life, func() *exchange.QuotaReplies { return &exchange.QuotaReplies{Owner: life} })
}

// reply sends a message that no owner makes.
func (d *Desk) reply(to calendar.Peer, hash uint64, m calendar.Reply) {
	outbox{d, &key{hash: hash}}.Reply(to, m)
}

// outbox sends the messages of a key's owner.
type outbox struct {
	d *Desk
	k *key
}

// Reply sends one to a gateway.
func (o outbox) Reply(to calendar.Peer, m calendar.Reply) {
	d := o.d
	p, known := d.numbers[to]
	if !known {
		return
	}
	d.stats.Replies++
	one := exchange.QuotaReply{Key: o.k.hash, Reply: m}
	if p.Agent == d.o.Agent {
		a := d.answer(p.Number, d.names[d.o.Agent])
		a.List = append(a.List, one)
		return
	}
	packet := d.packet(p.Agent)
	for i := range packet.Replies {
		if packet.Replies[i].Process == p.Number {
			packet.Replies[i].List = append(packet.Replies[i].List, one)
			return
		}
	}
	packet.Replies = append(packet.Replies, Replies{p.Number, []exchange.QuotaReply{one}})
}

// Book sends one to the coordinators.
func (o outbox) Book(w calendar.Want) {
	b := Booking{KeyName: o.k.name, Calendar: o.k.calendar, Reset: o.k.reset, Want: w}
	if w.Final {
		o.d.stats.Dropped[owners.Unconfirmed] += uint64(o.d.closing.add(o.d.now, b))
		return
	}
	o.d.stats.Bookings++
	o.d.bookings = append(o.d.bookings, b)
}

// Take returns what is to be sent, and forgets it: to gateways here by process, to other agents, and to coordinators.
func (d *Desk) Take() (answers map[uint64][]*exchange.QuotaReplies, packets map[string]*Packet, bookings []Booking) {
	answers, packets, bookings = d.answers.Take(), d.packets, d.bookings
	if len(packets) > 0 {
		d.packets = map[string]*Packet{}
	}
	d.bookings = nil
	return answers, packets, bookings
}
