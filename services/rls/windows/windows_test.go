package windows

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/exchange"
)

const day = 86400

func hitAt(now int64, length int64, client string, n uint64, limit uint32) Hit {
	w := At(now, length)
	unit := uint8(length % 251)
	return Hit{Window: w, Key: Key(1, w, unit, "d", client), Shared: Key(1, w, unit, "d", "\x00"), Hits: n, Limit: limit}
}

func TestWindowsAreAligned(t *testing.T) {
	for _, c := range []struct{ now, length, start int64 }{
		{1_700_000_000, 1, 1_700_000_000}, {1_700_000_000, 60, 1_699_999_980}, {1_700_000_000, 3600, 1_699_999_200},
		{1_700_000_000, day, 1_699_920_000}, {1_700_000_000, 7 * day, 1_699_488_000}, {59, 60, 0}, {60, 60, 60},
		{-1, 60, -60},
	} {
		if w := At(c.now, c.length); w.Start != c.start || w.End() != c.start+c.length {
			t.Errorf("%d in windows of %d: %+v, want start %d", c.now, c.length, w, c.start)
		}
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for _, k := range []struct {
		name   string
		seed   uint64
		now    int64
		unit   uint8
		domain string
		client string
	}{
		{"one", 1, 0, 1, "d", "c"}, {"seed", 2, 0, 1, "d", "c"}, {"window", 1, 60, 1, "d", "c"},
		{"unit", 1, 0, 2, "d", "c"}, {"domain", 1, 0, 1, "dd", "c"}, {"client", 1, 0, 1, "d", "cc"},
		{"what belongs to whom", 1, 0, 1, "dc", ""},
	} {
		key := Key(k.seed, At(k.now, 60), k.unit, k.domain, k.client)
		if other, ok := seen[key]; ok {
			t.Errorf("%s: the key of %s", k.name, other)
		}
		seen[key] = k.name
	}
}

// One gateway counts as a map of counters does, whatever comes when.
func TestOneGatewayCountsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, want, now := New(1<<20), map[uint64]uint64{}, int64(1000)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, 2).Draw(t, "seconds")
			if rapid.IntRange(0, 9).Draw(t, "announce") == 0 {
				s.Claims(now, &exchange.Claims{})
			}
			h := hitAt(now, rapid.SampledFrom([]int64{1, 60, day}).Draw(t, "length"),
				rapid.SampledFrom([]string{"a", "b"}).Draw(t, "client"), rapid.Uint64Range(0, 3).Draw(t, "hits"), 5)
			h.Stop = rapid.Bool().Draw(t, "stop")
			after := want[h.Key] + h.Hits
			if got := s.Take(now, h); got != after {
				t.Fatalf("at %d, %+v: %d, want %d", now, h, got, after)
			}
			if !h.Stop || after <= uint64(h.Limit) {
				want[h.Key] = after
			}
		}
	})
}

// mesh is some gateways whose claims come to the others late, and the sums that an agent makes.
type mesh struct {
	stores []*Store
	told   []map[uint64]exchange.KeyClaim // what each has said of its counters
	past   []map[uint64]float64           // what the finished processes of each had counted
	epoch  uint32
}

func (m *mesh) publish(now int64, i int) {
	var c exchange.Claims
	m.stores[i].Claims(now, &c)
	for _, k := range c.Keys {
		m.told[i][k.Key] = k
	}
	for _, k := range c.Withdrawn {
		delete(m.told[i], k)
	}
}

func (m *mesh) deliver(to int, full bool) {
	sums := &exchange.Sums{Full: full, Replicas: len(m.stores)}
	all := map[uint64]exchange.KeySum{}
	for i := range m.stores {
		for key, k := range m.told[i] {
			if s := all[key]; i != to {
				all[key] = exchange.KeySum{Key: key, Admitted: s.Admitted + m.past[i][key] + k.Admitted,
					Spent: max(s.Spent, k.Spent), Epoch: m.epoch}
			}
		}
	}
	for _, s := range all {
		sums.Keys = append(sums.Keys, s)
	}
	m.stores[to].SetSums(sums)
}

// restart restarts a gateway's process.
func (m *mesh) restart(i int) {
	m.stores[i] = New(100)
	for key, k := range m.told[i] {
		m.past[i][key] += k.Admitted
		m.told[i][key] = exchange.KeyClaim{Key: key}
	}
}

