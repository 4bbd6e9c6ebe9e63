package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// replace puts another configuration in force at all engines and owners.
func (f *exactFleet) replace(now int64, c *config.Config) {
	f.t.Helper()
	for _, e := range f.engines {
		mustApply(f.t, e, c)
	}
	var in config.Set
	in.Replace(c)
	_, p, _ := ExactKey(&in, 0, &exchange.KeyName{Tenant: "a", Limit: "l", Client: "c"})
	for _, o := range f.owners {
		o.Configure(p, now)
	}
}

// spend asks all gateways in turn for so many requests, and returns how many are admitted.
func (f *exactFleet) spend(now int64, n int) (admitted int) {
	f.t.Helper()
	for i := range n {
		admitted += f.total(i%len(f.engines), now, Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}, 1)
	}
	return admitted
}

// A limit is changed while a client uses it. The rule is the same wherever the client is counted. What was
// left stays in proportion, a raise admits the difference, and a client that owes an empty bucket passes
// after 1/rate.
func TestLimitChangedInUse(t *testing.T) {
	const minute, hour, day = 60., 3600., 86400.
	for _, tc := range []struct {
		name       string
		from, to   config.RateBurst
		spent      int
		left       int // right after the change
		passesLate bool
	}{
		{"900 of 1000/min, then 60/min", config.RateBurst{Rate: 1000 / minute, Burst: 1000},
			config.RateBurst{Rate: 60 / minute, Burst: 60}, 900, 6, true},
		{"all of 1000/min, then 60/min", config.RateBurst{Rate: 1000 / minute, Burst: 1000},
			config.RateBurst{Rate: 60 / minute, Burst: 60}, 1000, 0, true},
		{"50 of 2000/h, then 5/d", config.RateBurst{Rate: 2000 / hour, Burst: 2000},
			config.RateBurst{Rate: 5 / day, Burst: 5}, 50, 4, true},
		{"all of 2000/h, then 5/d", config.RateBurst{Rate: 2000 / hour, Burst: 2000},
			config.RateBurst{Rate: 5 / day, Burst: 5}, 2000, 0, true},
		{"all of 60/min, then 12/min burst 1", config.RateBurst{Rate: 1, Burst: 60},
			config.RateBurst{Rate: .2, Burst: 1}, 60, 0, true},
		{"all of 60/min, then 12/min burst 2", config.RateBurst{Rate: 1, Burst: 60},
			config.RateBurst{Rate: .2, Burst: 2}, 60, 0, true},
		{"burst 2, then 1", config.RateBurst{Rate: .2, Burst: 2}, config.RateBurst{Rate: .1, Burst: 1}, 2, 0, true},
		{"raised", config.RateBurst{Rate: 1, Burst: 60}, config.RateBurst{Rate: 10, Burst: 600}, 60, 540, false},
		{"raised from 5/d", config.RateBurst{Rate: 5 / day, Burst: 5}, config.RateBurst{Rate: 10, Burst: 100}, 5, 95, false},
		{"a lower rate", config.RateBurst{Rate: 10, Burst: 100}, config.RateBurst{Rate: .1, Burst: 100}, 60, 40, true},
		{"a smaller burst", config.RateBurst{Rate: 1, Burst: 100}, config.RateBurst{Rate: 1, Burst: 10}, 60, 4, true},
	} {
		for mode, precision := range map[string]config.Precision{"LOCAL": config.Local, "EXACT": config.Exact} {
			for gateways := 1; gateways <= 2; gateways++ {
				t.Run(fmt.Sprintf("%s/%s at %d", tc.name, mode, gateways), func(t *testing.T) {
					limited := func(rb config.RateBurst) *config.Config {
						return simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: rb.Rate, Burst: rb.Burst, Precision: precision})
					}
					f := newExactFleet(t, gateways, limited(tc.from))
					f.gossip(sec, false)
					client := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
					if n := f.spend(sec, tc.spent); n != tc.spent {
						t.Fatalf("%d of %d admitted before the change", n, tc.spent)
					}
					now := sec + ms
					f.gossip(now, false)
					f.replace(now, limited(tc.to))
					if n := f.total(0, now, client, tc.left+3); math.Abs(float64(n-tc.left)) > 1 {
						t.Errorf("%d admitted after the change, want %d", n, tc.left)
					}
					f.gossip(now+ms, false)
					now += int64(float64(time.Second)*1.01/tc.to.Rate) + ms
					if n := f.total(0, now, client, 2); tc.passesLate && n < 1 {
						t.Errorf("still refused after 1/rate")
					}
				})
			}
		}
	}
}

