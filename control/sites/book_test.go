package sites

import (
	"math/rand/v2"
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"pgregory.net/rapid"
)

const ms, sec = int64(1e6), int64(1e9)

// site is an owner with one gateway that asks for each request.
type site struct {
	o        *grant.Owner
	book     *Book
	number   uint32
	admitted int64 // millionths
	answer   grant.Grant
	reports  []report // of the others, by site: the latest that came
	offered  float64  // requests per second
}

// report has the numbers that a site sends of itself.
type report struct {
	number, due int64
	sum         exchange.KeySum
}

func (s *site) Grant(_ grant.Peer, g grant.Grant) { s.answer = g }
func (s *site) Recall(grant.Peer, grant.Recall)   {}
func (s *site) CallPart(grant.Peer)               {}

// fleet is sites on virtual time.
type fleet struct {
	p        Params
	rng      *rand.Rand
	sites    []*site
	inFlight []report // by number they are of site number%len(sites), to all others
	to       []int
	delay    int64
	loss     float64
	reports  int64
	cut      func(now int64) bool
}

func newFleet(seed uint64, p Params, delay int64, loss float64) *fleet {
	f := &fleet{p: p, rng: rand.New(rand.NewPCG(seed, 1)), delay: delay, loss: loss, cut: func(int64) bool { return false }}
	for range p.Sites {
		s := &site{o: grant.NewOwner(grant.Params{Rate: p.Rate, Burst: p.Burst}, 1, 0),
			reports: make([]report, p.Sites)}
		s.o.SetAbroad(0, true, s)
		f.sites = append(f.sites, s)
	}
	return f
}

// request reports whether a site admits a request of one unit.
func (s *site) request(now int64) bool {
	s.number++
	q := grant.Request{Session: 1, Owner: 1, Number: s.number, Seq: s.number, Need: grant.Token, Least: grant.Token,
		Granted: s.answer.Granted, Spent: s.admitted, Returned: s.answer.Granted - s.admitted}
	if s.number == 1 {
		q = grant.Request{Session: 1, Number: 1, Seq: 1, Need: grant.Token, Least: grant.Token, Register: true, Level: -1}
	}
	s.answer.Admit = 0
	s.o.Request(now, 7, q, s)
	if s.answer.Seq != s.number || s.answer.Admit < grant.Token {
		return false
	}
	s.admitted += grant.Token
	return true
}

// publish sends the others what a site has admitted.
func (f *fleet) publish(now int64, i int) {
	s := f.sites[i]
	spent := units(s.o.Level(now) - s.o.Out())
	own := min(spent, units(s.admitted))
	if s.book != nil {
		own = min(own, s.book.l.Own())
	}
	for j := range f.sites {
		if j == i || f.cut(now) || f.rng.Float64() < f.loss {
			continue
		}
		f.reports++
		f.inFlight = append(f.inFlight, report{f.reports, now + f.delay/2 + f.rng.Int64N(f.delay), exchange.KeySum{
			Admitted: units(s.admitted), Spent: spent, Own: own, Claims: 1, Epoch: 1}})
		f.to = append(f.to, i*len(f.sites)+j)
	}
}

// deliver gives the sites what has come.
func (f *fleet) deliver(now int64) {
	kept, to := f.inFlight[:0], f.to[:0]
	for k, r := range f.inFlight {
		from, at := f.to[k]/len(f.sites), f.sites[f.to[k]%len(f.sites)]
		if r.due > now {
			kept, to = append(kept, r), append(to, f.to[k])
			continue
		}
		if r.number > at.reports[from].number {
			at.reports[from] = r
			at.receive(now, f.p)
		}
	}
	f.inFlight, f.to = kept, to
}

func (s *site) receive(now int64, p Params) {
	var sum exchange.KeySum
	for _, r := range s.reports {
		sum.Admitted, sum.Own, sum.Claims = sum.Admitted+r.sum.Admitted, sum.Own+r.sum.Own, sum.Claims+r.sum.Claims
		sum.Spent, sum.Epoch = max(sum.Spent, r.sum.Spent), 1
	}
	spent, admitted := s.o.Level(now)-s.o.Out(), s.o.Admitted(now)
	if s.book == nil {
		s.book = NewBook(p, now, spent, admitted)
	}
	s.o.Charge(now, now-int64(p.Lag*1e9), s.book.Receive(p, now, spent, admitted, &sum), p.Deepest(), s)
}

