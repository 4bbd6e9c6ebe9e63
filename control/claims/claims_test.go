package claims

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/titrate/titrate/control/exchange"
	"pgregory.net/rapid"
)

func record(generation, seq uint64, k exchange.KeyClaim) Record {
	return Record{KeyClaim: k, Generation: generation, Seq: seq}
}

func drawRecord(t *rapid.T, gens uint64) Record {
	generation, seq := rapid.Uint64Range(1, gens).Draw(t, "gen"), rapid.Uint64Range(0, 4).Draw(t, "seq")
	r := record(generation, seq, exchange.KeyClaim{Key: 1})
	r.Admitted, r.Claim = float64(rapid.IntRange(0, 5).Draw(t, "A")), float64(rapid.IntRange(0, 3).Draw(t, "R"))
	r.Spent = float64(rapid.IntRange(0, 3).Draw(t, "D"))
	return r
}

// newer is the newer of two records.
func newer(a, b Record) Record {
	if compare(&a, &b) >= 0 {
		return a
	}
	return b
}

func TestNewerIsASemilattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawRecord(t, 3), drawRecord(t, 3), drawRecord(t, 3)
		if newer(a, a) != a || newer(a, b) != newer(b, a) || newer(newer(a, b), c) != newer(a, newer(b, c)) {
			t.Fatalf("merge laws fail on %+v %+v %+v", a, b, c)
		}
	})
}

// TestLineageIgnoresOrder: any order, with repeats, gives the same history, and
// a slow look at all records finds the same.
func TestLineageIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Record { return drawRecord(t, 2) }), 1, 12).Draw(t,
			"records")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		newest := map[uint64]Record{}
		var a, b Lineage
		for _, r := range recs {
			a.Merge(&r)
			if old, ok := newest[r.Generation]; ok {
				r = newer(old, r)
			}
			newest[r.Generation] = r
		}
		total := 0.0
		for _, r := range newest {
			total += r.Admitted
		}
		twice := append(append([]Record{}, recs...), recs...)
		rng.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
		for _, r := range twice {
			b.Merge(&r)
		}
		if a != b || a.Admitted() != total {
			t.Fatalf("in order %+v (%v), shuffled %+v; oracle total %v", a, a.Admitted(), b, total)
		}
	})
}

// TestTotalNeverStepsDown while records are received in order, over many restarts.
func TestTotalNeverStepsDown(t *testing.T) {
	tb, last, count := New(Params{}), 0.0, 0.0
	for i := range uint64(50) {
		if i%7 == 0 {
			count = 0
		}
		count += float64(i % 3)
		r := record(1+i/7, i%7, exchange.KeyClaim{Key: 1, Admitted: count})
		if _, err := tb.Apply(7, float64(i)*.05, r); err != nil {
			t.Fatal(err)
		}
		if s := tb.Sums(1, 0, float64(i)*.05).Admitted; s < last {
			t.Fatalf("step %d: total %v after %v", i, s, last)
		} else {
			last = s
		}
	}
}

func apply(t *testing.T, tb *Table, id Peer, now float64, r Record) {
	t.Helper()
	if o, err := tb.Apply(id, now, r); err != nil || o != Applied {
		t.Fatalf("apply %+v: outcome %v, error %v", r, o, err)
	}
}

func TestSumsLeaveOutTheAsker(t *testing.T) {
	tb := New(Params{})
	apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 4, Claim: 10, Active: 2, Spent: 9, Own: 9}))
	apply(t, tb, 2, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 3, Claim: 5, Unsaturated: 5, Spent: 8, Own: 8}))
	want := exchange.KeySum{Key: 9, Claims: 5, Unsaturated: 5, Admitted: 3, Spent: 8, Own: 3, Epoch: 1}
	if got := tb.Sums(9, 1, 0.1); got != want {
		t.Errorf("sums for 1: %+v, want %+v", got, want)
	}
	want = exchange.KeySum{Key: 9, Claims: 15, Active: 2, Unsaturated: 5, Admitted: 7, Spent: 9, Own: 7, Epoch: 1}
	if got := tb.Sums(9, 3, 0.1); got != want {
		t.Errorf("sums for 3: %+v, want %+v", got, want)
	}
	if got := tb.Sums(8, 1, 0.1); got != (exchange.KeySum{Key: 8}) {
		t.Errorf("unknown key: %+v, want zero", got)
	}
}

