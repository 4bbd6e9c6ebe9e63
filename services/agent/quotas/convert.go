package quotas

import (
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
)

// Encode cuts a packet into datagrams.
func Encode(p *Packet) (out []*gossipv1.Quotas) {
	room := 0
	part := func(n int) (to *gossipv1.Quotas, fresh bool) {
		if room -= n; room < 0 || len(out) == 0 {
			out = append(out, &gossipv1.Quotas{})
			room, fresh = owners.MaxPacket-n, true
		}
		return out[len(out)-1], fresh
	}
	for i := range p.Asks {
		var at *gossipv1.QuotaAsks
		for j := range p.Asks[i].List {
			m := toAsk(&p.Asks[i].List[j])
			if to, fresh := part(proto.Size(m) + 16); at == nil || fresh {
				at = &gossipv1.QuotaAsks{Process: p.Asks[i].Process}
				to.Asks = append(to.Asks, at)
			}
			at.List = append(at.List, m)
		}
	}
	for i := range p.Replies {
		var at *gossipv1.QuotaReplies
		for j := range p.Replies[i].List {
			m := toReply(&p.Replies[i].List[j])
			if to, fresh := part(proto.Size(m) + 16); at == nil || fresh {
				at = &gossipv1.QuotaReplies{Process: p.Replies[i].Process}
				to.Replies = append(to.Replies, at)
			}
			at.List = append(at.List, m)
		}
	}
	return out
}

// Decode returns the packet of a datagram.
func Decode(m *gossipv1.Quotas) *Packet {
	p := &Packet{}
	for _, a := range m.GetAsks() {
		p.Asks = append(p.Asks, Asks{a.GetProcess(), owners.Convert(a.GetList(), fromAsk)})
	}
	for _, t := range m.GetReplies() {
		p.Replies = append(p.Replies, Replies{t.GetProcess(), owners.Convert(t.GetList(), fromReply)})
	}
	return p
}

func toAsk(a *exchange.QuotaAsk) *gossipv1.QuotaAsk {
	return &gossipv1.QuotaAsk{Key: a.Key, Tenant: a.Tenant, Limit: a.Limit, Client: []byte(a.Client), Owner: a.Owner,
		Session: a.Session, Number: a.Number, Heard: a.Heard, Period: a.Period, Brought: int64(a.Brought),
		Received: int64(a.Received), Returned: int64(a.Returned), Has: int64(a.Has), Want: int64(a.Want),
		Ahead: int64(a.Ahead), Known: int64(a.Known), Unbooked: int64(a.Unbooked), Granter: a.Granter,
		Admitted: int64(a.Admitted), Refused: int64(a.Refused), Settled: int64(a.Settled), Ended: a.Ended}
}

func fromAsk(m *gossipv1.QuotaAsk) exchange.QuotaAsk {
	name := exchange.KeyName{Tenant: m.GetTenant(), Limit: m.GetLimit(), Client: string(m.GetClient())}
	use := calendar.Use{Admitted: calendar.Units(m.GetAdmitted()), Refused: calendar.Units(m.GetRefused()),
		Settled: calendar.Units(m.GetSettled())}
	return exchange.QuotaAsk{Key: m.GetKey(), KeyName: name, Ask: calendar.Ask{Owner: m.GetOwner(),
		Session: m.GetSession(), Number: m.GetNumber(), Heard: m.GetHeard(), Period: m.GetPeriod(),
		Brought: calendar.Units(m.GetBrought()), Received: calendar.Units(m.GetReceived()),
		Returned: calendar.Units(m.GetReturned()), Has: calendar.Units(m.GetHas()), Want: calendar.Units(m.GetWant()),
		Ahead: calendar.Units(m.GetAhead()), Known: calendar.Units(m.GetKnown()),
		Unbooked: calendar.Units(m.GetUnbooked()), Granter: m.GetGranter(), Use: use, Ended: m.GetEnded()}}
}

func toReply(t *exchange.QuotaReply) *gossipv1.QuotaReply {
	return &gossipv1.QuotaReply{Key: t.Key, Owner: t.Owner, Session: t.Session, Number: t.Number, Seen: t.Seen,
		Period: t.Period, Granted: int64(t.Granted), Left: t.Left, Amount: int64(t.Amount),
		Remaining: int64(t.Remaining), Known: int64(t.Known), Unbooked: int64(t.Unbooked), Refuse: t.Refuse,
		Recall: t.Recall, Begin: t.Begin}
}

func fromReply(m *gossipv1.QuotaReply) exchange.QuotaReply {
	return exchange.QuotaReply{Key: m.GetKey(), Reply: calendar.Reply{Owner: m.GetOwner(), Session: m.GetSession(),
		Number: m.GetNumber(), Seen: m.GetSeen(), Period: m.GetPeriod(), Granted: calendar.Units(m.GetGranted()),
		Left: m.GetLeft(), Amount: calendar.Units(m.GetAmount()), Remaining: calendar.Units(m.GetRemaining()),
		Known: calendar.Units(m.GetKnown()), Unbooked: calendar.Units(m.GetUnbooked()), Refuse: m.GetRefuse(),
		Recall: m.GetRecall(), Begin: m.GetBegin()}}
}

