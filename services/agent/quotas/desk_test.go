package quotas

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/calendar"
	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
)

var monthly = config.Calendar{Zone: "UTC", StartsOn: 1}

// alone returns the desk of an agent that knows one other, and owns all keys.
func alone() *Desk {
	d := New(Options{Agent: "a", Life: 1 << 32, Owner: func(uint64) string { return "a" },
		Limit: func(n *exchange.KeyName) (uint64, calendar.Terms, config.Calendar, bool) {
			return 5, calendar.Terms{Amount: 100 * calendar.Unit}, monthly, n.Limit == "monthly"
		}, Revision: func() int64 { return 1 }})
	d.Changed(time.Second, map[uint64]string{11: "a", 22: "b"})
	d.SetPeriods(time.Second, []Period{{monthly, 24_000, time.Hour, 0}})
	return d
}

func first(limit string, key uint64) exchange.QuotaAsk {
	return exchange.QuotaAsk{Key: key, KeyName: exchange.KeyName{Tenant: "t", Limit: limit, Client: "c"},
		Ask: calendar.Ask{Session: 7, Number: 1, Want: calendar.Unit}}
}

// Messages that this agent cannot take are counted by reason, and nothing is granted for them.
func TestDropped(t *testing.T) {
	d := alone()
	d.Ask(time.Second, 1, &exchange.QuotaAsks{Owner: 33, List: []exchange.QuotaAsk{first("monthly", 5)}})
	bad := first("monthly", 5)
	bad.Want = -1
	d.Ask(time.Second, 1, &exchange.QuotaAsks{Owner: 11, List: []exchange.QuotaAsk{bad, first("other", 5),
		first("monthly", 6)}})
	if got := d.Stats().Dropped; got[owners.Astray] != 1 || got[owners.Unusable] != 1 || got[owners.Unknown] != 2 || d.Keys() > 0 {
		t.Errorf("dropped %v, keys: %v", got, d.Keys())
	}
	for i := range uint64(owners.MaxProcesses + 1) {
		d.Ask(time.Second, i, &exchange.QuotaAsks{Owner: 11, List: []exchange.QuotaAsk{first("monthly", 5)}})
	}
	if got := d.Stats().Dropped[owners.Processes]; got != 1 {
		t.Errorf("%d dropped since their agent has too many processes", got)
	}
}

// What gateways know of one calendar does not count in another one, whose periods may have the same numbers.
func TestOtherCalendar(t *testing.T) {
	periods, revision := monthly, int64(1)
	d := alone()
	d.o.Revision = func() int64 { return revision }
	d.o.Limit = func(*exchange.KeyName) (uint64, calendar.Terms, config.Calendar, bool) {
		return 5, calendar.Terms{Amount: 100 * calendar.Unit}, periods, true
	}
	var session uint64
	next := func() uint64 { session++; return session }
	g := calendar.NewGateway(int64(time.Second), 11, next())
	carry := func() (asked []Booking) {
		for range 10 {
			if m, ok := g.Poll(int64(time.Second), next); ok {
				d.Ask(time.Second, 1, &exchange.QuotaAsks{Owner: 11, List: []exchange.QuotaAsk{{Key: 5,
					KeyName: first("monthly", 5).KeyName, Ask: m}}})
			}
			answers, _, list := d.Take()
			for _, m := range answers[1] {
				for i := range m.List {
					g.Receive(int64(time.Second), m.List[i].Reply, next)
				}
			}
			asked = append(asked, list...)
		}
		return asked
	}
	g.Take(int64(time.Second), 80*calendar.Unit)
	asked := carry()
	d.Booked(time.Second, []Answer{{asked[0].KeyName, calendar.Booked{Session: asked[0].Session, Number: 1,
		Period: 24_000, To: asked[0].Wanted}}})
	if carry(); g.Retry(int64(time.Second), 80*calendar.Unit) != calendar.Admitted {
		t.Fatal("nothing granted")
	}
	carry()
	for _, zone := range []string{"Europe/Berlin", "UTC"} {
		periods.Zone, revision = zone, revision+1
		d.SetPeriods(time.Second, []Period{{periods, 24_000, time.Hour, 0}})
		d.Configured(time.Second)
		g.Take(int64(time.Second), 90*calendar.Unit)
		asked = carry()
		for _, b := range asked {
			if b.Calendar == periods && b.Known != 0 {
				t.Errorf("%v: the end of another calendar is known: %+v", zone, b)
			}
		}
		if len(asked) == 0 || asked[len(asked)-1].Wanted == 0 {
			t.Errorf("%v: nothing is booked: %+v", zone, asked)
		}
	}
}