func TestANewPeerCountsWhatIsStillSpent(t *testing.T) {
	tb := New(Params{Stale: 1, Forget: 5})
	apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 1e6, Spent: 4, Own: 4}))
	apply(t, tb, 1, 1, record(1, 2, exchange.KeyClaim{Key: 9, Admitted: 1e6 + 3, Spent: 2, Own: 2}))
	if got := tb.Sums(9, 0, 1); got.Admitted != 7 || got.Gap != 1 {
		t.Errorf("%+v, want 4 + 3 admitted after a silence of 1 s: others have used the same refill", got)
	}
	apply(t, tb, 1, 1.1, record(1, 3, exchange.KeyClaim{Key: 9, Admitted: 1e6 + 8, Spent: 2, Own: 2}))
	if got := tb.Sums(9, 0, 1.1).Admitted; got != 12 {
		t.Errorf("total %v, want 7 + 5: it was not silent", got)
	}
}

// TestLifeOfAPeer: reachable, stale, forgotten, back; then drained; then removed.
func TestLifeOfAPeer(t *testing.T) {
	tb := New(Params{Stale: 1, Forget: 5})
	apply(t, tb, 1, 10, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 2, Claim: 10, Active: 1, Spent: 2, Own: 2}))
	for _, s := range []struct{ now, admitted, claims, absent float64 }{
		{10.9, 2, 10, 0}, {11, 12, 10, 0}, {13, 32, 10, 0}, {15, 52, 0, 1}, {99, 52, 0, 1},
	} {
		got := tb.Sums(9, 0, s.now)
		if got.Admitted != s.admitted || got.Claims != s.claims || tb.Absent(0, s.now) != s.absent {
			t.Errorf("at %v: %+v, want admitted %v claims %v absent %v", s.now, got, s.admitted, s.claims, s.absent)
		}
	}
	apply(t, tb, 1, 100, record(1, 2, exchange.KeyClaim{Key: 9, Admitted: 20, Claim: 4}))
	if got := tb.Sums(9, 0, 100); got.Admitted != 20 || got.Claims != 4 || tb.Absent(0, 100) != 0 {
		t.Errorf("back: %+v, want the truth", got)
	}
	tb.Drain(1, 1, 101)
	if got := tb.Sums(9, 0, 200); got.Admitted != 20 || got.Claims != 0 || tb.Absent(0, 200) != 0 {
		t.Errorf("drained: %+v, want counts alone", got)
	}
	apply(t, tb, 1, 201, record(2, 1, exchange.KeyClaim{Key: 9, Admitted: 1, Claim: 3}))
	if got := tb.Sums(9, 0, 201); got.Admitted != 21 || got.Claims != 3 {
		t.Errorf("restarted: %+v, want 21 and 3", got)
	}
	tb.Remove(1, 201)
	if got := tb.Sums(9, 0, 300); got.Admitted != 21 || got.Claims != 0 || tb.Absent(0, 300) != 0 {
		t.Errorf("removed: %+v, want 21", got)
	}
}

// A member is absent until a message of it is received, and when none was received for T2.
func TestSilentMemberIsAbsent(t *testing.T) {
	tb := New(Params{Stale: 1, Forget: 5})
	tb.SetWeight(3, 2.5, 0)
	if got := tb.Absent(0, 0); got != 2.5 {
		t.Errorf("absent, never heard: %v, want 2.5", got)
	}
	tb.Heard(3, 6)
	tb.SetWeight(3, 2.5, 6)
	if got := tb.Absent(0, 10); got != 0 {
		t.Errorf("absent 4 s after it was heard: %v", got)
	}
	if got := tb.Absent(0, 11); got != 2.5 {
		t.Errorf("absent 5 s after it was heard: %v, want 2.5", got)
	}
}

