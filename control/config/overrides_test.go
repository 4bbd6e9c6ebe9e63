package config

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// The table is a map by key, through any changes; a table that was changed stays as it was.
func TestOverridesAreAMap(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var table *Overrides
	want := map[uint64]Override{}
	random := func() Override {
		row := Override{Key: r.Uint64(), Number: r.Float64() * 100, Burst: 1 + r.Float64()}
		if r.IntN(4) == 0 {
			row.Key = uint64(r.IntN(50)) // often the same
		}
		if r.IntN(10) == 0 {
			row.Until = Instant(1 + r.IntN(1000))
		}
		return row
	}
	for _, step := range []int{1, 5, 1, 3000, 1, 20000, 1, 7, 1} {
		before, was := table, maps.Clone(want)
		var put []Override
		var removed []uint64
		for key := range want {
			if len(removed) < step/3 {
				removed = append(removed, key)
				delete(want, key)
			}
		}
		for range step {
			row := random()
			put = append(put, row)
			want[row.Key] = row
		}
		table = table.With(put, removed)
		sameAs(t, table, want)
		sameAs(t, before, was)
		again := &Overrides{}
		if b, err := json.Marshal(table); err != nil || json.Unmarshal(b, again) != nil || !again.Same(table) {
			t.Fatal("not the same through JSON", err)
		} else if most := len(want)*RowSize + 8; len(b) > most {
			t.Errorf("%d bytes, at most %d expected", len(b), most)
		}
		at, next := table.At(500), Instant(0)
		holds := maps.Clone(want)
		maps.DeleteFunc(holds, func(_ uint64, row Override) bool { return row.Until.Over(500) })
		for _, row := range holds {
			next = earlier(next, row.Until, 500)
		}
		if sameAs(t, at, holds); table.next(500) != next {
			t.Errorf("next %d, want %d", table.next(500), next)
		}
	}
	if all := slices.Collect(maps.Keys(want)); table.With(nil, all) != nil {
		t.Error("an empty table is not nil")
	}
}

func sameAs(t *testing.T, table *Overrides, want map[uint64]Override) {
	t.Helper()
	if table.Len() != len(want) {
		t.Fatalf("%d rows, want %d", table.Len(), len(want))
	}
	for key, row := range want {
		if got, ok := table.Find(key); !ok || got != row {
			t.Fatalf("%x: %v %t, want %v", key, got, ok, row)
		}
	}
	if _, ok := table.Find(12345678901234567); ok {
		t.Fatal("found what is not there")
	}
	rows := slices.Collect(table.All())
	byKey := func(a, b Override) int { return cmp.Compare(a.Key, b.Key) }
	if len(rows) != len(want) || !slices.IsSortedFunc(rows, byKey) {
		t.Fatal("rows are not in order")
	}
}

// Deltas of overrides in a row, or joined, or in a whole configuration, come to the same; so do their lapses.
func TestOverridesInSets(t *testing.T) {
	t.Parallel()
	of := OverridesOf{Tenant: "acme", Limit: "each"}
	row := func(key uint64, rate float64, until Instant) Override {
		return Override{Key: key, Number: rate, Burst: 1, Until: until}
	}
	first := &Delta{Base: 1, Revision: 2, Overrides: []OverrideChange{{OverridesOf: of,
		Put: OverrideRows{row(1, 1, 0), row(2, 2, 50), row(3, 3, 0)}}}}
	second := &Delta{Base: 2, Revision: 3, Overrides: []OverrideChange{{OverridesOf: of,
		Put: OverrideRows{row(3, 30, 0), row(4, 4, 0)}, Removed: OverrideKeys{1}}}}
	var one, two Set
	one.Replace(&Config{Revision: 1})
	two.Replace(&Config{Revision: 1})
	for _, d := range []*Delta{first, second} {
		if err := one.Change(d); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(first.Then(second))
	joined := &Delta{}
	if err != nil || json.Unmarshal(b, joined) != nil || two.Change(joined) != nil {
		t.Fatal(err)
	}
	want := map[uint64]Override{2: row(2, 2, 50), 3: row(3, 30, 0), 4: row(4, 4, 0)}
	sameAs(t, one.Overrides(of), want)
	sameAs(t, two.Overrides(of), want)
	var whole Set
	whole.Replace(one.Config())
	sameAs(t, whole.Overrides(of), want)
	sameAs(t, one.Config().At(50).Overrides[0].Table, map[uint64]Override{3: row(3, 30, 0), 4: row(4, 4, 0)})

	limit := &Limit{Name: "each", Rate: 9, Overrides: map[string]RateBurst{"listed": {Rate: 5}}}
	for _, c := range []struct {
		key    uint64
		client string
		at     Instant
		want   float64
	}{{3, "x", 0, 30}, {2, "x", 49, 2}, {2, "x", 50, 0}, {1, "listed", 0, 5}} {
		if rb, _ := one.OverrideOf("acme", limit, c.key, c.client, c.at); rb.Rate != c.want {
			t.Errorf("%+v: %v", c, rb)
		}
	}
	if _, found := one.OverrideOf("acme", &Limit{Name: "each", Concurrency: 3}, 3, "x", 0); found {
		t.Error("an override of a rate holds for a limit with a concurrency")
	}
	var lapses Lapses
	lapses.Replace(one.Config(), 0)
	if lapses.Next() != 50 {
		t.Errorf("next %d", lapses.Next())
	}
	lapsed := lapses.Take(&one, 50)
	if !slices.Equal(lapsed.Overrides, []OverridesOf{of}) || lapses.Next() != 0 {
		t.Errorf("%+v, then %d", lapsed, lapses.Next())
	}
	table, known := one.LapsedDelta(&lapsed).At(50).Overrides[0].Table()
	if sameAs(t, table, map[uint64]Override{3: row(3, 30, 0), 4: row(4, 4, 0)}); !known {
		t.Error("not resolved")
	}
	gone := &Delta{Base: 3, Revision: 4, Overrides: []OverrideChange{{OverridesOf: of, Removed: OverrideKeys{2, 3, 4}}}}
	if err := one.Change(gone); err != nil || one.Config().Overrides != nil {
		t.Errorf("%v %+v", err, one.Config().Overrides)
	}
}

// What no override has is refused.
func TestBadOverridesInJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`1`, `"x"`, `"AAAA"`, `{}`} {
		if err := new(OverrideRows).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("rows %s", text)
		}
		if err := new(Overrides).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("table %s", text)
		}
		if err := new(OverrideKeys).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("keys %s", text)
		}
	}
	for _, row := range []Override{{Number: -1}, {Number: 2 * MaxRate}, {Burst: -1}, {Until: -1}} {
		b, err := OverrideRows{row}.MarshalJSON()
		if err != nil || new(OverrideRows).UnmarshalJSON(b) == nil {
			t.Errorf("%+v is read", row)
		}
	}
}

// The memory and the time of a million overrides: of a lookup, and of a change of one.
func BenchmarkOverrides(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]Override, 1_000_000)
	for i := range rows {
		rows[i] = Override{Key: r.Uint64(), Number: 1, Burst: 1}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	table := (*Overrides)(nil).With(rows, nil)
	each := float64(heap()-before) / float64(len(rows))
	b.Run("find", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, ok := table.Find(rows[i*7919%len(rows)].Key); !ok {
				b.Fatal("not found")
			}
		}
		b.ReportMetric(each, "B/override")
	})
	b.Run("change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_ = table.With(rows[i%len(rows):i%len(rows)+1], nil)
		}
	})
}
