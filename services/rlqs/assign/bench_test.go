package assign

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

// BenchmarkSecond is a second of visits and rounds, with two Envoys that each use so many buckets.
func BenchmarkSecond(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := limiter.New(limiter.Options{})
			if err := e.Apply(&config.Config{Revision: 1, Pools: []config.Pool{{Name: "api", Capacity: 1e7}},
				Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: []config.Limit{{Name: "l", Rate: 10,
					Burst: 10}}}}}); err != nil {
				b.Fatal(err)
			}
			book := New(Options{Engine: e, Streams: 2, MembersOfStream: n, Members: 2 * n, Rand: rand.Float64})
			one, _ := book.Open(func() {})
			two, _ := book.Open(func() {})
			now := second
			for b.Loop() {
				for i := range n / 5 { // each reports every five seconds
					id := strconv.Itoa((i + int(now/second)%5*n/5) % n)
					of := Bucket{ID: id, Entries: map[string]string{"tenant": "acme", "client": id, "pool": "api"}}
					for _, s := range []*Stream{one, two} {
						if err := book.Report(now, s, of, 20, 20); err != nil {
							b.Fatal(err)
						}
					}
				}
				for range 100 {
					now += 10 * millisecond
					book.Visit(now)
					if now%(250*millisecond) == 0 {
						book.Round(now)
					}
				}
				book.Take(one, n)
				book.Take(two, n)
			}
		})
	}
}
