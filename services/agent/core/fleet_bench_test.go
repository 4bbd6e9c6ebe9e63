package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// BenchmarkFleet measures a second of an agent with one gateway in a fleet of N, with K keys that have a request per
// second each, from all their users together. It measures CPU time, and the agent's packets. The other agents are
// played: they claim the keys that the agent owns, send it the sums of the keys that its gateway uses, and
// acknowledge. The clock is virtual. Counted are the events of the core, and that packets are encoded and decoded;
// not sockets and sealing.
func BenchmarkFleet(b *testing.B) {
	for _, c := range []struct{ agents, keys, users int }{
		{100, 10_000, 3}, {100, 100_000, 3}, {100, 1_000_000, 3}, {1000, 100_000, 1000},
	} {
		b.Run(fmt.Sprintf("N=%d/K=%d/users=%d", c.agents, c.keys, c.users), func(b *testing.B) {
			for b.Loop() {
				f := newCrowd(c.agents, c.keys, c.users)
				f.run(20 * time.Second) // all is registered, and new peers are calm
				f.used, f.sent = 0, volume{}
				before := f.agent.peers.Traffic()
				const seconds = 10
				f.run(seconds * time.Second)
				after := f.agent.peers.Traffic()
				b.ReportMetric(f.used.Seconds()/seconds, "cores")
				b.ReportMetric(float64(f.sent.bytes)/seconds, "B/s")
				b.ReportMetric(float64(f.sent.packets)/seconds, "packets/s")
				b.ReportMetric(float64(after.Records-before.Records)/seconds, "records/s")
				b.ReportMetric(float64(f.received)/seconds, "records-in/s")
				b.ReportMetric(float64(after.Deferred-before.Deferred)/seconds, "deferred/s")
				b.ReportMetric(float64(f.late.Milliseconds()), "late-ms")
			}
		})
	}
}

// crowd is an agent and the others, who are played.
type crowd struct {
	agent  *Core
	now    time.Duration
	used   time.Duration // processor time of the agent
	sent   volume
	others []*other
	places map[string]int

	received int           // records
	late     time.Duration // how long something has waited for the budget, the most

	few            bool // gateways use a key, all the time; else all do, each for a second at a time
	perKey         float64
	keys           []exchange.KeyClaim // of the gateway
	owner          map[uint64]int      // of the keys that the gateway uses, as the agent says
	owned          []ownedBy           // keys that the agent owns, one for each user
	use, change    float64             // how many are due
	mine, at, told int                 // whose turn it is
	ended          []ending
	next           uint64 // key
}

type volume struct{ packets, bytes int }

type ownedBy struct {
	key      uint64
	by       int
	admitted float64
}

type ending struct {
	at  time.Duration
	key uint64
	by  int // −1: the gateway
}

// other is another agent.
type other struct {
	name          string
	seq, heard    uint64
	speaks        time.Duration // at the latest
	claims, gone  []*gossipv1.KeyClaim
	sums          []*gossipv1.Sum
	claimSequence uint64
}

const step = period / 2

func newCrowd(agents, keys, users int) *crowd {
	f := &crowd{now: time.Second, places: map[string]int{}, few: users < agents, owner: map[uint64]int{}, next: 1 << 40}
	f.agent = New(Options{Name: "agent", Incarnation: 1, Period: period, T1: 10 * time.Second, T2: 15 * time.Second})
	for i := range agents - 1 {
		o := &other{name: fmt.Sprintf("agent-%03d", i), speaks: f.now + time.Duration(i)*4*time.Second/time.Duration(agents)}
		f.others, f.places[o.name] = append(f.others, o), i
		f.agent.PeerAlive(f.now, o.name, "", true, schedule.Version)
	}
	f.agent.Connected(f.now, 1, link.Hello{Version: link.Version, Replica: "gateway", Generation: 1, Weight: 1}, 0)
	f.perKey = 1 / float64(users)
	if !f.few {
		f.perKey = 1
		for k := range keys / agents {
			f.owned = append(f.owned, ownedBy{key: uint64(k + 1)})
		}
		return f
	}
	for k := range keys * users / agents {
		f.keys = append(f.keys, exchange.KeyClaim{Key: uint64(k+1) << 20, Claim: f.perKey, Unsaturated: f.perKey})
	}
	for k := range keys / agents {
		for u := range users {
			f.owned = append(f.owned, ownedBy{key: uint64(k + 1), by: (k*users + u) % len(f.others)})
		}
	}
	return f
}

// work measures what the agent does.
func (f *crowd) work(do func()) {
	began := processorTime()
	do()
	f.used += processorTime() - began
}

// processorTime is CLOCK_PROCESS_CPUTIME_ID.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

func (f *crowd) run(d time.Duration) {
	f.received, f.late = 0, 0
	for end, n := f.now+d, 0; f.now < end; n++ {
		f.now += step
		if n%2 == 0 {
			claims := f.request()
			f.work(func() { f.agent.Received(f.now, 1, claims) })
		}
		f.work(func() { f.agent.Tick(f.now) })
		f.round(false)
		f.late = max(f.late, f.agent.peers.Traffic().Late)
		f.play()
		for i, o := range f.others {
			if (n+i)%2 == 0 { // each speaks once a period at most
				f.speak(o)
			}
		}
	}
}

