package grant

import "testing"

// A client above a limit of one request at a time gets what one bucket admits, however many gateways it uses: a
// full bucket is kept for no other gateway. It would turn refill away until that one comes.
func TestFloodGetsTheWholeLimit(t *testing.T) {
	for _, p := range []Params{{Rate: 10, Burst: Token}, {Rate: 5, Burst: Token}, {Rate: 100. / 60, Burst: Token},
		{Rate: 1, Burst: Token}, {Rate: 5, Burst: 5 * Token}} {
		for _, n := range []int{3, 10} {
			for _, times := range []float64{1.2, 2, 10} {
				w := newWorld(p, n, millisecond/4, 1)
				w.poisson(times*p.Rate, 240*second, func() int { return w.rng.IntN(n) })
				w.run(242 * second)
				if part := total(w.admitted) / total(w.central); part < .98 {
					t.Errorf("%.3g/s, burst %d, %d gateways, %g times the limit: %.3f of what one bucket admits", p.Rate,
						p.Burst/Token, n, times, part)
				}
			}
		}
	}
}

// Two gateways ask every 5 ms, before the time that the owner has answered. Three others, which ask for .6 of a
// limit of one request at a time, get at least a fifth of the limit.
func TestHurryDoesNotPay(t *testing.T) {
	p := Params{Rate: 100, Burst: Token}
	w := newWorld(p, 3, millisecond/20, 1)
	const until = 20 * second
	w.poisson(.6*p.Rate, until, func() int { return w.rng.IntN(3) })
	for i := range Peer(2) {
		g := &gate{w: w, id: 3 + i, g: NewGateway(p, 1)} // what it is sent is lost
		w.gates = append(w.gates, g)
		l := &liar{w: w, peer: g.id}
		l.lie = func(l *liar, q *Request) { *q = l.truth() }
		l.q = l.truth()
		l.begin(until)
	}
	w.run(until)
	if got := total(w.admitted); got < .2*p.Rate*until/second {
		t.Errorf("%v of %d admitted beside gateways that ask each 5 ms", got, w.offered)
	}
}