// A process that has ended, or has sent nothing for a minute, makes room for another one.
func TestProcesses(t *testing.T) {
	d := alone()
	ask := func(now time.Duration, process uint64) {
		d.Ask(now, process, &exchange.QuotaAsks{Owner: 11, List: []exchange.QuotaAsk{first("monthly", 5)}})
	}
	for i := range uint64(owners.MaxProcesses) {
		ask(time.Second, i)
	}
	d.Exited(3)
	ask(time.Second, 1000)
	for i := range uint64(owners.MaxProcesses) {
		ask(time.Minute+time.Second+time.Duration(i), 2000+i)
	}
	if got := d.Stats().Dropped[owners.Processes]; got != 0 || len(d.clients) != owners.MaxProcesses ||
		len(d.numbers) != owners.MaxProcesses {
		t.Errorf("%d dropped, %d processes", got, len(d.clients))
	}
}

// A period's number never goes back, and the next one begins without a word of the coordinators.
func TestPeriods(t *testing.T) {
	d := alone()
	d.Ask(time.Second, 1, &exchange.QuotaAsks{Owner: 11, List: []exchange.QuotaAsk{first("monthly", 5)}})
	period := func() int64 { return d.keys[5].o.Period() }
	d.SetPeriods(2*time.Second, []Period{{monthly, 23_999, time.Hour, 0}})
	if period() != 24_000 {
		t.Errorf("period %d", period())
	}
	d.SetPeriods(2*time.Second, []Period{{monthly, 24_000, time.Second, time.Hour}})
	if d.Due() > 3*time.Second {
		t.Errorf("due at %v", d.Due())
	}
	d.Tick(3 * time.Second)
	if period() != 24_001 {
		t.Errorf("period %d after its end", period())
	}
}

// What an owner has and does not grant goes back when the agent ends, until the coordinators have answered.
func TestClose(t *testing.T) {
	d := alone()
	d.Ask(time.Second, 1, &exchange.QuotaAsks{Owner: 11, List: []exchange.QuotaAsk{first("monthly", 5)}})
	_, _, asked := d.Take()
	if len(asked) != 1 || asked[0].Wanted < 2*calendar.Unit {
		t.Fatalf("%+v", asked)
	}
	name := exchange.KeyName{Tenant: "t", Limit: "monthly", Client: "c"}
	answer := calendar.Booked{Session: asked[0].Session, Number: 1, Period: 24_000, To: asked[0].Wanted}
	d.Booked(time.Second, []Answer{{name, answer}})
	answers, _, _ := d.Take()
	if len(answers[1]) != 1 || answers[1][0].List[len(answers[1][0].List)-1].Granted != calendar.Unit {
		t.Fatalf("%+v", answers)
	}
	d.Close(2 * time.Second)
	for now := 2 * time.Second; now < 4*time.Second; now += time.Second {
		d.Tick(now)
		_, _, last := d.Take()
		if len(last) != 1 || !last[0].Final || last[0].Returned != calendar.Unit {
			t.Fatalf("%v: %+v", now, last)
		}
	}
	d.Booked(4*time.Second, []Answer{{name, answer}})
	d.Tick(5 * time.Second)
	if _, _, last := d.Take(); len(last) != 0 || d.Due() != 0 {
		t.Errorf("%+v after the answer, due %v", last, d.Due())
	}
}

// The ends of many owners are sent in parts, until each is confirmed.
func TestManyEnds(t *testing.T) {
	const many = maxBookings + 100
	d := alone()
	for i := range uint64(many) {
		outbox{d, &key{calendar: monthly}}.Book(calendar.Want{Session: i + 1, Period: 1, Final: true})
	}
	var said []Booking
	for now := time.Second; now < 10*time.Minute; now = max(d.Due(), now+1) {
		d.Tick(now)
		_, _, list := d.Take()
		if len(list) > maxBookings {
			t.Fatalf("%d at once", len(list))
		}
		said = append(said, list...)
	}
	if len(said) < 12*many {
		t.Errorf("%d were sent in ten minutes", len(said))
	}
	for i := range uint64(many) {
		d.Booked(10*time.Minute, []Answer{{exchange.KeyName{}, calendar.Booked{Session: i + 1, Period: 1}}})
	}
	if d.Tick(time.Hour); d.Due() != 0 || len(d.closing.by) != 0 {
		t.Errorf("due %v, %d are not confirmed", d.Due(), len(d.closing.by))
	}
}