// inRange reports whether the numbers of a message can be those of a correct gateway.
func inRange(a *calendar.Ask) bool {
	for _, n := range []calendar.Units{a.Brought, a.Received, a.Returned, a.Want, a.Ahead, a.Known, a.Unbooked,
		a.Admitted, a.Refused} {
		if n < 0 || n > calendar.MaxUnits {
			return false
		}
	}
	for _, n := range []calendar.Units{a.Has, a.Settled} {
		if n < -calendar.MaxUnits || n > calendar.MaxUnits {
			return false
		}
	}
	return a.Period >= 0
}

// usable is the same for a message of an owner.
func usable(t *calendar.Reply) bool {
	for _, n := range []calendar.Units{t.Granted, t.Amount, t.Remaining, t.Known, t.Unbooked} {
		if n < 0 || n > calendar.MaxUnits {
			return false
		}
	}
	return t.Period >= 0 && t.Left >= 0 && t.Refuse >= 0 && t.Refuse <= int64(time.Minute)
}

// pers are the periods on the wire.
var pers = map[config.Per]controlv1.Calendar_Unit{config.Day: controlv1.Calendar_UNIT_DAY,
	config.Week: controlv1.Calendar_UNIT_WEEK, config.Month: controlv1.Calendar_UNIT_MONTH,
	config.Year: controlv1.Calendar_UNIT_YEAR}

func toCalendar(c config.Calendar) *controlv1.Calendar {
	return &controlv1.Calendar{Per: pers[c.Per], Zone: c.Zone, StartsOn: int32(c.StartsOn)}
}

func fromCalendar(m *controlv1.Calendar) (c config.Calendar, ok bool) {
	for per, unit := range pers {
		if unit == m.GetPer() && m.GetStartsOn() >= 0 && m.GetStartsOn() < 32 {
			c = config.Calendar{Per: per, Zone: m.GetZone(), StartsOn: uint8(m.GetStartsOn())}
			return c, c.Validate() == nil
		}
	}
	return c, false
}

// wire returns units of a message, and fromWire of one from outside.
func wire(u calendar.Units) uint64 { return uint64(max(0, u)) }

func fromWire(n uint64) calendar.Units { return calendar.Units(min(n, uint64(calendar.MaxUnits))) }

// maxBookings is the most questions of one message, see booking.proto.
const maxBookings = 4096

// EncodeBookings returns the messages for the coordinators.
func EncodeBookings(list []Booking) (out []*controlv1.Bookings) {
	for len(list) > 0 {
		m := &controlv1.Bookings{}
		for _, b := range list[:min(len(list), maxBookings)] {
			m.Requests = append(m.Requests, &controlv1.BookingRequest{Tenant: b.Tenant, Limit: b.Limit,
				Client: []byte(b.Client), Session: b.Session, Number: b.Number, Calendar: toCalendar(b.Calendar),
				Period: b.Period, Wanted: wire(b.Wanted), Known: wire(b.Known), Returned: wire(b.Returned),
				Admitted: wire(b.Admitted), Refused: wire(b.Refused), Settled: int64(b.Settled), Final: b.Final,
				Reset_: int64(b.Reset)})
		}
		out, list = append(out, m), list[len(m.Requests):]
	}
	return out
}

// DecodeBooked returns the answers of a message.
func DecodeBooked(m *controlv1.Booked) (out []Answer) {
	for _, b := range m.GetBookings() {
		out = append(out, Answer{KeyName: exchange.KeyName{Tenant: b.GetTenant(), Limit: b.GetLimit(),
			Client: string(b.GetClient())}, Booked: calendar.Booked{Session: b.GetSession(), Number: b.GetNumber(),
			Period: b.GetPeriod(), From: fromWire(b.GetFrom()), To: fromWire(b.GetTo()),
			Reason: reasonOf(b)}})
	}
	return out
}

func reasonOf(b *controlv1.Booking) calendar.Reason {
	switch b.GetReason() {
	case controlv1.Booking_REASON_UNSPECIFIED:
		return calendar.Whole
	case controlv1.Booking_REASON_USED_UP:
		return calendar.UsedUp
	case controlv1.Booking_REASON_OTHER_PERIOD:
		return calendar.OtherPeriod
	case controlv1.Booking_REASON_STORE_AWAY:
		if b.GetAmount() > 0 {
			return calendar.NotStored
		}
		return calendar.StoreAway
	}
	return calendar.NotConfigured
}

// DecodePeriods returns the periods of a message that are usable.
func DecodePeriods(m *controlv1.Periods) (out []Period) {
	for _, p := range m.GetPeriods() {
		c, ok := fromCalendar(p.GetCalendar())
		if !ok || p.GetNumber() <= 0 {
			continue
		}
		out = append(out, Period{c, p.GetNumber(), duration(p.GetLeft()), duration(p.GetNext())})
	}
	return out
}

// duration is not negative, and at most some years.
func duration(d *durationpb.Duration) time.Duration {
	return max(0, min(d.AsDuration(), math.MaxInt64/4))
}
