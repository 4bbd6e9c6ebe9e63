package judge

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The bucket against the definition: no window has more than rate·t + burst, and every refused request would
// have exceeded it.
func TestBucketOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bucket{Rate: rapid.Float64Range(.1, 100).Draw(t, "rate"),
			Burst: rapid.Float64Range(1, 50).Draw(t, "burst")}
		var at []float64
		now := 0.0
		// worst is the fullest window that ends now with one more admission.
		worst := func() float64 {
			most := 1.0
			for i, from := range at {
				most = max(most, float64(len(at)-i+1)-b.Rate*(now-from))
			}
			return most
		}
		for range 60 {
			now += rapid.SampledFrom([]float64{0, .001, .1, .25, .5, 3}).Draw(t, "gap")
			now = time.Duration(now * 1e9).Seconds()
			d := time.Duration(math.Round(now * 1e9))
			fits, w := b.Fits(d, 1), worst()
			if math.Abs(w-b.Burst) > 1e-5 && fits != (w < b.Burst) {
				t.Fatalf("fits %v, the fullest window holds %v of %v", fits, w, b.Burst)
			}
			if b.Take(d, 1) != fits {
				t.Fatal("Take is not what Fits says")
			}
			if fits {
				at = append(at, now)
			}
		}
	})
}

func TestBucketSetForgives(t *testing.T) {
	b := Bucket{Rate: 1, Burst: 100}
	b.Charge(100)
	b.Set(0, 1, 10)
	if b.Free() != 0 || !b.Fits(time.Second, 1) {
		t.Errorf("free %v", b.Free())
	}
}

// A client that asks at its rate exactly conforms, though a third of a second is no
// whole number of nanoseconds.
func TestBucketForgivesRounding(t *testing.T) {
	b := Bucket{Rate: 3, Burst: 1}
	for i := range 1000 {
		if !b.Take(time.Duration(i)*time.Second/3, 1) {
			t.Fatalf("request %d is turned away", i)
		}
	}
}

// A refusal is wrongful where the bucket admits and turns nothing away around it.
func TestWrongful(t *testing.T) {
	c := Central{Bucket: Bucket{Rate: 1, Burst: 1}}
	for i, r := range []struct {
		second, millisecond time.Duration
		refused, conforms   bool
	}{
		{0, 0, true, true},     // nothing is turned away within 2 s
		{3, 0, true, true},     // half a second before a rejected one
		{3, 500, true, false},  // too much: rightly refused
		{5, 0, true, true},     // 1.5 s after it
		{6, 0, false, true},    // admitted
		{10, 100, true, true},  // nothing near
		{11, 200, false, true}, // admitted
	} {
		if got := c.Offer(i, r.second*time.Second+r.millisecond*time.Millisecond, 1, r.refused); got != r.conforms {
			t.Errorf("at %d s: conforms %v", r.second, got)
		}
	}
	got := c.Wrongful(2 * time.Second)
	if !slices.Equal(got, []int{0, 5}) {
		t.Errorf("wrongful: requests %v, want 0 and 5", got)
	}
}

// The level and the window against all windows, one by one.
func TestLevelAndWindowOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Level{Rate: rapid.Float64Range(0, 50).Draw(t, "rate"), Burst: rapid.Float64Range(0, 10).Draw(t, "burst")}
		w := Window{Width: time.Second}
		var all []admission
		now := time.Duration(0)
		for range rapid.IntRange(1, 80).Draw(t, "n") {
			ms := rapid.SampledFrom([]int{0, 0, 1, 100, 250, 400, 1000, 3000}).Draw(t, "ms")
			now += time.Duration(ms) * time.Millisecond
			cost := float64(rapid.IntRange(1, 3).Draw(t, "cost"))
			all = append(all, admission{now, cost})
			excess, most := math.Inf(-1), 0.0
			for i, from := range all {
				sum := 0.0
				for _, a := range all[i:] {
					sum += a.cost
				}
				excess = max(excess, sum-l.Rate*(now-from.at).Seconds()-l.Burst)
				if now-from.at < time.Second {
					most = max(most, sum)
				}
			}
			if got := l.Admit(now, cost); math.Abs(got-excess) > 1e-9 {
				t.Fatalf("windows that end at %v: excess %v, by trying all %v", now, got, excess)
			}
			if got := w.Admit(now, cost); got != most {
				t.Fatalf("second that ends at %v: %v, by trying all %v", now, got, most)
			}
		}
	})
}

