package rls

import (
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/titrate/titrate/control/exchange"
)

// noon is in the middle of a day, and 30 seconds into a minute.
const noon = 20000*86400 + 43230

// fixedServer is a server with fixed windows whose clock stands until it is moved.
func fixedServer(t *testing.T, file string, o Options) (s *Server, clock *int64) {
	t.Helper()
	o.Windows, o.Alone = Fixed, true
	s, clock = newServer(t, file, o), new(int64)
	*clock = noon
	s.now = func() time.Time { return time.Unix(*clock, 0) }
	return s, clock
}

const everyUnit = `
domain: shop
descriptors:
  - {key: second, rate_limit: {unit: second, requests_per_unit: 2}}
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 2}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 2}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 2}}
`

// A limit is whole again at the next multiple of its unit, and says so.
func TestFixedWindowsOfEveryUnit(t *testing.T) {
	s, clock := fixedServer(t, everyUnit, Options{Headers: true})
	const day = 86400
	for unit, length := range map[string]int64{"second": 1, "minute": 60, "hour": 3600, "day": day, "week": 7 * day,
		"month": 30 * day, "year": 365 * day} {
		*clock = noon
		reset := length - noon%length
		for i, want := range []string{"OK OK/1", "OK OK/0", "OVER_LIMIT OVER_LIMIT/0", "OVER_LIMIT OVER_LIMIT/0"} {
			r := ask(t, s, "shop", descriptor(unit+"=a"))
			if got := answers(r); got != want {
				t.Errorf("%s, request %d: %s, want %s", unit, i, got, want)
			}
			if got := int64(r.GetStatuses()[0].GetDurationUntilReset().AsDuration() / time.Second); got != reset {
				t.Errorf("%s: reset after %d s, want %d", unit, got, reset)
			}
		}
		*clock += reset - 1
		if got := answers(ask(t, s, "shop", withHits(unit+"=a", 0))); got != "OVER_LIMIT OVER_LIMIT/0" {
			t.Errorf("%s, in its last second: %s", unit, got)
		}
		*clock++
		r := ask(t, s, "shop", descriptor(unit+"=a"))
		if got := answers(r); got != "OK OK/1" || r.GetStatuses()[0].GetDurationUntilReset().GetSeconds() != length {
			t.Errorf("%s, in the next window: %v", unit, r)
		}
	}
}

