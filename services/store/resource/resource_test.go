package resource

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]Ref{
		"pools/api":                 {Kind: Pool, ID: "api"},
		"tenants/-":                 {Kind: Tenant, ID: "-"},
		"tenants/acme":              {Kind: Tenant, ID: "acme"},
		"tenants/a.b_c-d/quotas/x1": {Kind: Quota, Tenant: "a.b_c-d", ID: "x1"},
		"tenants/-/limits/all":      {Kind: Limit, Tenant: "-", ID: "all"},
	} {
		got, err := Parse(name)
		if err != nil || got != want || got.String() != name {
			t.Errorf("Parse(%q) = %+v (%v), want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "api", "pools/", "pools/-", "pools/A", "pools/a/b", "pool/a", "tenants/",
		"tenants//quotas/a", "tenants/a/quotas", "tenants/a/quotas/", "tenants/a/quotas/-", "tenants/a/pools/b",
		"tenants/-a", "pools/a-", "/pools/a",
		"pools/" + strings.Repeat("a", 64), "pools/a\n"} {
		if got, err := Parse(name); err == nil {
			t.Errorf("Parse(%q) = %+v", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("tenants/acme/quotas/api")
	f.Fuzz(func(t *testing.T, name string) {
		if ref, err := Parse(name); err == nil && ref.String() != name {
			t.Errorf("%q comes back as %q", name, ref)
		}
	})
}

func TestParseRate(t *testing.T) {
	for s, want := range map[string]float64{"100/s": 100, "30/min": 0.5, "30/minute": 0.5, "7200/h": 2, "86400/d": 1,
		"0.5/sec": 0.5, "1/day": 1. / 86400, "0": 0, "0/min": 0, "604800/w": 1, "1/week": 1. / 604800, "100/10s": 10,
		"300/5min": 1, "7000/30d": 7000. / 30 / 86400, "1/366d": 1. / 366 / 86400, "1e9/s": 1e9, "5e-1/s": 0.5} {
		if got, err := ParseRate(s); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("ParseRate(%q) = %g (%v), want %g", s, got, err, want)
		}
	}
	for _, s := range []string{"", "5", "/s", "5/", "5/fortnight", "5/10", "5/0s", "5/010s",
		"5/367d", "5/1.5h", "5/-1s", "5/99999999999999999999s", ".5/s", "1./s", "-1/s", "-0.1/s", "00", "NaN/s", "Inf/s", "1e999/s", "2e9/s",
		"0x10p0/s", "1_0/s", "5 /s"} {
		if got, err := ParseRate(s); err == nil {
			t.Errorf("ParseRate(%q) = %g", s, got)
		}
	}
}

// A month is refused with what to write instead.
func TestAMonthIsNoWindow(t *testing.T) {
	for _, s := range []string{"1/month", "1/2months", "1/y", "1/year"} {
		if _, err := ParseRate(s); err == nil || !strings.Contains(err.Error(), "give days, such as 100/30d") {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func FuzzParseRate(f *testing.F) {
	f.Add("10/min")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseRate(s); err == nil && !(r >= 0 && r <= MaxRate) {
			t.Errorf("ParseRate(%q) = %g", s, r)
		}
	})
}

func TestRatesOfALimit(t *testing.T) {
	const name = "tenants/a/limits/l"
	l, err := LimitConfig(&quotav1.Limit{Name: name, Rate: "30/min",
		Overrides: []*quotav1.InlineOverride{{Client: "vip", Rate: "50/s"}, {Client: "big", Rate: "1/s", Burst: 9}}})
	want := map[string]config.RateBurst{"vip": {Rate: 50, Burst: 50}, "big": {Rate: 1, Burst: 9}}
	if err != nil || l.Rate != .5 || l.Burst != 1 || !maps.Equal(l.Overrides, want) {
		t.Errorf("%+v (%v)", l, err)
	}
	bad := &quotav1.Limit{Name: name, Rate: "1/s", Overrides: []*quotav1.InlineOverride{{Client: "vip"}}}
	if _, err := LimitConfig(bad); err == nil {
		t.Error("an override without rate has a rate")
	}
}

func TestDefaultBurstIsTheAmountOfTheWindow(t *testing.T) {
	for rate, want := range map[string]float64{
		"100/min": 100, "10/s": 10, "1000/h": 1000, "0.5/s": 1, "0": 1, "0/s": 1, "86400000000/d": 1e9,
	} {
		l := &quotav1.Limit{Name: "tenants/a/limits/l", Rate: rate,
			Overrides: []*quotav1.InlineOverride{{Client: "c", Rate: rate}}}
		FillDefaults(l)
		if l.Burst != want || l.Overrides[0].Burst != want {
			t.Errorf("%s gets a burst of %g and %g, want %g", rate, l.Burst, l.Overrides[0].Burst, want)
		}
	}
}

func TestFillDefaultsIsIdempotentAndKeepsWhatIsSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &quotav1.Pool{Name: "pools/a", Capacity: 1,
			Sharing: quotav1.Sharing(rapid.IntRange(0, 2).Draw(t, "sharing")),
			OnLoss:  quotav1.OnLoss(rapid.IntRange(0, 3).Draw(t, "loss"))}
		if rapid.Bool().Draw(t, "queue") {
			p.Queue = &quotav1.Queue{Aqm: quotav1.Aqm(rapid.IntRange(0, 3).Draw(t, "aqm")),
				MaxRequests: rapid.Uint32Range(0, 9).Draw(t, "max")}
		}
		once := proto.Clone(p).(*quotav1.Pool)
		FillDefaults(once)
		twice := proto.Clone(once).(*quotav1.Pool)
		FillDefaults(twice)
		if !proto.Equal(once, twice) {
			t.Fatalf("%v became %v", once, twice)
		}
		if p.Sharing != 0 && once.Sharing != p.Sharing ||
			p.Queue.GetMaxRequests() != 0 && once.Queue.MaxRequests != p.Queue.MaxRequests {
			t.Fatalf("%v lost something: %v", p, once)
		}
	})
}

func TestReferences(t *testing.T) {
	for _, c := range []struct {
		m    Message
		want []Reference
	}{
		{&quotav1.Pool{Name: "pools/a"}, nil},
		{&quotav1.Quota{Name: "tenants/a/quotas/p"}, []Reference{{"tenants/a", "name"}, {"pools/p", "name"}}},
		{&quotav1.Quota{Name: "tenants/-/quotas/p"}, []Reference{{"pools/p", "name"}}},
		{&quotav1.Limit{Name: "tenants/a/limits/l", Pools: []string{"p", "q"}},
			[]Reference{{"tenants/a", "name"}, {"pools/p", "pools[0]"}, {"pools/q", "pools[1]"}}},
	} {
		if got := References(c.m); !slices.Equal(got, c.want) {
			t.Errorf("%s refers to %v, want %v", c.m.GetName(), got, c.want)
		}
	}
}