func TestBoundedKeys(t *testing.T) {
	tb := New(Params{Stale: 1, MaxKeys: 100})
	for k := range uint64(100) {
		apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: k, Admitted: 5, Spent: 5, Own: 5,
			Claim: float64(k % 2)}))
	}
	if o, _ := tb.Apply(1, 0.5, record(1, 0, exchange.KeyClaim{Key: 1000})); o != Refused {
		t.Errorf("outcome %v with every key fresh, want Refused", o)
	}
	tb.Heard(1, 2)
	first := tb.Sums(2, 0, 2).Epoch
	for k := uint64(1000); k < 1050; k++ {
		apply(t, tb, 1, 2, record(1, 1, exchange.KeyClaim{Key: k, Claim: 1}))
	}
	if len(tb.keys) != 100 {
		t.Errorf("%d keys, want 100", len(tb.keys))
	}
	for k := range uint64(100) {
		if held := tb.Sums(k, 0, 2).Epoch != 0; held != (k%2 == 1) {
			t.Errorf("key %d held %v: only keys without a claim may go", k, held)
		}
	}
	tb.Evict(1001)
	tb.Heard(1, 2.5)
	apply(t, tb, 1, 2+CatchUp, record(1, 9, exchange.KeyClaim{Key: 2, Admitted: 6, Spent: 1, Own: 1}))
	if got := tb.Sums(2, 0, 2+CatchUp); got.Epoch == first || got.Admitted != 1 {
		t.Errorf("key that came back: %+v, want a new epoch and 1 admitted", got)
	}
}

func TestBadRecordsAreRefused(t *testing.T) {
	tb := New(Params{})
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		for _, r := range []exchange.KeyClaim{{Admitted: v}, {Claim: v}, {Active: v}, {Unsaturated: v}, {Spent: v},
			{Own: v}} {
			if _, err := tb.Apply(1, 0, Record{KeyClaim: r}); err == nil || len(tb.keys) != 0 {
				t.Errorf("%+v: error %v, %d keys; want an error and nothing held", r, err, len(tb.keys))
			}
		}
	}
}

// TestTableMatchesSlowOracle runs random records of many peers and keys in any
// order, with drains and removals, and compares with a table made of plain maps.
func TestTableMatchesSlowOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type id struct {
			peer Peer
			key  uint64
		}
		tb := New(Params{Stale: 100, Forget: 200})
		rows, repaid, base := map[id]*Lineage{}, map[id]float64{}, map[uint64]float64{}
		gen, drained := map[Peer]uint64{}, map[Peer]bool{}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		for range 150 {
			p := Peer(1 + rng.IntN(4))
			switch rng.IntN(20) {
			case 0:
				tb.Drain(p, gen[p], 0)
				drained[p] = true
			case 1:
				tb.Remove(p, 0)
				for k, l := range rows {
					if k.peer == p {
						base[k.key] += math.Max(0, l.Admitted()-repaid[k])
						delete(rows, k)
					}
				}
				delete(gen, p)
				delete(drained, p)
			default:
				r := record(uint64(1+rng.IntN(3)), uint64(rng.IntN(9)), exchange.KeyClaim{Key: uint64(rng.IntN(3)),
					Admitted: float64(rng.IntN(9)), Claim: float64(rng.IntN(5)), Spent: float64(rng.IntN(9)),
					Own: float64(rng.IntN(9))})
				if _, err := tb.Apply(p, 0, r); err != nil {
					t.Fatal(err)
				}
				if r.Generation > gen[p] {
					gen[p], drained[p] = r.Generation, false
				}
				k := id{p, r.Key}
				if rows[k] == nil {
					rows[k], repaid[k] = &Lineage{}, r.Admitted-math.Min(r.Admitted, r.Own)
				}
				rows[k].Merge(&r)
			}
			for key := range uint64(3) {
				admitted, claims := base[key], 0.0
				for k, l := range rows {
					if k.key != key {
						continue
					}
					admitted += math.Max(0, l.Admitted()-repaid[k])
					if !drained[k.peer] && l.Latest.Generation == gen[k.peer] {
						claims += l.Latest.Claim
					}
				}
				got := tb.Sums(key, 0, 0)
				if math.Abs(got.Admitted-admitted) > 1e-9 || got.Claims != claims ||
					tb.Claimed(key, 0) != (claims > 0) || tb.InUse(key, 0) != (claims > 0 || got.Spent > 0) {
					t.Fatalf("key %d: %+v, oracle admitted %v claims %v", key, got, admitted, claims)
				}
			}
		}
	})
}