// A smaller burst makes no excess of requests that were within the larger one.
func TestLevelSet(t *testing.T) {
	l := Level{Rate: 10, Burst: 100}
	for range 100 {
		l.Admit(0, 1)
	}
	l.Set(0, 10, 5)
	if x := l.Admit(time.Second, 1); x > 0 {
		t.Errorf("%v over", x)
	}
}

// What is repaid may be admitted again.
func TestLevelRepay(t *testing.T) {
	l := Level{Rate: 1, Burst: 2}
	l.Admit(0, 4)
	l.Repay(3)
	if x := l.Admit(time.Second, 1); x != -1 {
		t.Errorf("excess %v, want -1", x)
	}
}

// The table of docs/control.md, 100/s and b = 100 at τ = 25 ms, and the cases at the ends.
func TestSlack(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		l           Limit
		k           int
		delay       time.Duration
		slack, cold float64
	}{
		{Limit{100, 100, true}, 3, 25 * ms, 2 + 2*15, 0},
		{Limit{100, 100, false}, 3, 25 * ms, 2 + 3*15, 200},
		{Limit{5, 5, false}, 3, 25 * ms, 2 + 5*.75, 10},
		{Limit{1, 1, true}, 2, 25 * ms, 2.15 + 1 + 8*.15, 0},
		{Limit{1, 1, false}, 1, 25 * ms, 0, 0},
	} {
		slack, cold := c.l.Slack(c.k, Lag(c.k, c.delay, false))
		if math.Abs(slack-c.slack) > 1e-9 || math.Abs(cold-c.cold) > 1e-9 {
			t.Errorf("%+v at %d gateways: slack %v and cold %v, want %v and %v", c.l, c.k, slack, cold, c.slack, c.cold)
		}
	}
	for agents, want := range map[int]time.Duration{3: 400 * ms, 16: 400 * ms, 17: 675 * ms} {
		if got := Lag(agents, 25*ms, true); got != want {
			t.Errorf("%d agents: lag with losses %v, want %v", agents, got, want)
		}
	}
}

// Water-filling by hand: the tenant with the smallest demand by weight is satisfied first.
func TestEntitle(t *testing.T) {
	none := math.Inf(1)
	got := Pool{Capacity: 40}.Entitle([]Tenant{{1, 0, 15, 40}, {1, 0, none, 100}, {0, 0, none, 5}})
	if got[0].Share != 15 || got[1].Share != 25 || got[2].Share != 0 || got[0].Held || !got[1].Held {
		t.Errorf("%+v", got)
	}
	got = Pool{Capacity: 40}.Entitle([]Tenant{{1, 30, none, 40}, {1, 0, none, 40}})
	if math.Abs(got[0].Share-30) > 1e-9 || math.Abs(got[1].Share-10) > 1e-9 {
		t.Errorf("with a guarantee of 30: %+v", got)
	}
	got = Pool{Capacity: 40, Alpha: .5}.Entitle([]Tenant{{3, 0, none, 99}, {1, 0, none, 99}})
	if math.Abs(got[0].Share-36) > 1e-9 {
		t.Errorf("with α = 1/2, weights 9:1: %+v", got)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, .99, 0},
		{[]float64{3}, .99, 3},
		{[]float64{5, 1, 3}, 0, 1},
		{[]float64{5, 1, 3}, .5, 3},
		{[]float64{5, 1, 3}, 1, 5},
		{hundred, .99, 99},
	} {
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}
