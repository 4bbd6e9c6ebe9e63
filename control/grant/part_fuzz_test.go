package grant

import "testing"

// FuzzPart takes in any numbers on the way between a gateway and an owner: both stay within their bounds.
func FuzzPart(f *testing.F) {
	f.Add(int64(1), uint64(7), int64(5*Token), int64(Token), int64(second), int64(60*second), 10.0, int64(30*Token))
	f.Add(int64(-1), uint64(0), int64(1)<<62, int64(-1)<<62, int64(1)<<62, int64(-1), 1e-300, int64(-5))
	f.Fuzz(func(t *testing.T, at int64, given uint64, spent, base, full, lease int64, rate float64, burst int64) {
		p := Params{Rate: 10, Burst: 30 * Token}
		o, w := NewOwner(p, 7, 0), &wire{}
		o.BeginRoster(0, &Roster{Members: []Peer{1, 2}, Least: 2})
		g := NewGateway(p, 1<<20)
		g.Take(second, 20*Token)
		q, _ := g.Ask(second)
		o.Request(second, 3, q, w) // more than the owner has: it calls the parts
		a := PartAnswer{Owner: 7, At: at, Given: given, Size: spent / 2, Spent: spent, Full: full, Since: full, Base: base, Spends: []Spend{{full, base}, {base, spent}}}
		for range 2 {
			o.PartAnswer(2*second, 1, a, w)
		}
		o.PartAnswer(3*second, 2, PartAnswer{Owner: 7, At: second, Given: 7, Spent: spent, Full: full, Since: full, Base: base, Spends: []Spend{{full, base}, {base, spent}}}, w)
		for _, now := range []int64{3 * second, 70 * second, 700 * second} {
			o.Tick(now, w)
			if b := o.b; b.out < 0 || b.spent < b.out || b.spent > debtBursts*p.Burst {
				t.Errorf("%d s: %d spent, %d out", now/second, b.spent, b.out)
			}
			if o.p.Burst > p.Burst || o.p.Burst < p.Burst/5-1 || o.p.Rate > p.Rate || o.p.Rate < 1.99 {
				t.Errorf("%d s: the owner has %v", now/second, o.p)
			}
		}

		c := PartCall{Owner: given, At: at, Lease: lease, Rate: rate, Burst: burst}
		if !c.Usable() {
			return
		}
		var away Away
		var s Standing
		limit := Params{Rate: c.Rate, Burst: c.Burst}
		s.Empty(limit, second)
		s.Resize(limit, second, 3, 2)
		away.Give(second, &c, s, 2, false)
		m := away.Answer(second, &c, limit)
		if away.Until < second || away.Until > second+mostLease+mostLease/drift {
			t.Errorf("the part is away until %d", away.Until)
		}
		if !m.Usable() {
			t.Errorf("%+v answers %+v", m, c)
		}
	})
}

// A gateway with a false answer about its part costs the others that part at most. What they ask beyond the rest waits
// for the honest ones, and is never more than the bucket.
func TestAGatewayLiesAboutItsPart(t *testing.T) {
	for _, lie := range []PartAnswer{
		{Spent: 1 << 60}, {Base: 1 << 60}, {Since: 1 << 60}, {Spends: []Spend{{1 << 60, 1 << 60}, {-1 << 60, -1 << 60}}}, {Full: 1 << 60}, {Spent: -1 << 60, Base: -1 << 60},
		{Size: 1 << 60}, {Size: -1 << 60}, {At: 1 << 60}, {At: -1 << 60},
	} {
		o, w := NewOwner(Params{Rate: 10, Burst: 30 * Token}, 7, 0), &wire{}
		o.BeginRoster(0, &Roster{Members: []Peer{1, 2}, Least: 2})
		g, now := NewGateway(o.w, 1<<20), int64(second)
		g.Take(now, 17*Token)
		q, _ := g.Ask(now)
		o.Request(now, 3, q, w)
		c, ok := o.Calling(now, 1)
		if !ok {
			t.Fatal("no part is called")
		}
		if lie.At == 0 {
			lie.At = c.At
		}
		lie.Owner, lie.Given = 7, 7
		o.PartAnswer(now, 1, lie, w)
		o.PartAnswer(now, 2, PartAnswer{Owner: 7, Given: 7, At: c.At}, w)
		o.Tick(now+o.w.Hold, w)
		if n := o.b.free(o.p); n > o.w.Burst || n < -debtBursts*o.w.Burst {
			t.Errorf("%+v: %d are left", lie, n)
		}
		o.advance(now + 100*second)
		if n := o.b.free(o.p); n < o.w.Burst/5-1 {
			t.Errorf("%+v: %d are left in the end", lie, n)
		}
	}
}
