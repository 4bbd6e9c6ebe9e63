package valid

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

func TestResource(t *testing.T) {
	limit := func(change func(*quotav1.Limit)) resource.Message {
		l := &quotav1.Limit{Name: "tenants/acme/limits/x", Rate: "5/s"}
		change(l)
		return l
	}
	flight := func(change func(*quotav1.Limit)) resource.Message {
		return limit(func(l *quotav1.Limit) {
			l.Rate, l.Concurrency = "", 20
			change(l)
		})
	}
	pool := func(change func(*quotav1.Pool)) resource.Message {
		p := &quotav1.Pool{Name: "pools/api", Capacity: 100}
		change(p)
		return p
	}
	quota := func(change func(*quotav1.Quota)) resource.Message {
		q := &quotav1.Quota{Name: "tenants/acme/quotas/api"}
		change(q)
		return q
	}
	// What the .proto declares and what it cannot declare are said together, and at a field once.
	both := &Error{}
	if err := Resource(limit(func(l *quotav1.Limit) {
		l.Rate, l.Burst, l.Pools = "5", .5, []string{"pools/api"}
	})); !errors.As(err, &both) || len(both.Violations) != 3 || both.Violations[0].Field != "rate" ||
		both.Violations[1].Field != "burst" || both.Violations[2].Field != "pools[0]" {
		t.Errorf("several at once: %v", both.Violations)
	}
	for _, c := range []struct {
		name        string
		m           resource.Message
		field, text string // "" = valid
	}{
		{"no rate", limit(func(l *quotav1.Limit) { l.Rate = "" }), "rate", "a concurrency or a quota"},
		{"a concurrency", flight(func(l *quotav1.Limit) {
			l.Overrides = []*quotav1.InlineOverride{{Client: "a", Concurrency: 3}}
		}), "", ""},
		{"concurrency and rate", flight(func(l *quotav1.Limit) { l.Rate = "1/s" }), "rate", "none beside a concurrency"},
		{"concurrency and a block", flight(func(l *quotav1.Limit) { l.Rate = "0" }), "rate", "left out"},
		{"concurrency and a block of a client", flight(func(l *quotav1.Limit) {
			l.Overrides = []*quotav1.InlineOverride{{Client: "a", Concurrency: 3, Rate: "0/s"}}
		}), "overrides[0].rate", "left out"},
		{"concurrency and burst", flight(func(l *quotav1.Limit) { l.Burst = 2 }), "burst", "none beside a concurrency"},
		{"concurrency and precision", flight(func(l *quotav1.Limit) { l.Precision = quotav1.Precision_EXACT }),
			"precision", "none for a limit with a concurrency"},
		{"concurrency and strict", flight(func(l *quotav1.Limit) { l.Strict = true }), "strict", "false"},
		{"concurrency and a law", flight(func(l *quotav1.Limit) { l.Queue = &quotav1.Queue{} }), "queue.aqm", "DROP_TAIL"},
		{"concurrency and cost", flight(func(l *quotav1.Limit) { l.Cost = "output" }), "cost", "counts requests"},
		{"concurrency too large", flight(func(l *quotav1.Limit) { l.Concurrency = 1e6 + 1 }), "concurrency", ""},
		{"an override with a rate", flight(func(l *quotav1.Limit) {
			l.Overrides = []*quotav1.InlineOverride{{Client: "a", Rate: "1/s"}}
		}), "overrides[0].concurrency", "missing"},
		{"an override with a concurrency", limit(func(l *quotav1.Limit) {
			l.Overrides = []*quotav1.InlineOverride{{Client: "a", Concurrency: 1}}
		}), "overrides[0].concurrency", "left out"},
		{"a pool", pool(func(*quotav1.Pool) {}), "", ""},
		{"no capacity", pool(func(p *quotav1.Pool) { p.Capacity = 0 }), "capacity", "greater than 0"},
		{"negative capacity", pool(func(p *quotav1.Pool) { p.Capacity = -1 }), "capacity", "greater than 0"},
		{"NaN capacity", pool(func(p *quotav1.Pool) { p.Capacity = math.NaN() }), "capacity", ""},
		{"wrong collection", pool(func(p *quotav1.Pool) { p.Name = "pool/api" }), "name", "not a name"},
		{"another kind's name", pool(func(p *quotav1.Pool) { p.Name = "tenants/api" }), "name", "another kind"},
		{"undefined enum", pool(func(p *quotav1.Pool) { p.Sharing = 9 }), "sharing", "defined"},
		{"alpha kept for later", pool(func(p *quotav1.Pool) { p.Alpha = 2 }), "", ""},
		{"wait below a given target", pool(func(p *quotav1.Pool) {
			p.Queue = &quotav1.Queue{DelayTarget: durationpb.New(3 * time.Second),
				MaxWait: durationpb.New(2 * time.Second)}
		}), "queue.delay_target", "3s"},
		{"wait below the default", pool(func(p *quotav1.Pool) {
			p.Queue = &quotav1.Queue{DelayTarget: durationpb.New(3 * time.Second)}
		}), "queue.delay_target", "max_wait, which is 1s"},
		{"wait out of range", pool(func(p *quotav1.Pool) {
			p.Queue = &quotav1.Queue{MaxWait: durationpb.New(time.Hour)}
		}), "queue.max_wait", "60s"},
		{"safe rate without expiry", pool(func(p *quotav1.Pool) {
			p.OnLoss = quotav1.OnLoss_SAFE_RATE
		}), "hard_expiry", "above 0"},
		{"max below guarantee", quota(func(q *quotav1.Quota) {
			q.Guaranteed, q.Max = 5, proto.Float64(4)
		}), "", "at least guaranteed"},
		{"max 0", quota(func(q *quotav1.Quota) { q.Max = proto.Float64(0) }), "", ""},
		{"a limit", limit(func(*quotav1.Limit) {}), "", ""},
		{"rate without unit", limit(func(l *quotav1.Limit) { l.Rate = "5" }), "rate", "no unit"},
		{"rate of a strange unit", limit(func(l *quotav1.Limit) { l.Rate = "5/fortnight" }), "rate", "unknown unit"},
		{"rate of a month", limit(func(l *quotav1.Limit) { l.Rate = "5/month" }), "rate", "give days, such as 100/30d"},
		{"rate of a week", limit(func(l *quotav1.Limit) { l.Rate = "5/week" }), "", ""},
		{"rate of ten seconds", limit(func(l *quotav1.Limit) { l.Rate = "100/10s" }), "", ""},
		{"the highest rate", limit(func(l *quotav1.Limit) { l.Rate, l.Burst = "1e9/s", 1 }), "", ""},
		{"rate 0 blocks", limit(func(l *quotav1.Limit) { l.Rate = "0/s" }), "", ""},
		{"rate 0 without unit", limit(func(l *quotav1.Limit) { l.Rate = "0" }), "", ""},
		{"rate too high", limit(func(l *quotav1.Limit) { l.Rate = "9999999999/s" }), "rate", "at most"},
		{"weight above the most", &quotav1.Tenant{Name: "tenants/a", Weight: 2e6}, "weight", "or equal to 1000000"},
		{"rate above the most", limit(func(l *quotav1.Limit) { l.Rate = "1.1e9/s" }), "rate", "at most 1000000000/s"},
		{"burst below 1", limit(func(l *quotav1.Limit) { l.Burst = 0.5 }), "burst", "at least 1"},
		{"negative burst", limit(func(l *quotav1.Limit) { l.Burst = -1 }), "burst", "-1 must be at least 1"},
		{"negative weight", &quotav1.Tenant{Name: "tenants/a", Weight: -1}, "weight", "-1 must be above 0; left out"},
		{"part of a window", limit(func(l *quotav1.Limit) { l.Rate = "1/1.5s" }), "rate",
			"the number before a unit must be a whole number, such as 10s, found 1.5s"},
		{"class twice", limit(func(l *quotav1.Limit) { l.Classes = []string{"a", "b", "a"} }), "classes[2]",
			`"a" is named twice`},
		{"bad class", limit(func(l *quotav1.Limit) { l.Classes = []string{"A b"} }), "classes[0]",
			`"A b" is not a name: want 1 to 63`},
		{"pool with prefix", limit(func(l *quotav1.Limit) { l.Pools = []string{"pools/api"} }), "pools[0]",
			"without pools/"},
		{"pool twice", limit(func(l *quotav1.Limit) { l.Pools = []string{"a", "a"} }), "pools[1]", "twice"},
		{"pool with a bad ID", limit(func(l *quotav1.Limit) { l.Pools = []string{"A b"} }), "pools[0]", "A b"},
		{"override without rate", limit(func(l *quotav1.Limit) {
			l.Overrides = []*quotav1.InlineOverride{{Client: "vip"}}
		}), "overrides[0].rate", ""},
		{"override twice", limit(func(l *quotav1.Limit) {
			l.Overrides = []*quotav1.InlineOverride{{Client: "vip", Rate: "1/s"}, {Client: "vip", Rate: "2/s"}}
		}), "overrides[1].client", "twice"},
		{"override of a limit on all", limit(func(l *quotav1.Limit) {
			l.Key, l.Overrides = quotav1.Key_TENANT, []*quotav1.InlineOverride{{Client: "vip", Rate: "1/s"}}
		}), "overrides", "together"},
		{"identity of a limit on all", limit(func(l *quotav1.Limit) {
			l.Key, l.Identity = quotav1.Key_TENANT, "ip"
		}), "identity", "together"},
		{"identity and classes", limit(func(l *quotav1.Limit) { l.Identity, l.Classes = "ip", []string{"writes"} }), "",
			""},
		{"default tenant", &quotav1.Tenant{Name: "tenants/-"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := proto.Clone(c.m)
			err := Resource(c.m)
			if !proto.Equal(before, c.m) {
				t.Error("the check changed what it checked")
			}
			if c.field == "" && c.text == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var invalid *Error
			if !errors.As(err, &invalid) {
				t.Fatalf("error %v, want a violation of %q", err, c.field)
			}
			v := invalid.Violations[0]
			if v.Field != c.field || !strings.Contains(v.Message, c.text) || v.Message == "" {
				t.Errorf("violation %+v, want %q with %q", v, c.field, c.text)
			}
		})
	}
}