// bucket is one bucket for all.
type bucket struct{ d, at float64 }

func (b *bucket) admits(p Params, now int64) bool {
	t := seconds(now)
	b.d, b.at = max(0, b.d-p.Rate*(t-b.at)), t
	if b.d+1 > units(p.Burst)+1e-9 {
		return false
	}
	b.d++
	return true
}

// result has the counts of a run.
type result struct {
	central, admitted, wrongful, offered float64
	excess                               float64 // the most over r·t + b in a window
}

func (f *fleet) run(until int64, step int64) (r result) {
	var one bucket
	level, last := 0.0, int64(0) // of the excess: D of a bucket that admits all
	for now := step; now < until; now += step {
		f.deliver(now)
		for i, s := range f.sites {
			if (now/step+int64(i))%(100*ms/step) == 0 {
				f.publish(now, i)
			}
			for range f.due(s, step) {
				r.offered++
				fits := one.admits(f.p, now)
				if fits {
					r.central++
				}
				if !s.request(now) {
					if fits {
						r.wrongful++
					}
					continue
				}
				r.admitted++
				level = max(0, level-f.p.Rate*seconds(now-last)) + 1
				last = now
				r.excess = max(r.excess, level-units(f.p.Burst))
			}
		}
	}
	return r
}

func (f *fleet) due(s *site, step int64) int {
	mean := s.offered * seconds(step)
	n := int(mean)
	if f.rng.Float64() < mean-float64(n) {
		n++
	}
	return n
}

// Over random limits, ways and loads: nobody within the limit is refused, the excess is within its bound,
// and it is repaid.
func TestPropertyExcessOfSites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{Sites: rapid.IntRange(2, 4).Draw(t, "sites"),
			Rate:  rapid.SampledFrom([]float64{1, 5, 10, 50, 100, 400}).Draw(t, "rate"),
			Burst: int64(rapid.SampledFrom([]int{5, 10, 20, 100, 400}).Draw(t, "burst")) * grant.Token}
		delay := rapid.SampledFrom([]int64{13 * ms, 40 * ms, 125 * ms}).Draw(t, "delay")
		loss := rapid.SampledFrom([]float64{0, 0.01, 0.05}).Draw(t, "loss")
		p.Lag = seconds(3*delay/2+110*ms) + 6*loss // three reports in a row
		load := rapid.SampledFrom([]float64{.3, .7, 1.5, 4}).Draw(t, "load")
		f := newFleet(rapid.Uint64().Draw(t, "seed"), p, delay, loss)
		even := rapid.Bool().Draw(t, "even")
		for i, s := range f.sites {
			s.offered = load * p.Rate / float64(p.Sites)
			if even {
				continue
			}
			switch i {
			case 0:
				s.offered = load * p.Rate * .9
			case 1:
				s.offered = load * p.Rate * .1
			default:
				s.offered = 0
			}
		}
		r := f.run(seconds20*sec, 4*ms)
		b, rd := units(p.Burst), p.Rate*p.Lag
		if bound := float64(p.Sites-1)*(b+2*rd) + 2*float64(p.Sites); r.excess > bound {
			t.Errorf("excess %.1f, bound %.1f: %+v", r.excess, bound, r)
		}
		// However long it goes on, the excess is no more than the cost on its way.
		if most := r.central + float64(p.Sites-1)*2*rd + 2*float64(p.Sites); r.admitted > most+p.owed() {
			t.Errorf("admitted %.0f, one bucket %.0f, want at most %.0f", r.admitted, r.central, most)
		}
		// A bucket remembers five times of refill that was turned away: a small burst at a high rate makes more.
		if allowed := .05 * r.offered * min(1, max(0, rd/b-1)); r.central == r.offered && r.wrongful > allowed {
			t.Errorf("%.0f of %.0f refused, which one bucket admits", r.wrongful, r.offered)
		}
		part := .97
		if b < rd { // charges come in lumps of more than the burst
			part = .88
		}
		if least := part*r.central - 2*b; load > 1 && r.admitted < least {
			t.Errorf("admitted %.0f, want at least %.0f", r.admitted, least)
		}
	})
}

// seconds20 is the length of a run.
const seconds20 = 20

// owed bounds what a cold start may still owe at the end of a run, cost units.
func (p Params) owed() float64 {
	return max(0, float64(p.Sites-1)*units(p.Burst)-seconds20*p.Rate)
}