// No gateway ever takes more as counted than there was, and once all have each other's counts all know the same count
// but for what is not sent. So it is when processes restart that others know of. When the sums' count restarts, what
// was on its way may be missed.
func TestGatewaysAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit, n = 12, 3
		m := &mesh{epoch: 1}
		for range n {
			m.stores, m.told = append(m.stores, New(100)), append(m.told, map[uint64]exchange.KeyClaim{})
			m.past = append(m.past, map[uint64]float64{})
		}
		truth, now, renewed := uint64(0), int64(5*day), false
		for i := range n {
			m.deliver(i, true)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, n-1).Draw(t, "gateway")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				m.publish(now, i)
			case 1:
				m.deliver(i, rapid.Bool().Draw(t, "full"))
			case 2: // an owner's count restarts
				m.epoch++
				renewed = true
			default:
				h := hitAt(now, day, "c", rapid.Uint64Range(1, 3).Draw(t, "hits"), limit)
				truth += h.Hits
				if got := m.stores[i].Take(now, h); got > truth {
					t.Fatalf("%d counted, %d hits", got, truth)
				}
			}
		}
		m.round(now)
		if len(m.told[1]) > 0 && rapid.Bool().Draw(t, "one begins anew") {
			m.restart(0)
			m.deliver(0, true)
		}
		m.round(now)
		untold := uint64(n)*(limit/(2*n)+1) + truth/8
		for i, s := range m.stores {
			if got := s.Take(now, hitAt(now, day, "c", 0, limit)); got > truth || !renewed && truth > got+untold {
				t.Fatalf("gateway %d knows of %d hits of %d", i, got, truth)
			}
		}
	})
}

func (m *mesh) round(now int64) {
	for range 3 {
		for i := range m.stores {
			m.publish(now, i)
		}
		for i := range m.stores {
			m.deliver(i, false)
		}
	}
}

// A gateway knows what was counted elsewhere when the client comes for the first time.
func TestFirstHitKnowsTheOthers(t *testing.T) {
	s, h := New(10), hitAt(0, 60, "c", 1, 10)
	s.SetSums(&exchange.Sums{Full: true, Replicas: 2,
		Keys: []exchange.KeySum{{Key: h.Key, Admitted: 4, Spent: 4, Epoch: 7}}})
	if got := s.Take(0, h); got != 5 {
		t.Errorf("the first hit here is hit %d, want 5", got)
	}
	var c exchange.Claims
	if s.Claims(1, &c); len(c.Keys) != 1 || c.Keys[0].Admitted != 1 || c.Keys[0].Spent != 5 {
		t.Errorf("told %+v", c)
	}
	s.SetSums(&exchange.Sums{Replicas: 2, Gone: []uint64{h.Key}})
	if got := s.Take(1, h); got != 6 {
		t.Errorf("once the other is gone: hit %d, want 6", got)
	}
	c.Reset()
	if s.Claims(100, &c); len(c.Withdrawn) != 1 || len(c.Keys) != 0 || s.Stats().Counters != 0 {
		t.Errorf("after the window: %+v, %+v", c, s.Stats())
	}
}

// The process before this one counted, and only others know how much.
func TestLostCountIsLearned(t *testing.T) {
	s, h := New(10), hitAt(0, 60, "c", 1, 10)
	s.SetSums(&exchange.Sums{Full: true, Replicas: 2})
	s.Take(0, h)
	s.SetSums(&exchange.Sums{Replicas: 2, Keys: []exchange.KeySum{{Key: h.Key, Admitted: 2, Spent: 9, Epoch: 1}}})
	if got := s.Take(0, h); got != 10 {
		t.Errorf("hit %d, want 10: others know of 9 of which they have counted 2, and one more came here", got)
	}
}

func TestNothingIsToldThatIsFarFromTheLimit(t *testing.T) {
	s := New(10)
	s.SetSums(&exchange.Sums{Full: true, Replicas: 5})
	for i, want := range []int{0, 0, 1, 1} {
		var c exchange.Claims
		s.Take(0, hitAt(0, 60, "c", 1, 30))
		if s.Claims(0, &c); len(c.Keys) != want {
			t.Errorf("after hit %d of 30 at one of 5 gateways: told %+v", i+1, c.Keys)
		}
	}
	var c exchange.Claims
	s.Repeat()
	if s.Claims(0, &c); len(c.Keys) != 1 || c.Keys[0].Admitted != 4 {
		t.Errorf("told a new agent: %+v", c.Keys)
	}
}

// What was counted before another gateway came is sent then, if it is near the limit.
func TestAnotherGatewayComes(t *testing.T) {
	s := New(10)
	s.Take(0, hitAt(0, 60, "near", 3, 10))
	s.Take(0, hitAt(0, 60, "far", 2, 10))
	var c exchange.Claims
	if s.Claims(0, &c); len(c.Keys) != 0 {
		t.Errorf("told %+v, and there is nobody to hear it", c.Keys)
	}
	s.SetSums(&exchange.Sums{Replicas: 2})
	if s.Claims(0, &c); len(c.Keys) != 1 || c.Keys[0].Admitted != 3 {
		t.Errorf("told %+v", c.Keys)
	}
}

func TestBudget(t *testing.T) {
	s := New(2)
	for i, want := range []uint64{1, 1, 1, 2, 3} { // c, d and e share
		if got := s.Take(0, hitAt(0, 60, string(rune('a'+i)), 1, 9)); got != want {
			t.Errorf("client %d: %d counted, want %d", i, got, want)
		}
	}
	if got := s.Take(0, hitAt(0, 60, "a", 1, 9)); got != 2 {
		t.Errorf("a client with a counter of its own: %d", got)
	}
	s.SetSums(&exchange.Sums{Replicas: 2, Keys: []exchange.KeySum{{Key: 5, Admitted: 1, Spent: 1, Epoch: 1}}})
	if st := s.Stats(); st.Counters != 3 || st.Overflow != 3 {
		t.Errorf("%+v, want 2 counters and a shared one", st)
	}
	s.Claims(70, &exchange.Claims{})
	if got := s.Take(70, hitAt(70, 60, "z", 1, 9)); got != 1 || s.Stats().Counters != 1 {
		t.Errorf("in the next window: %d, %+v", got, s.Stats())
	}
}

