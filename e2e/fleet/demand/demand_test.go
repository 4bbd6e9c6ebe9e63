package demand

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/judge"
)

const second = time.Second

// A client of ten requests, burst 2 and 1/s, beside one bucket.
func TestFigures(t *testing.T) {
	of := Limit{Rate: 1, Burst: 2}
	var l Log
	for i, r := range []Record{{0, 0, true}, {0, 0, true}, {0, 0, true}, {second, second, false}, {10 * second, 0, false},
		{20 * second, 21 * second, true}} {
		if l.Add(r); l.Len() != i+1 {
			t.Errorf("%d records", l.Len())
		}
	}
	// The bucket admits the first two, that after a second, and the last two; the refusal at 10 s is wrong.
	f := l.Figures(of)
	if f != (Figures{Offered: 6, Admitted: 4, Central: 5, Wrongful: 1, Excess: 1}) {
		t.Errorf("%+v", f)
	}
	if f.Ratio() != .8 || math.Abs(f.Refused()-1./3) > 1e-9 || (Figures{}).Ratio() != 0 {
		t.Errorf("%v, %v", f.Ratio(), f.Refused())
	}
}

func TestNext(t *testing.T) {
	c, r, sum := Client{Limit: Limit{Rate: 100}, Load: .5}, rand.New(rand.NewPCG(1, 2)), time.Duration(0)
	for range 10_000 {
		sum += c.Next(r)
	}
	if per := 10_000 / sum.Seconds(); math.Abs(per-50) > 2 {
		t.Errorf("%.1f requests per second, want 50", per)
	}
}

// One bucket for all sites refuses none of a crowd, and for minutes its bucket is not whole: the key stays in use. Each
// client goes to all sites.
func TestCrowd(t *testing.T) {
	const sites = MostSites
	c := &Crowd{New: 2000, Keys: 100, Sites: sites, Rate: .05}
	rate, burst := c.Limit()
	buckets, at := map[int]*judge.Bucket{}, map[[2]int]int{}
	for now := time.Duration(0); now < 5*time.Minute; now += 50 * time.Millisecond {
		for range c.Due(now) {
			client, site, cost := c.Next()
			b := buckets[client]
			if b == nil {
				b = &judge.Bucket{Rate: rate, Burst: float64(burst)}
				buckets[client] = b
			} else if b.Fits(now, 0); b.Free() == float64(burst) {
				t.Fatalf("the bucket of client %d is whole at %v", client, now)
			}
			if !b.Take(now, cost) {
				t.Fatalf("client %d is refused at %v", client, now)
			}
			at[[2]int{client, site}]++
		}
		if known := now >= c.begins(); c.Known() != known {
			t.Errorf("known %v at %v", c.Known(), now)
		}
	}
	for client := range c.Keys {
		for site := range sites {
			if n := at[[2]int{client, site}]; n < 4 {
				t.Errorf("client %d asked %d times at site %d", client, n, site)
			}
		}
	}
}