func TestApplyAndSumsAllocateNothing(t *testing.T) {
	tb := New(Params{})
	seq := uint64(0)
	if n := testing.AllocsPerRun(100, func() {
		seq++
		for p := range Peer(5) {
			_, _ = tb.Apply(p, 1, record(1, seq, exchange.KeyClaim{Key: seq % 8, Claim: 2}))
		}
		tb.Sums(seq%8, 1, 1)
	}); n >= 1 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkApply(b *testing.B) {
	tb := New(Params{})
	seq := uint64(0)
	for b.Loop() {
		seq++
		_, _ = tb.Apply(Peer(seq%10), 1, record(1, seq, exchange.KeyClaim{Key: seq / 10 % 4096, Claim: 2}))
	}
}

func BenchmarkSums10Peers(b *testing.B) {
	tb := New(Params{})
	for p := range Peer(10) {
		_, _ = tb.Apply(p, 1, record(1, 0, exchange.KeyClaim{Key: 1, Claim: 2}))
	}
	for b.Loop() {
		tb.Sums(1, 3, 1)
	}
}

// The estimate of what an unreachable peer has admitted is taken back when the peer is reachable
// again and sends no record of the key. Claims are sent when they change.
func TestAnEstimateEnds(t *testing.T) {
	tb := New(Params{Stale: 1, Forget: 5})
	apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 3, Claim: 10, Spent: 3, Own: 3}))
	tb.Heard(1, 2)
	if got := tb.Sums(9, 0, 2.5).Admitted; got != 23 {
		t.Errorf("just heard again: %v, want the 23 of the estimate", got)
	}
	tb.Heard(1, 2.5)
	if got := tb.Sums(9, 0, 2+CatchUp).Admitted; got != 3 {
		t.Errorf("later: %v, want 3", got)
	}
}

// An unreachable peer goes on as it last claimed and makes no room: a flow is split by claims. So
// the others have what the peer leaves, and do not count on its part.
func TestSilentPeerMakesNoRoom(t *testing.T) {
	const silent, heard, key = Peer(1), Peer(2), 9
	tb := New(Params{Stale: 1, Forget: 15})
	for _, p := range []Peer{silent, heard} {
		if _, err := tb.Apply(p, 0, record(1, 1, exchange.KeyClaim{Key: key, Claim: 30, Active: 1})); err != nil {
			t.Fatal(err)
		}
	}
	for now, want := range map[float64]exchange.KeySum{
		0.5: {Claims: 60, Active: 2},
		2:   {Claims: 60, Active: 1, Unsaturated: 30},
		16:  {Claims: 30, Active: 1},
	} {
		tb := *tb
		tb.peers = slices.Clone(tb.peers)
		tb.Heard(heard, now)
		got := tb.FlowSums(key, 0, now)
		if got.Claims != want.Claims || got.Active != want.Active || got.Unsaturated != want.Unsaturated {
			t.Errorf("after %v s: %+v, want %+v", now, got, want)
		}
		if of := tb.Outside(key, one, now, true); of.Claims != want.Claims || of.Active != want.Active ||
			of.Unsaturated != want.Unsaturated {
			t.Errorf("after %v s, of an owner: %+v, want %+v", now, of, want)
		}
	}
	if got := tb.Sums(key, 0, 2); got.Active != 2 {
		t.Errorf("of a limit: %+v, want both active", got)
	}
}

