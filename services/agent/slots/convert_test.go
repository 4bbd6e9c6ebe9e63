package slots

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/slots"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/owners"
)

func drawAsk(t *rapid.T) exchange.SlotAsk {
	n := rapid.Int64Range(0, 1<<50)
	u := rapid.Uint64()
	return exchange.SlotAsk{Key: u.Draw(t, "key"), KeyName: exchange.KeyName{Tenant: "acme", Limit: "flight",
		Client: string(rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, "client"))}, Ask: slots.Ask{
		Owner: u.Draw(t, "owner"), Session: u.Draw(t, "session"), Number: rapid.Uint32().Draw(t, "number"),
		Heard: rapid.Uint32().Draw(t, "heard"), Register: rapid.Bool().Draw(t, "register"), Brought: n.Draw(t, "brought"),
		Received: n.Draw(t, "received"), Returned: n.Draw(t, "returned"), Want: n.Draw(t, "want"),
		Patience: n.Draw(t, "patience"), Rate: n.Draw(t, "rate"), Stay: n.Draw(t, "stay"),
		Released: rapid.Bool().Draw(t, "released"), Confirm: rapid.Bool().Draw(t, "confirm")}}
}

func drawReply(t *rapid.T) exchange.SlotReply {
	n := rapid.Int64Range(-1, 1<<50)
	u := rapid.Uint64()
	return exchange.SlotReply{Key: u.Draw(t, "key"), Reply: slots.Reply{Owner: u.Draw(t, "owner"),
		Session: u.Draw(t, "session"), Number: rapid.Uint32().Draw(t, "number"), Seen: rapid.Uint32().Draw(t, "seen"),
		Granted: n.Draw(t, "granted"), Short: n.Draw(t, "short"), Full: rapid.Bool().Draw(t, "full"),
		Answer: rapid.Bool().Draw(t, "answer"), Keep: n.Draw(t, "keep"), Begin: rapid.Bool().Draw(t, "begin")}}
}

// What is sent in datagrams comes, and each datagram is short enough.
func TestConvert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &Packet{Agents: rapid.Uint64().Draw(t, "agents")}
		for i := range rapid.IntRange(0, 4).Draw(t, "gateways") {
			want.Asks = append(want.Asks, Asks{uint64(i) + 1, 7, rapid.SliceOfN(rapid.Custom(drawAsk), 0, 9).Draw(t, "asks")})
			want.Replies = append(want.Replies,
				Replies{uint64(i) + 1, 9, rapid.SliceOfN(rapid.Custom(drawReply), 0, 40).Draw(t, "replies")})
		}
		got := &Packet{Agents: want.Agents}
		for _, part := range Encode(want) {
			if n := proto.Size(part); n > owners.MaxPacket+200 {
				t.Fatalf("a datagram of %d bytes", n)
			}
			p := Decode(part)
			for _, a := range p.Asks {
				if n := len(got.Asks); n > 0 && got.Asks[n-1].Process == a.Process {
					got.Asks[n-1].List = append(got.Asks[n-1].List, a.List...)
				} else {
					got.Asks = append(got.Asks, a)
				}
			}
			for _, a := range p.Replies {
				if n := len(got.Replies); n > 0 && got.Replies[n-1].Process == a.Process {
					got.Replies[n-1].List = append(got.Replies[n-1].List, a.List...)
				} else {
					got.Replies = append(got.Replies, a)
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// No bytes from another agent cause a panic or leave a slot.
func FuzzReceive(f *testing.F) {
	one, err := proto.Marshal(Encode(&Packet{Asks: []Asks{{1, 2, []exchange.SlotAsk{{Key: 7, KeyName: name(7),
		Ask: slots.Ask{Session: 1, Number: 1, Register: true, Want: 3, Patience: 20e6}}}}}})[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &gossipv1.Slots{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		fl := newFleet(t, 1, 1, 5)
		d := fl.agents[0].d
		d.Receive(fl.now, "another", Decode(m))
		d.Take()
		for range 60 {
			fl.now += 100e6
			d.Tick(fl.now)
			d.Take()
		}
		if s := d.Stats(); s.Out != 0 {
			t.Errorf("%d slots are out after the gateway was unreachable for 6 s", s.Out)
		}
	})
}