// What is read instead of its pattern keeps the pattern: a name of its kind, and a rate.
func TestWhatCanBeReadKeepsItsPattern(t *testing.T) {
	pattern := func(m resource.Message, field protoreflect.Name) *regexp.Regexp {
		d := m.ProtoReflect().Descriptor().Fields().ByName(field)
		rules, err := protovalidate.ResolveFieldRules(d)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(rules.GetString().GetPattern())
	}
	names, rates := map[resource.Kind]*regexp.Regexp{}, pattern(&quotav1.Override{}, "rate")
	for _, k := range resource.Kinds {
		names[k] = pattern(k.New(), "name")
	}
	rapid.Check(t, func(r *rapid.T) {
		k := rapid.SampledFrom(resource.Kinds).Draw(r, "kind")
		name := rapid.StringMatching(names[k].String()).Draw(r, "name")
		if i := rapid.IntRange(0, len(name)).Draw(r, "at"); rapid.Bool().Draw(r, "wrong") {
			name = name[:i] + rapid.SampledFrom([]string{"/", "-", "%", "A", "é", "\n", "%4a"}).Draw(r, "odd") + name[i:]
		}
		if ref, err := resource.Parse(name); err == nil && !names[ref.Kind].MatchString(name) {
			t.Fatalf("%q is the name of a %s", name, ref.Kind)
		}
		rate := rapid.StringMatching(`-?[0-9.eE+x]{0,5}(/?[0-9]{0,3}[a-z]{0,6})?`).Draw(r, "rate")
		if rapid.Bool().Draw(r, "right") {
			rate = rapid.StringMatching(rates.String()).Draw(r, "of the pattern")
		}
		if _, err := resource.ParseRate(rate); err == nil && !rates.MatchString(rate) {
			t.Fatalf("%q is a rate", rate)
		}
	})
}