// A peer is reachable again, then unreachable for some packets, and sends a record of a key only
// then. It was unreachable for all of that time: its estimate covers all of it.
func TestASilenceGoesOn(t *testing.T) {
	tb := New(Params{Stale: .25, Forget: 15})
	apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 3, Claim: 10, Spent: 3, Own: 3}))
	tb.Heard(1, 5)
	apply(t, tb, 1, 5.5, record(1, 2, exchange.KeyClaim{Key: 9, Admitted: 58, Claim: 10, Spent: 4, Own: 4}))
	if got := tb.Sums(9, 0, 5.5).Admitted; got != 58 {
		t.Errorf("%v, want the 58 that it has admitted", got)
	}
}

// Absent does not look through all peers each time, and finds the same as a walk through all peers.
func TestAbsentIsThatOfAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tb, now := New(Params{Stale: 1, Forget: 5}), 0.
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			id := Peer(rapid.IntRange(1, 5).Draw(t, "peer"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				tb.SetWeight(id, float64(id), now)
			case 1:
				tb.Drain(id, 1, now)
			case 2:
				tb.Live(id, rapid.Uint64Range(1, 3).Draw(t, "generation"), now)
			case 3:
				tb.Remove(id, now)
			case 4:
				_, _ = tb.Apply(id, now, record(rapid.Uint64Range(1, 3).Draw(t, "generation"), 1, exchange.KeyClaim{Key: 9}))
			default:
				tb.Heard(id, now)
			}
			now += rapid.SampledFrom([]float64{0, .5, 3, 5}).Draw(t, "time")
			want := 0.
			for _, p := range tb.peers {
				if p.used && !p.drained && p.id != id && now-p.heard >= 5 {
					want += p.weight
				}
			}
			if got := tb.Absent(id, now); got != want {
				t.Fatalf("absent %v, want %v", got, want)
			}
		}
	})
}

// Sums report how long a peer was unreachable only while it announces what it did meanwhile.
func TestLateNewsAreMarked(t *testing.T) {
	say := func(tb *Table, id Peer, now, admitted float64, seq uint64) float64 {
		k := exchange.KeyClaim{Key: 9, Admitted: admitted, Claim: float64(seq), Own: 1}
		apply(t, tb, id, now, record(1, seq, k))
		return tb.Sums(9, 0, now).Gap
	}
	tb := New(Params{Stale: .25, Forget: 15})
	say(tb, 1, 0, 1, 1)
	say(tb, 2, 0, 1, 1)
	for _, x := range []struct{ now, want float64 }{{.2, 0}, {3, -3}} {
		tb.Heard(2, x.now)
		if got := tb.Sums(9, 0, x.now).Gap; got != x.want {
			t.Errorf("after %v s: %v, want %v", x.now, got, x.want)
		}
	}
	tb.Heard(1, 4)
	tb.Heard(2, 4)
	if got := tb.Sums(9, 0, 4).Gap; got != -4 {
		t.Errorf("heard, and it said nothing yet: %v, want -4", got)
	}
	tb.Heard(2, 4.5)
	if got := say(tb, 1, 4.5, 5, 2); got != 4.5 {
		t.Errorf("it said what it did: %v, want 4.5", got)
	}
	if got := say(tb, 1, 4.6, 6, 3); got != 4.5 {
		t.Errorf("those who are told of it in the next period: %v, want 4.5", got)
	}
	if got := say(tb, 2, 4.6, 1, 2); got != 4.5 {
		t.Errorf("and so while another peer says that it has admitted nothing: %v, want 4.5", got)
	}
	if got := say(tb, 1, 4.5+exchange.Late, 7, 4); got != 0 {
		t.Errorf("later: %v, want 0", got)
	}
	tb.Heard(3, 0)
	for id := range Peer(3) {
		tb.Heard(id+1, 6)
	}
	was := tb.Sums(9, 0, 6.1).Admitted
	got := say(tb, 3, 6.1, 80, 1)
	if more := tb.Sums(9, 0, 6.1).Admitted - was; math.Abs(got-6.1) > 1e-9 || math.Abs(more-80) > 1e-9 {
		t.Errorf("a key that it began to use meanwhile: %v, %v admitted; want 6.1, and all of it", got, more)
	}
	r := record(1, 9, exchange.KeyClaim{Key: 9, Claim: 1})
	for _, gap := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 2 * MaxGap} {
		if r.Gap = gap; r.Validate() == nil {
			t.Errorf("a gap of %v is not refused", gap)
		}
	}
}