func TestFixedSequences(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     Options
		steps [][2]string // hits and descriptor, answer
	}{
		{"what is refused counts, and a question at the limit is answered OK", Options{}, [][2]string{
			{"2 tenant=a", "OK OK/1"}, {"1 tenant=a", "OK OK/0"}, {"0 tenant=a", "OK OK/0"},
			{"1 tenant=a", "OVER_LIMIT OVER_LIMIT/0"}, {"0 tenant=a", "OVER_LIMIT OVER_LIMIT/0"}}},
		{"several hits beyond the limit use it up", Options{}, [][2]string{
			{"2 tenant=a", "OK OK/1"}, {"2 tenant=a", "OVER_LIMIT OVER_LIMIT/0"}, {"1 tenant=a", "OVER_LIMIT OVER_LIMIT/0"}}},
		{"but not so with StopOverLimit", Options{StopOverLimit: true}, [][2]string{
			{"2 tenant=a", "OK OK/1"}, {"2 tenant=a", "OVER_LIMIT OVER_LIMIT/0"}, {"1 tenant=a", "OK OK/0"},
			{"1 tenant=a", "OVER_LIMIT OVER_LIMIT/0"}, {"0 tenant=a", "OK OK/0"}}},
		{"shadow, quota, unlimited, blocked", Options{}, [][2]string{
			{"2 shadow=a", "OK OK/0"}, {"2 quota=a", "OVER_LIMIT OVER_LIMIT/0"}, {"9 tenant=vip", "OK OK"},
			{"1 tenant=blocked", "OVER_LIMIT OVER_LIMIT/0"}}},
		{"more hits than a ledger charges at once", Options{}, [][2]string{
			{"18446744073709551615 tenant=a", "OVER_LIMIT OVER_LIMIT/0"}, {"1 tenant=a", "OVER_LIMIT OVER_LIMIT/0"}}},
	} {
		s, _ := fixedServer(t, shop, c.o)
		for i, step := range c.steps {
			hits, text, _ := strings.Cut(step[0], " ")
			if got := answers(ask(t, s, "shop", withHits(text, number(t, hits)))); got != step[1] {
				t.Errorf("%s, step %d, %s: %s, want %s", c.name, i, step[0], got, step[1])
			}
		}
		if st := s.Stats(); st.Capped != 0 || st.Undecided != 0 {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
}

// A limit that a descriptor brings counts with the file's limit of the same unit.
func TestFixedOwnLimit(t *testing.T) {
	s, _ := fixedServer(t, shop, Options{})
	own := func(n uint32, unit typev3.RateLimitUnit) *ratelimitv3.RateLimitDescriptor {
		d := descriptor("tenant=a")
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
		return d
	}
	ask(t, s, "shop", descriptor("tenant=a"))
	if got := answers(ask(t, s, "shop", own(10, typev3.RateLimitUnit_DAY))); got != "OK OK/8" {
		t.Errorf("10 per day after one hit: %s", got)
	}
	if got := answers(ask(t, s, "shop", own(10, typev3.RateLimitUnit_HOUR))); got != "OK OK/9" {
		t.Errorf("10 per hour: %s", got)
	}
	if got := answers(ask(t, s, "shop", descriptor("tenant=a"))); got != "OK OK/0" {
		t.Errorf("the file's 3 per day after two hits: %s", got)
	}
}

// Counts survive a change of the files, as they do in a store.
func TestFixedCountsSurviveAChange(t *testing.T) {
	s, _ := fixedServer(t, shop, Options{})
	ask(t, s, "shop", withHits("tenant=a", 3))
	write(t, s.o.Dir, "domain: shop\ndescriptors: [{key: tenant, rate_limit: {unit: day, requests_per_unit: 10}}]")
	s.watch.look()
	if got := answers(ask(t, s, "shop", descriptor("tenant=a"))); got != "OK OK/6" {
		t.Errorf("10 per day after three hits: %s", got)
	}
}

func TestFixedClientsBeyondTheRoom(t *testing.T) {
	s, _ := fixedServer(t, shop, Options{Keys: 2})
	for i, want := range []string{"OK OK/2", "OK OK/2", "OK OK/2", "OK OK/1", "OK OK/0"} {
		if got := answers(ask(t, s, "shop", descriptor("tenant="+string(rune('a'+i))))); got != want {
			t.Errorf("client %d: %s, want %s", i, got, want)
		}
	}
	if st := s.Stats(); st.Counters != 3 || st.CountersShared != 3 {
		t.Errorf("%d counters, %d descriptors counted by a shared one", st.Counters, st.CountersShared)
	}
}

// Where there are no other limits the engine gets nothing of other gateways' keys.
func TestWhatTheEngineHears(t *testing.T) {
	for _, alone := range []bool{false, true} {
		s, _ := fixedServer(t, shop, Options{})
		sums := &exchange.Sums{Replicas: 2, Keys: []exchange.KeySum{{Key: 5, Admitted: 1, Spent: 1, Epoch: 1}}}
		(&sharing{s.windows, s, alone}).SetSums(sums)
		if len(sums.Keys) == 1 == alone {
			t.Errorf("alone %v: the engine hears %v", alone, sums.Keys)
		}
	}
}

func TestWindowsValidate(t *testing.T) {
	for _, w := range []Windows{"", Sliding, Fixed} {
		if err := w.Validate(); err != nil {
			t.Error(err)
		}
	}
	if err := Windows("tumbling").Validate(); err == nil ||
		err.Error() != `--rls-windows is "tumbling": want sliding or fixed` {
		t.Errorf("an unknown kind: %v", err)
	}
}