// request returns the gateway's message after a period.
func (f *crowd) request() *exchange.Claims {
	out := &exchange.Claims{}
	if !f.few { // 1 request a second for each key over all gateways
		for f.use += float64(len(f.owned)) * period.Seconds(); f.use >= 1; f.use-- {
			f.next += 1 << 20
			out.Keys = append(out.Keys, exchange.KeyClaim{Key: f.next, Claim: 1, Unsaturated: 1, Admitted: 1, Spent: 1})
			f.ended = append(f.ended, ending{f.now + time.Second, f.next, -1})
		}
		for len(f.ended) > 0 && f.ended[0].at <= f.now {
			e := f.ended[0]
			f.ended = f.ended[1:]
			if e.by < 0 {
				out.Withdrawn = append(out.Withdrawn, e.key)
				delete(f.owner, e.key)
			} else {
				o := f.others[e.by]
				o.gone = append(o.gone, &gossipv1.KeyClaim{Key: e.key, Admitted: 1, Left: true})
			}
		}
		return out
	}
	for f.use += float64(len(f.keys)) * f.perKey * period.Seconds(); f.use >= 1; f.use-- {
		k := &f.keys[f.mine%len(f.keys)]
		f.mine++
		k.Admitted++
		k.Spent = 1
		out.Keys = append(out.Keys, *k)
	}
	return out
}

// round sends what is due, and has the others take it.
func (f *crowd) round(soon bool) {
	var out []schedule.Outgoing
	f.work(func() {
		out, _ = f.agent.Round(f.now, soon)
		for _, p := range out {
			encoded, err := proto.Marshal(p.Packet)
			if err != nil {
				panic(err)
			}
			f.sent.packets++
			f.sent.bytes += len(encoded) + 34 + 28 // sealing, and the headers of UDP and IP
		}
	})
	for _, p := range out {
		o := f.others[f.places[p.To]]
		o.heard = p.Packet.GetSeq()
		records := len(p.Packet.GetSums())
		for _, r := range p.Packet.GetReplicas() {
			records += len(r.GetKeys())
			for _, k := range r.GetKeys() {
				f.hear(o, p.To, k)
			}
		}
		if records > 0 {
			o.speaks = min(o.speaks, f.now+period)
		}
	}
}

// hear makes another agent take a claim and answer it.
func (f *crowd) hear(o *other, name string, k *gossipv1.KeyClaim) {
	if k.GetLeft() {
		return
	}
	f.owner[k.GetKey()] = f.places[name]
	if k.GetAsk() {
		o.sums = append(o.sums, f.sum(k.GetKey()))
	}
}

func (f *crowd) sum(key uint64) *gossipv1.Sum {
	f.told++
	return &gossipv1.Sum{Key: key, Claims: 1, Unsaturated: 1, Admitted: float64(f.told), Spent: 1, Others: 2, Epoch: 1}
}

// play has the others' gateways make their requests of half a period.
func (f *crowd) play() {
	claims := float64(len(f.owned)) * f.perKey * step.Seconds()
	for f.change += claims; f.change >= 1; f.change-- {
		f.at++
		k := &f.owned[f.at%len(f.owned)]
		if !f.few { // another gateway comes
			k.by = (k.by + 331) % len(f.others)
			f.ended = append(f.ended, ending{f.now + time.Second, k.key, k.by})
		}
		k.admitted++
		o := f.others[k.by]
		o.claims = append(o.claims, &gossipv1.KeyClaim{Key: k.key, Claim: 1, Admitted: k.admitted, Spent: 1, Ask: !f.few})
	}
	if !f.few {
		return
	}
	// The others' requests for the keys of the gateway: two thirds of all, when three use a key.
	for range int(float64(len(f.keys)) * (1 - f.perKey) * step.Seconds()) {
		f.told++
		key := f.keys[f.told%len(f.keys)].Key
		if by, ok := f.owner[key]; ok {
			o := f.others[by]
			o.sums = append(o.sums, f.sum(key))
		}
	}
}

// speak sends what another agent has to say, if it is due.
func (f *crowd) speak(o *other) {
	o.claims = append(o.claims, o.gone...)
	o.gone = nil
	for f.now >= o.speaks || len(o.claims)+len(o.sums) > 0 {
		o.seq++
		o.claimSequence++
		c, s := min(12, len(o.claims)), min(12, len(o.sums))
		r := &gossipv1.Replica{Name: "gateway of " + o.name, Generation: 1, Process: 1, Seq: o.claimSequence, Weight: 1,
			Keys: o.claims[:c]}
		m := &gossipv1.Packet{Agent: o.name, Incarnation: 1, Seq: o.seq, PromiseMs: 4000,
			Replicas: []*gossipv1.Replica{r}, Sums: o.sums[:s]}
		if o.heard > 0 {
			m.Ack = &gossipv1.Ack{Incarnation: 1, Seq: o.heard, Earlier: 1<<64 - 1}
		}
		o.claims, o.sums, o.speaks = o.claims[c:], o.sums[s:], f.now+4*time.Second
		f.received += c + s
		encoded, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		soon := false
		f.work(func() {
			p := &gossipv1.Packet{}
			if err := proto.Unmarshal(encoded, p); err != nil {
				panic(err)
			}
			_, out := f.agent.ReceivePackets(f.now, p)
			soon = out.GossipSoon
		})
		if soon {
			f.round(true)
		}
	}
}
