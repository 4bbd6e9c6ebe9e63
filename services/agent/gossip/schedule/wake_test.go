package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/delivery"
	"pgregory.net/rapid"
)

// needsLook reports whether a walk through all peers would do something for one.
func needsLook(p *Peers, now time.Duration, at *peer) bool {
	left, flies := at.box.Unheard()
	n := time.Duration(at.box.Places())
	return p.mayComeBack(now, at) && (p.isDue(now, at, p.keepalive(now)) || flies && now-left > p.patience(at) ||
		n > 0 && n*(now-at.refreshed) >= p.cycle(now, at) && now-at.sent >= p.least(at)) // a new place has it come earlier
}

// Whatever happens to many peers, a round looks at all that a walk through all of them would do
// something for.
func TestNoPeerIsOverlooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, from, now := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}, time.Second
		name := func() string { return fmt.Sprint("peer-", rapid.IntRange(0, 29).Draw(t, "peer")) }
		for i := range 30 {
			p.Alive(now, fmt.Sprint("peer-", i), "", true, Version)
		}
		sent := map[string]uint64{}
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 300).Draw(t, "steps")
		for _, step := range steps {
			switch at := p.by[name()]; {
			case at == nil:
				p.Alive(now, name(), "", true, Version)
			case step == 0:
				p.Alive(now, at.name, "", rapid.Bool().Draw(t, "new life"), Version)
			case step == 1:
				p.Failed(now, at.name)
			case step == 2:
				p.HeadsChanged(now)
				p.SetAbroad(at.name, rapid.SampledFrom([]int{0, 1, 100}).Draw(t, "pairs"))
			case step <= 5:
				p.Tell(now, at.name, delivery.Item{Key: uint64(step)}, delivery.Urgency(step%3))
			default:
				sent[at.name]++
				m := &gossipv1.Packet{Agent: at.name, Incarnation: 1, Seq: sent[at.name],
					PromiseMs: uint32(rapid.SampledFrom([]int{50, 500, 4000}).Draw(t, "promise")), Leaving: step == 9 && now%7 == 0,
					Ack: &gossipv1.Ack{Incarnation: 1, Seq: at.seq}}
				if step == 6 {
					m.Sums = []*gossipv1.Sum{{Key: 1}}
				}
				p.Receive(now, m)
			}
			now += rapid.SampledFrom([]time.Duration{1, period / 4, period / 2, time.Second, 10 * time.Second}).Draw(t, "time")
			var need []*peer
			for _, at := range p.ordered() {
				if needsLook(p, now, at) {
					need = append(need, at)
				}
			}
			looked := p.looked(now, false)
			for _, at := range need {
				if !slices.Contains(looked, at) {
					left, flies := at.box.Unheard()
					t.Fatalf("%s is overlooked: alive %v, waiting %d, sent %v ago, heard %v ago, flies %v since %v ago, %d places "+
						"refreshed %v ago", at.name, at.alive, at.box.Waiting(), now-at.sent, now-at.heard, flies, now-left,
						at.box.Places(), now-at.refreshed)
				}
			}
			for _, at := range looked { // as they were
				p.look(at)
			}
			p.Round(now, false, false, from)
		}
	})
}

// The longest delay and the items that wait at peers equal the result of a walk through all.
func TestLongestDelayIsThatOfAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, from, now := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}, time.Second
		for i := range 20 {
			p.Alive(now, fmt.Sprint("peer-", i), "", true, Version)
		}
		told := map[string]time.Duration{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p.Round(now, false, false, from)
			at := p.by[fmt.Sprint("peer-", rapid.IntRange(0, 19).Draw(t, "peer"))]
			now += rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second}).Draw(t, "time")
			told[at.name] = time.Duration(rapid.IntRange(0, 3).Draw(t, "late")) * time.Millisecond
			p.Receive(now, &gossipv1.Packet{Agent: at.name, Incarnation: 1, Seq: at.lastSeq + 1, PromiseMs: 50,
				LateMs: uint32(told[at.name].Milliseconds()), Ack: &gossipv1.Ack{Incarnation: 1, Seq: at.seq}})
			delay, late := time.Duration(0), time.Duration(0)
			for _, at := range p.by {
				if p.isHeard(now, at) {
					delay, late = max(delay, at.delays.Value()), max(late, told[at.name])
				}
			}
			if got := p.Delay(now); got != delay {
				t.Fatalf("delay %v, want %v", got, delay)
			}
			if got := p.Late(now); got != late {
				t.Fatalf("late %v, want %v", got, late)
			}
		}
	})
}