// The sums of keys that are no counters, and of clients that come elsewhere only, take no room from
// clients that come here.
func TestOthersTakeNoRoom(t *testing.T) {
	const keys = 1000
	s, sums := New(keys), &exchange.Sums{Full: true, Replicas: 2}
	for key := range uint64(2 * keys) {
		sums.Keys = append(sums.Keys, exchange.KeySum{Key: key + 1, Admitted: 1, Spent: 1, Epoch: 1})
	}
	if s.SetSums(sums); s.Stats().Counters != keys {
		t.Fatalf("%+v: the others' have room for %d", s.Stats(), keys)
	}
	for i := range keys / 2 {
		s.Take(0, hitAt(0, 60, fmt.Sprint(i), 1, 9))
	}
	if st := s.Stats(); st.Counters != keys || st.Overflow != 0 {
		t.Errorf("%+v, want %d counters and none that is shared", st, keys)
	}
}

// All counters that were sent are withdrawn when their window ends, however many there are.
func TestAllThatEndsIsWithdrawn(t *testing.T) {
	const clients = 100_000
	s := New(clients)
	s.SetSums(&exchange.Sums{Full: true, Replicas: 2})
	for i := range clients {
		s.Take(0, hitAt(0, 60, fmt.Sprint(i), 1, 1))
	}
	var c exchange.Claims
	if s.Claims(0, &c); len(c.Keys) != clients {
		t.Fatalf("told %d counters", len(c.Keys))
	}
	c.Reset()
	if s.Claims(62, &c); len(c.Withdrawn) != clients || s.Stats().Counters != 0 {
		t.Errorf("withdrawn %d of %d, %+v", len(c.Withdrawn), clients, s.Stats())
	}
}

// A clock that steps by little finds its counters again; a clock that was far ahead keeps nothing.
func TestClockSteps(t *testing.T) {
	s := New(100)
	s.Take(59, hitAt(59, 60, "a", 1, 9))
	s.Take(60, hitAt(60, 60, "a", 1, 9))
	if got := s.Take(59, hitAt(59, 60, "a", 1, 9)); got != 2 {
		t.Errorf("a second back: %d", got)
	}
	s.Take(100*day, hitAt(100*day, 60, "a", 1, 9))
	s.Claims(130, &exchange.Claims{})
	s.Take(130, hitAt(130, 60, "a", 1, 9))
	if st := s.Stats(); st.Counters != 1 {
		t.Errorf("after a step of 100 days and back: %+v", st)
	}
}

func TestHugeHits(t *testing.T) {
	s := New(10)
	for range 3 {
		if got := s.Take(0, hitAt(0, 60, "a", math.MaxUint64, 9)); got != math.MaxUint64 {
			t.Errorf("%d", got)
		}
	}
	if got := s.Take(0, hitAt(0, 60, "a", 0, 9)); got != mostHits {
		t.Errorf("%d", got)
	}
}

// Whatever sums say, counts stay finite and rise.
func FuzzSums(f *testing.F) {
	f.Add(1., 1., uint32(1), 2., 3., uint32(2), true)
	f.Add(math.NaN(), math.Inf(1), uint32(0), -1., 1e300, uint32(0), false)
	f.Fuzz(func(t *testing.T, a, b float64, e uint32, c, d float64, g uint32, first bool) {
		s, h := New(10), hitAt(0, 60, "c", 1, 10)
		if first {
			s.Take(0, h)
		}
		before := s.Take(0, hitAt(0, 60, "c", 0, 10))
		for _, k := range []exchange.KeySum{{Key: h.Key, Admitted: a, Spent: b, Epoch: e}, {Key: h.Key, Admitted: c, Spent: d,
			Epoch: g}} {
			s.SetSums(&exchange.Sums{Replicas: 3, Keys: []exchange.KeySum{k}})
		}
		after := s.Take(0, h)
		if after <= before && a <= c || after > 2*mostHits+2 {
			t.Errorf("%d counted, then %d", before, after)
		}
		var out exchange.Claims
		s.Claims(0, &out)
		for _, k := range out.Keys {
			if !(k.Admitted >= 0 && k.Admitted <= mostHits && k.Spent >= k.Admitted && k.Spent <= mostHits) {
				t.Errorf("told %+v", k)
			}
		}
	})
}

func BenchmarkTake(b *testing.B) {
	s := New(1 << 20)
	w := At(0, day)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Take(0, Hit{Window: w, Key: Key(1, w, 4, "shop", "\x0bclient_alice"), Hits: 1, Limit: 1 << 30})
		}
	})
}