// A packet is what its datagrams say together.
func TestEncode(t *testing.T) {
	p := &Packet{}
	for i := range uint64(40) {
		a := first("monthly", i)
		a.Ask = calendar.Ask{Owner: 1, Session: 2, Number: 3, Heard: 4, Period: 5, Brought: 6, Received: 7, Returned: 8,
			Has: -9, Want: 10, Ahead: 11, Known: 12, Unbooked: 16, Granter: 17, Use: calendar.Use{Admitted: 13, Refused: 14, Settled: 15}, Ended: true}
		p.Asks = append(p.Asks, Asks{i, []exchange.QuotaAsk{a}})
		p.Replies = append(p.Replies, Replies{i, []exchange.QuotaReply{{Key: i, Reply: calendar.Reply{Owner: 1, Session: 2,
			Number: 3, Seen: 4, Period: 5, Granted: 6, Left: 7, Amount: 8, Remaining: 9, Known: 10, Unbooked: 12, Refuse: 11,
			Recall: true, Begin: true}}}})
	}
	asks, replies := 0, 0
	for _, m := range Encode(p) {
		if n := proto.Size(m); n > owners.MaxPacket+200 {
			t.Errorf("a datagram of %d bytes", n)
		}
		got := Decode(m)
		for _, a := range got.Asks {
			if a.List[0] != p.Asks[asks].List[0] || a.Process != p.Asks[asks].Process {
				t.Fatalf("%+v", a)
			}
			asks++
		}
		for _, r := range got.Replies {
			if r.List[0] != p.Replies[replies].List[0] || r.Process != p.Replies[replies].Process {
				t.Fatalf("%+v", r)
			}
			replies++
		}
	}
	if asks != 40 || replies != 40 {
		t.Errorf("%d and %d of 40", asks, replies)
	}
}

// Whatever other agents and coordinators say, a desk goes on.
func FuzzReceive(f *testing.F) {
	a := first("monthly", 5)
	whole, _ := proto.Marshal(Encode(&Packet{Asks: []Asks{{1, []exchange.QuotaAsk{a}}}})[0])
	booked, _ := proto.Marshal(&controlv1.Booked{Bookings: []*controlv1.Booking{{Tenant: "t", Limit: "monthly",
		Client: []byte("c"), Session: alone().session + 2, Number: 1, Period: 24_000, To: 5e6}}})
	f.Add(whole, booked, []byte(nil))
	f.Fuzz(func(t *testing.T, packet, answer, periods []byte) {
		d := alone()
		var m gossipv1.Quotas
		var b controlv1.Booked
		var p controlv1.Periods
		for now := time.Second; now < 5*time.Second; now += time.Second {
			if proto.Unmarshal(packet, &m) == nil {
				d.Receive(now, "b", Decode(&m))
			}
			if proto.Unmarshal(answer, &b) == nil {
				d.Booked(now, DecodeBooked(&b))
			}
			if proto.Unmarshal(periods, &p) == nil {
				d.SetPeriods(now, DecodePeriods(&p))
			}
			d.Tick(now)
			if due := d.Due(); due != 0 && due < now {
				t.Errorf("due at %v, and it is %v", due, now)
			}
			_, _, list := d.Take()
			EncodeBookings(list)
		}
	})
}

// Clients are named by what they send: any bytes. Corrections of a session may exceed what it admitted.
func TestBookingsOnTheWire(t *testing.T) {
	name := exchange.KeyName{Tenant: "t", Limit: "monthly", Client: "\xff"}
	want := calendar.Want{Session: 7, Number: 1, Period: 24_000, Wanted: 10}
	want.Admitted, want.Settled = 3, -4
	sent, err := proto.Marshal(EncodeBookings([]Booking{{name, monthly, 77, want}})[0])
	if err != nil {
		t.Fatal(err)
	}
	var got controlv1.Bookings
	if err := proto.Unmarshal(sent, &got); err != nil {
		t.Fatal(err)
	}
	r := got.GetRequests()[0]
	if r.GetSettled() != -4 || r.GetReset_() != 77 {
		t.Errorf("%v", r)
	}
	answers := DecodeBooked(&controlv1.Booked{Bookings: []*controlv1.Booking{{Tenant: r.GetTenant(),
		Limit: r.GetLimit(), Client: r.GetClient(), Session: r.GetSession()}}})
	if len(answers) != 1 || answers[0].KeyName != name {
		t.Errorf("%+v", answers)
	}
}