// A client that does not come while its limit is changed several times is treated as after each of the
// changes. After more of them than are remembered it owes at most an empty bucket.
func TestLimitChangedSeveralTimes(t *testing.T) {
	limited := func(rate, burst float64) *config.Config {
		return simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: rate, Burst: burst, Precision: config.Local,
			Overrides: map[string]config.RateBurst{"other": {Rate: rate, Burst: burst}}})
	}
	for _, changes := range []int{2, 3, 40} {
		f := newExactFleet(t, 1, limited(1, 1000))
		f.spend(sec, 1000)
		for i := range changes {
			f.replace(sec, limited(1, 1000+float64(i%2)))
		}
		f.replace(sec, limited(1, 10))
		if n := f.spend(sec, 5); n > 1 {
			t.Errorf("%d changes: %d of an empty bucket admitted", changes, n)
		}
		if n := f.spend(2*sec+ms, 5); n < 1 {
			t.Errorf("%d changes: refused for longer than 1/rate", changes)
		}
	}
}

// A change of one limit does not touch what clients have spent of others, nor an unchanged configuration
// what they have spent of any.
func TestUnchangedLimitKeepsWhatIsSpent(t *testing.T) {
	limited := func(other float64) *config.Config {
		return simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: 1, Burst: 10, Precision: config.Local},
			config.Limit{Name: "other", Rate: other, Burst: 1000, Precision: config.Local})
	}
	f := newExactFleet(t, 1, limited(100))
	f.spend(sec, 7)
	for i := range 5 {
		f.replace(sec, limited(float64(100+i/2)))
	}
	if n := f.spend(sec, 10); n != 3 {
		t.Errorf("%d admitted, want the 3 that were left", n)
	}
}

// A limit is changed, deleted and made again. What counts its clients goes by the new numbers.
func TestLimitMadeAgain(t *testing.T) {
	limited := func(precision config.Precision, burst float64) *config.Config {
		return simple(1e9, config.Queue{}, config.Limit{Name: "l", Rate: .01, Burst: burst, Precision: precision})
	}
	for mode, precision := range map[string]config.Precision{"LOCAL": config.Local, "EXACT": config.Exact} {
		f := newExactFleet(t, 2, limited(precision, 1000))
		for i := range 4 {
			f.replace(sec, limited(precision, 1000+float64(i)))
		}
		f.gossip(sec, false)
		f.spend(sec, 200)
		f.gossip(sec, false)
		for _, e := range f.engines {
			mustApply(t, e, simple(1e9, config.Queue{}))
		}
		f.replace(sec+ms, limited(precision, 10))
		if n := f.spend(sec+ms, 100); n > 20 {
			t.Errorf("%s: %d admitted of a new burst of 10", mode, n)
		}
	}
}

// A limit is lowered while its client rests, which was at one gateway only, and the client comes back at the
// other one: at once, or some seconds later.
func TestLimitLoweredForClientElsewhere(t *testing.T) {
	is := config.RateBurst{Rate: 1000 / 60., Burst: 1000}
	to := config.RateBurst{Rate: 1, Burst: 60}
	for name, limited := range map[string]func(rb config.RateBurst) config.Limit{
		"the limit": func(rb config.RateBurst) config.Limit { return config.Limit{Rate: rb.Rate, Burst: rb.Burst} },
		"its override": func(rb config.RateBurst) config.Limit {
			return config.Limit{Rate: 7, Burst: 7, Overrides: map[string]config.RateBurst{"c": rb}}
		},
	} {
		for _, later := range []int64{0, 5, 12} {
			with := func(rb config.RateBurst) *config.Config {
				l := limited(rb)
				l.Name, l.Precision = "l", config.Local
				return simple(1e9, config.Queue{}, l)
			}
			f, now := newExactFleet(t, 2, with(is)), sec
			client := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
			f.gossip(now, false)
			if n := f.total(0, now, client, 900); n != 900 {
				t.Fatalf("%d of 900 admitted", n)
			}
			rest := func(d int64) {
				for end := now + d; now < end; now += 50 * ms {
					f.gossip(now, false)
				}
			}
			rest(500 * ms)
			f.replace(now, with(to))
			rest(later * sec)
			if n := f.total(1, now, client, 60); later > 0 && math.Abs(float64(n)-float64(6+later)) > 2.5 {
				t.Errorf("%s, %d s later: %d admitted, want %d", name, later, n, 6+later)
			}
			rest(1100 * ms)
			if n := f.total(1, now, client, 1); n != 1 {
				t.Errorf("%s, %d s later: still refused after 1/rate", name, later)
			}
		}
	}
}
