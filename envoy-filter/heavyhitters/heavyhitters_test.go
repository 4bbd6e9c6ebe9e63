package heavyhitters

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// A few heavy clients stand out from any number of others, each seen once.
func TestHeavyClientsStandOut(t *testing.T) {
	var s Sketch
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 20000 {
				s.Add(1, Name{"acme", fmt.Sprintf("stranger-%d-%d", worker, i), "api", ""}, 1)
				if i%20 == 0 {
					s.Add(1, Name{"acme", fmt.Sprintf("heavy-%d", i/20%3), "api", ""}, 1)
				}
			}
		})
	}
	all.Wait()
	got := s.Top(1, 10)
	for i, e := range got[:3] {
		if !strings.HasPrefix(e.Client, "heavy-") || e.Count < 1332 || e.Count-e.Error > 1336 {
			t.Errorf("number %d is %+v, want a heavy one of about 1333", i, e)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d entries, want 10", len(got))
	}
}

// A count is of this minute and the one before, whole; of nothing older.
func TestNothingOldIsCounted(t *testing.T) {
	const minute = int64(60e9)
	for later, want := range map[int64]float64{0: 8, 1: 8, 2: 0, 3: 0, 1e6: 0} {
		var s Sketch
		for range 8 {
			s.Add(7*minute, Name{"a", "b", "c", ""}, 1)
		}
		got := s.Top((7+later)*minute, 2)
		if want == 0 && len(got) != 0 || want != 0 && (len(got) != 1 || got[0].Count != want || got[0].Error != 0) {
			t.Errorf("%d minutes later: %+v, want a count of %v", later, got, want)
		}
		s.Add((7+later)*minute, Name{"a", "b", "c", ""}, 1)
		if got := s.Top((7+later)*minute, 2); len(got) != 1 || got[0].Count != want+1 {
			t.Errorf("%d minutes later, once more: %+v, want %v", later, got, want+1)
		}
	}
}

func TestNamesAreBoundedAndCopied(t *testing.T) {
	var s Sketch
	b := []byte(strings.Repeat("x", 1000))
	s.Add(1, Name{string(b), string(b), "", ""}, 1)
	got := s.Top(1, 1)
	if len(got) != 1 || len(got[0].Tenant) != NameBytes || len(got[0].Client) != NameBytes {
		t.Errorf("%+v", got)
	}
	for _, w := range []float64{0, -1} {
		s.Add(1, Name{Tenant: "none"}, w)
	}
	if len(s.Top(1, 10)) != 1 {
		t.Error("a weight of 0 counts")
	}
}

// The sketch's promise, against an exact count.
func TestCountsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sketch
		exact, sum := map[string]float64{}, 0.0
		adds, turn := rapid.IntRange(1, 2000).Draw(t, "adds"), rapid.IntRange(0, 2000).Draw(t, "turn")
		now := int64(1)
		for i := range adds {
			if i == turn {
				now += period // both minutes count
			}
			who := fmt.Sprint(rapid.IntRange(0, 600).Draw(t, "who"))
			w := float64(rapid.IntRange(1, 5).Draw(t, "weight"))
			s.Add(now, Name{"t", who, "p", "l"}, w)
			exact[who] += w
			sum += w
		}
		shown := map[string]Entry{}
		for _, e := range s.Top(now, 2*stripes*perStripe) {
			shown[e.Client] = e
			if e.Count < exact[e.Client] || e.Count-e.Error > exact[e.Client] {
				t.Fatalf("%+v, exactly %v", e, exact[e.Client])
			}
		}
		for who, n := range exact {
			if _, ok := shown[who]; !ok && n > sum/perStripe {
				t.Fatalf("%s with %v of %v is not shown", who, n, sum)
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	var s Sketch
	names := make([]string, 4096)
	for i := range names {
		names[i] = fmt.Sprintf("client-%d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Add(1, Name{"acme", names[i%len(names)], "api", ""}, 1)
	}
}

// Names are spread over all parts of the sketch.
func TestEachPartHasNames(t *testing.T) {
	var s Sketch
	for i := range 1000 {
		s.Add(1, Name{"acme", fmt.Sprint("client-", i), "api", "per-client"}, 1)
	}
	for part := range Parts {
		if n := len(s.Part(1, part)); n != perStripe {
			t.Errorf("part %d has %d names, want %d", part, n, perStripe)
		}
	}
}