// Of many items refreshRate are sent again in a second, and all have their turn.
func TestRefreshIsBounded(t *testing.T) {
	p, from, now := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}, time.Second
	const peers, items = 4, 20_000
	for i := range peers {
		p.Alive(now, fmt.Sprint("peer-", i), "", true, Version)
		for k := range uint64(items) {
			p.Tell(now, fmt.Sprint("peer-", i), delivery.Item{Key: uint64(i)<<32 | k}, delivery.Normal)
		}
	}
	run := func(long time.Duration) {
		for end := now + long; now < end; now += period / 2 {
			out, _ := p.Round(now, false, false, from)
			for _, o := range out {
				p.Receive(now, &gossipv1.Packet{Agent: o.To, Incarnation: 1, Seq: o.Packet.Seq, PromiseMs: 4000,
					Ack: &gossipv1.Ack{Incarnation: 1, Seq: o.Packet.Seq}})
			}
		}
	}
	for run(disturbedFor); p.Traffic().Waiting > 0; {
		run(time.Second)
	}
	clear(from.put)
	before, seconds := p.Traffic().Records, 4*refreshCycle*period/time.Second
	run(seconds * time.Second)
	if n := p.Traffic().Records - before; n > uint64(seconds)*refreshRate || len(from.put) < peers*items {
		t.Errorf("%d items of %d are sent again in %d s, %d times", len(from.put), peers*items, seconds, n)
	}
}

// Agents of two sites together send no more than sitePackets each way, however much changes, and even where packets
// are lost. What changes after a pause is sent at once.
func TestPacketsToAnotherSiteAreBounded(t *testing.T) {
	const here, there, seconds = 5, 8, 20
	p, from, now := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}, time.Second
	for i := range there {
		p.Alive(now, fmt.Sprint("peer-", i), "", true, Version)
		p.SetAbroad(fmt.Sprint("peer-", i), here*there)
	}
	packets, records := 0, p.Traffic().Records
	for tick := range seconds * int(2*time.Second/period) {
		now += period / 2
		for i := range there {
			p.Tell(now, fmt.Sprint("peer-", i), delivery.Item{Key: uint64(tick % 100)}, delivery.Urgent)
		}
		out, _ := p.Round(now, false, false, from)
		packets += len(out)
		for _, o := range out {
			if o.Packet.Seq%5 > 0 { // an acknowledgement that comes at once
				p.Receive(now, &gossipv1.Packet{Agent: o.To, Incarnation: 1, Seq: o.Packet.Seq, PromiseMs: 500,
					Ack: &gossipv1.Ack{Incarnation: 1, Seq: o.Packet.Seq}})
			}
		}
	}
	told := uint64(there * seconds * int(2*time.Second/period))
	if records = p.Traffic().Records - records; packets*here > sitePackets*seconds*11/10 || records > told*4/3 {
		t.Errorf("%d packets a second from one site to the other, and %d records of %d", packets*here/seconds, records, told)
	}
	now += time.Minute
	p.Round(now, false, false, from)
	now += time.Second
	p.Tell(now, "peer-0", delivery.Item{Key: 1}, delivery.Normal)
	if due := p.Due(); due > now {
		t.Errorf("a lone change waits for %v", due-now)
	}
}

// What a peer has acknowledged costs no packet, but for one in refreshCycle periods: however few items it is sent.
func TestWhatIsKnownCostsNothing(t *testing.T) {
	p, from, now := NewPeers("me", 1, period, 15*time.Second), source{map[delivery.Item]int{}}, time.Second
	const peers, items = 40, 5
	for i := range peers {
		p.Alive(now, fmt.Sprint("peer-", i), "", true, Version)
		for k := range uint64(items) {
			p.Tell(now, fmt.Sprint("peer-", i), delivery.Item{Key: k}, delivery.Normal)
		}
	}
	round := func() {
		now += period / 2
		out, _ := p.Round(now, false, false, from)
		for _, o := range out {
			p.Receive(now, &gossipv1.Packet{Agent: o.To, Incarnation: 1, Seq: o.Packet.Seq, PromiseMs: 4000,
				Ack: &gossipv1.Ack{Incarnation: 1, Seq: o.Packet.Seq}})
		}
	}
	for range 2 * int(disturbedFor/period) { // they have just come
		round()
	}
	before := p.Traffic().Records
	for range 2 * refreshCycle {
		round()
	}
	if n := p.Traffic().Records - before; n < peers*items*9/10 || n > peers*items*11/10 {
		t.Errorf("%d records in %d periods in which nothing changed, want about %d: each once", n, refreshCycle, peers*items)
	}
}