// One peer at its bounds, in many lives and under many names, makes no sum that is refused, and none that has no room
// for what another peer admits.
func TestAPeerAtItsBounds(t *testing.T) {
	table, user := New(Params{Stale: 1, Forget: 15}), New(Params{Stale: 1, Forget: 15})
	const honest, owner = Peer(1), Peer(2)
	user.SetOwner(owner, 0)
	admitted, heard := 0., Outside{}
	for i := range uint64(2000) {
		now := float64(i) * .05
		admitted++
		liar, most := Peer(10+i%300), exchange.KeyClaim{Key: 7, Claim: MaxRate, Active: MaxRate, Unsaturated: MaxRate,
			Spent: MaxRate, Own: MaxRate, Admitted: MaxAdmitted * float64(i%2)}
		records := []struct {
			Peer
			Record
		}{{liar, record(1+i, i, most)}, {honest, record(1, i, exchange.KeyClaim{Key: 7, Claim: 1, Admitted: admitted,
			Spent: 1, Own: 1})}}
		before := table.Outside(7, Group{}, now, false)
		if _, err := table.Apply(records[0].Peer, now, records[0].Record); err != nil {
			t.Fatal(err)
		}
		between := table.Outside(7, Group{}, now, false)
		if _, err := table.Apply(honest, now, records[1].Record); err != nil {
			t.Fatal(err)
		}
		heard = table.Outside(7, Group{}, now, false)
		if got := heard.Admitted - between.Admitted; i > 0 && heard.Epoch == between.Epoch && got != 1 {
			t.Fatalf("step %d: the sum rises from %v by %v when one is admitted, epochs %d, %d", i, between.Admitted, got,
				before.Epoch, heard.Epoch)
		}
		sum := Record{KeyClaim: exchange.KeyClaim{Key: 7, Claim: heard.Claims, Active: heard.Active,
			Unsaturated: heard.Unsaturated, Admitted: heard.Admitted, Spent: heard.Spent, Own: heard.Own}, Generation: 1,
			Seq: i}
		if _, err := user.Apply(owner, now, sum); err != nil {
			t.Fatalf("step %d: the sum is refused: %v", i, err)
		}
		if i%50 == 49 {
			table.Remove(liar, now)
		}
	}
	if got := user.Sums(7, 0, 100); got.Admitted != heard.Admitted || got.Claims != heard.Claims {
		t.Errorf("the user has %+v, the owner says %+v", got, heard)
	}
}

// Peers that have said as much as they may are removed, also while they were unreachable, and a key's count goes on.
func TestRemovedLiarsLeaveTheEpoch(t *testing.T) {
	tb := New(Params{Stale: 1, Forget: 5})
	apply(t, tb, 1, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: 3, Claim: 1, Own: 3}))
	for liar := Peer(2); liar < 12; liar++ {
		apply(t, tb, liar, 0, record(1, 1, exchange.KeyClaim{Key: 9, Admitted: MaxCount, Claim: MaxRate, Own: MaxRate}))
	}
	tb.Heard(1, 4)
	was := tb.Sums(9, 0, 4)
	for liar := Peer(2); liar < 12; liar++ {
		tb.Remove(liar, 4)
	}
	if got := tb.Sums(9, 0, 4); got.Epoch != was.Epoch || got.Admitted != was.Admitted {
		t.Errorf("%+v after %+v, want the same count", got, was)
	}
}
