package compile

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"
)

func pool(p *quotav1.Pool) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Pool{Pool: p}}
}

func tenant(t *quotav1.Tenant) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Tenant{Tenant: t}}
}

func quota(q *quotav1.Quota) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Quota{Quota: q}}
}

func limitOf(l *quotav1.Limit) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: l}}
}

func compiled(t *testing.T, resources ...*quotav1.Resource) *config.Config {
	t.Helper()
	c, left, err := whole(resources)
	if err != nil || left != nil {
		t.Fatal(err, left)
	}
	return c
}

// whole compiles resources.
func whole(resources []*quotav1.Resource) (*config.Config, []config.LeftOut, error) {
	var b Book
	if _, err := b.Change(resources, nil); err != nil {
		return nil, nil, err
	}
	c := b.Config()
	c.Revision, c.Seed = 7, 42
	return c, b.LeftOut(), nil
}

func TestConfig(t *testing.T) {
	police := config.Queue{Law: config.Police}
	usual := config.Queue{Law: config.VariableStructure,
		DelayTarget: 50 * time.Millisecond, MaxWait: time.Second, MaxRequests: 1024}
	got := compiled(t,
		limitOf(&quotav1.Limit{Name: "tenants/-/limits/all", Rate: "10/s"}),
		limitOf(&quotav1.Limit{Name: "tenants/-/limits/small", Rate: "6/min"}),
		limitOf(&quotav1.Limit{Name: "tenants/a/limits/all", Rate: "99/s", Burst: 5, Key: quotav1.Key_TENANT,
			Strict: true,
			Pools:  []string{"api"}, Mode: quotav1.Mode_SHADOW, Queue: &quotav1.Queue{Aqm: quotav1.Aqm_DROP_TAIL},
			Overrides: []*quotav1.InlineOverride{{Client: "c", Rate: "60/min"}}}),
		quota(&quotav1.Quota{Name: "tenants/a/quotas/api", Guaranteed: 3, Max: proto.Float64(8),
			Mode: quotav1.Mode_OFF}),
		quota(&quotav1.Quota{Name: "tenants/a/quotas/gone", Guaranteed: 3}),
		quota(&quotav1.Quota{Name: "tenants/b/quotas/api"}),
		tenant(&quotav1.Tenant{Name: "tenants/a", Weight: 2}),
		pool(&quotav1.Pool{Name: "pools/api", Capacity: 100}),
		pool(&quotav1.Pool{Name: "pools/db", Capacity: 5,
			OnLoss: quotav1.OnLoss_SAFE_RATE, HardExpiry: durationpb.New(time.Minute),
			Queue: &quotav1.Queue{DelayTarget: durationpb.New(time.Millisecond), MaxRequests: 3}}),
	)
	all := config.Limit{Name: "all", Rate: 10, Burst: 10, Queue: police, Mode: config.Enforce}
	small := config.Limit{Name: "small", Rate: .1, Burst: 1, Queue: police, Mode: config.Enforce}
	droptail := usual
	droptail.Law = config.DropTail
	want := &config.Config{Revision: 7, Seed: 42,
		Pools: []config.Pool{
			{Name: "api", Capacity: 100, Queue: usual, OnLoss: config.Freeze},
			{Name: "db", Capacity: 5, OnLoss: config.SafeRate, HardExpiry: time.Minute,
				Queue: config.Queue{Law: config.VariableStructure,
					DelayTarget: time.Millisecond, MaxWait: time.Second, MaxRequests: 3}},
		},
		Tenants: []config.Tenant{
			{Name: "-", Weight: 1, Limits: []config.Limit{all, small}},
			{Name: "a", Weight: 2, Limits: []config.Limit{
				{Name: "all", PerTenant: true, Rate: 99, Burst: 5, Pools: []string{"api"}, Queue: droptail,
					Mode: config.Shadow, Strict: true,
					Overrides: map[string]config.RateBurst{"c": {Rate: 1, Burst: 1}}}, small},
				Quotas: []config.Quota{{Pool: "api", Guaranteed: 3, Max: 8, Mode: config.Off}}},
			{Name: "b", Weight: 1, Limits: []config.Limit{all, small},
				Quotas: []config.Quota{{Pool: "api", Max: math.Inf(1), Mode: config.Enforce}}},
		},
	}
	if got := got.Inherited(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if want := []config.Limit{all, small}; !reflect.DeepEqual(got.Defaults, want) || len(got.Tenants[2].Limits) != 0 {
		t.Errorf("defaults %+v, want %+v once, and none in tenant b: %+v", got.Defaults, want, got.Tenants[2])
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		want string
		r    *quotav1.Resource
	}{
		{"pools/x: capacity", pool(&quotav1.Pool{Name: "pools/x", Capacity: math.NaN()})},
		{"pools/x: on_loss", pool(&quotav1.Pool{Name: "pools/x", Capacity: 1, OnLoss: 99})},
		{"pools/x: queue.aqm", pool(&quotav1.Pool{Name: "pools/x", Capacity: 1, Queue: &quotav1.Queue{Aqm: 99}})},
		{`"pool/x" is not a name`, pool(&quotav1.Pool{Name: "pool/x", Capacity: 1})},
		{"tenants/x: weight", tenant(&quotav1.Tenant{Name: "tenants/x", Weight: -1})},
		{`"tenants/x" is the name of a tenant, want that of a limit`,
			limitOf(&quotav1.Limit{Name: "tenants/x", Rate: "1/s"})},
		{"tenants/x/limits/y: rate", limitOf(&quotav1.Limit{Name: "tenants/x/limits/y", Rate: "1"})},
		{"tenants/x/limits/y: burst", limitOf(&quotav1.Limit{Name: "tenants/x/limits/y", Rate: "1/s",
			Burst: math.Inf(1)})},
		{`client "c": rate`, limitOf(&quotav1.Limit{Name: "tenants/x/limits/y", Rate: "1/s",
			Overrides: []*quotav1.InlineOverride{{Client: "c"}}})},
		{"is there twice", limitOf(&quotav1.Limit{Name: "tenants/x/limits/y", Rate: "1/s",
			Overrides: []*quotav1.InlineOverride{{Client: "c", Rate: "1/s"}, {Client: "c", Rate: "1/s"}}})},
		{"max is 2, want at least guaranteed, which is 3",
			quota(&quotav1.Quota{Name: "tenants/x/quotas/ok", Guaranteed: 3, Max: proto.Float64(2)})},
		{"kind that this build does not know", &quotav1.Resource{}},
	} {
		_, left, err := whole([]*quotav1.Resource{pool(&quotav1.Pool{Name: "pools/ok", Capacity: 1}), c.r})
		if len(left) == 1 { // the rest is in force
			err = errors.New(left[0].Reason)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// What one tenant has wrong, or too much of, is left out and named; all else is in
// force.
func TestOnlyWhatIsWrongIsLeftOut(t *testing.T) {
	newer := &quotav1.Limit{Name: "tenants/newer/limits/l", Rate: "1/s"}
	newer.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 1}) // field 127
	resources := []*quotav1.Resource{
		pool(&quotav1.Pool{Name: "pools/ok", Capacity: 1}),
		limitOf(&quotav1.Limit{Name: "tenants/-/limits/each", Rate: "1/s"}),
		limitOf(&quotav1.Limit{Name: "tenants/good/limits/own", Rate: "5/s"}),
		limitOf(newer),
		quota(&quotav1.Quota{Name: "tenants/bad/quotas/ok", Guaranteed: 3, Max: proto.Float64(2)}),
		quota(&quotav1.Quota{Name: "tenants/huge/quotas/ok", Guaranteed: 1e13}),
	}
	for i := range config.MaxLimits {
		resources = append(resources, limitOf(&quotav1.Limit{Name: fmt.Sprintf("tenants/many/limits/l%02d", i),
			Rate: "1/s"}))
	}
	c, left, err := whole(resources)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range left {
		got = append(got, l.Tenant+" "+l.Limit)
		if l.Reason == "" {
			t.Errorf("%+v has no reason", l)
		}
	}
	slices.Sort(got)
	if want := []string{"bad quotas/ok", "huge quotas/ok", "many l63", "newer l"}; !slices.Equal(got, want) {
		t.Errorf("left out %q, want %q", got, want)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("a gateway does not take the rest: %v", err)
	}
	in := c.Inherited()
	for _, tenant := range in.Tenants {
		if want := map[string]int{"good": 2, "many": config.MaxLimits}[tenant.Name]; len(tenant.Limits) < max(1, want) {
			t.Errorf("%s has %d limits", tenant.Name, len(tenant.Limits))
		}
	}
}

// Defaults are sent once: 71 KiB of them with 100,000 tenants fit a frame, where copies of them for a thousand tenants
// did not.
func TestManyTenantsWithDefaultsFit(t *testing.T) {
	overrides := make([]*quotav1.InlineOverride, 1000)
	for i := range overrides {
		overrides[i] = &quotav1.InlineOverride{Client: fmt.Sprintf("client-with-a-rather-long-name-%d", i), Rate: "100/s",
			Burst: 7}
	}
	resources := []*quotav1.Resource{
		limitOf(&quotav1.Limit{Name: "tenants/-/limits/each", Rate: "1/s", Overrides: overrides})}
	for i := range 100_000 {
		resources = append(resources, tenant(&quotav1.Tenant{Name: fmt.Sprint("tenants/t", i), Weight: 1}))
	}
	c := compiled(t, resources...)
	var wire counter
	if err := link.NewWriter(&wire).Write(c); err != nil || len(c.Tenants) != 100_001 {
		t.Errorf("%d tenants: %v", len(c.Tenants), err)
	}
	if wire > 8<<20 {
		t.Errorf("%d bytes", wire)
	}
	c.Tenants = c.Tenants[:2000]
	size, err := link.ConfigSize(c.Inherited())
	if err != nil {
		t.Fatal(err)
	}
	if err := link.Fits(size, 0); err == nil || !strings.Contains(err.Error(), "gateways take at most") {
		t.Errorf("copies of the defaults fit: %v", err)
	}
}

// A configuration that no frame holds is refused by name, not sent.
func TestTooLargeIsAnError(t *testing.T) {
	overrides := make([]*quotav1.InlineOverride, 500_000)
	for i := range overrides {
		overrides[i] = &quotav1.InlineOverride{Client: fmt.Sprintf("%s-%d", strings.Repeat("x", 120), i), Rate: "1/s",
			Burst: 1}
	}
	if _, _, err := whole([]*quotav1.Resource{limitOf(&quotav1.Limit{Name: "tenants/a/limits/l", Rate: "1/s",
		Overrides: overrides})}); err == nil || !strings.Contains(err.Error(), "too many tenants") {
		t.Errorf("error %v", err)
	}
}

// counter counts bytes.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// A book kept by changes equals a book compiled from the whole, in any order, and so does a set that is kept by the
// book's changes. A refused change changes neither.
func TestBookChangesEqualSnapshot(t *testing.T) {
	names := []string{"tenants/a", "tenants/b", "tenants/a/limits/l", "tenants/b/limits/l", "tenants/-/limits/l",
		"tenants/-/limits/m", "tenants/a/quotas/p", "tenants/b/quotas/q", "pools/p", "pools/q", "tenants/-", "odd",
		"plans/g", "plans/h", "plans/g/limits/l", "plans/g/limits/p", "plans/g/quotas/p"}
	rapid.Check(t, func(t *rapid.T) {
		var changed Book
		var set config.Set
		state := map[string]*quotav1.Resource{}
		for i := range int64(rapid.IntRange(0, 12).Draw(t, "changes")) {
			before := maps.Clone(state)
			var resources []*quotav1.Resource
			var deleted []string
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID).Draw(t, "names") {
				if rapid.Bool().Draw(t, "delete") {
					deleted = append(deleted, name)
					delete(state, name)
					continue
				}
				state[name] = draw(t, name)
				resources = append(resources, state[name])
			}
			d, err := changed.Change(resources, deleted)
			if err != nil {
				state = before
				d = &config.Delta{}
			}
			d.Base, d.Revision = i, i+1
			if err := set.Change(d); err != nil {
				t.Fatal(err)
			}
		}
		want, left, err := whole(slices.Collect(maps.Values(state)))
		if err != nil {
			t.Fatal(err)
		}
		want.Revision, want.Seed = 0, 0
		if a := changed.Config(); !reflect.DeepEqual(a, want) && len(state) > 0 || changed.Len() != len(state) {
			t.Fatalf("%+v, want %+v", a, want)
		}
		var digest resource.Digest
		for _, r := range state {
			digest = digest.Replace(nil, r)
		}
		if changed.Digest() != digest {
			t.Fatalf("digest %x, want %x", changed.Digest(), digest)
		}
		if !reflect.DeepEqual(changed.LeftOut(), left) {
			t.Fatalf("left out %+v, want %+v", changed.LeftOut(), left)
		}
		in := set.Config()
		if in.Revision = 0; !reflect.DeepEqual(in, changed.Config()) && !changed.empty() {
			t.Fatalf("by the changes %+v, want %+v", in, changed.Config())
		}
		if !slices.IsSortedFunc(in.Tenants, func(x, y config.Tenant) int { return strings.Compare(x.Name, y.Name) }) {
			t.Fatalf("not sorted: %+v", in.Tenants)
		}
		if size := changed.head + changed.size; !changed.empty() {
			if all, err := link.ConfigSize(in); err != nil || size < all-64 || size > all+64 {
				t.Fatalf("%d bytes, but %d on the link, %v", size, all, err)
			}
		}
	})
}

// draw draws a resource of the name, one time in four an invalid one.
func draw(t *rapid.T, name string) *quotav1.Resource {
	bad := rapid.IntRange(0, 3).Draw(t, "bad") == 0
	weight := float64(rapid.IntRange(1, 3).Draw(t, "number"))
	if bad {
		weight = -weight
	}
	switch {
	case strings.HasPrefix(name, "pools/"):
		return pool(&quotav1.Pool{Name: name, Capacity: weight})
	case strings.Contains(name, "/quotas/"):
		return quota(&quotav1.Quota{Name: name, Guaranteed: weight})
	case strings.Contains(name, "/limits/"):
		return limitOf(&quotav1.Limit{Name: name, Rate: fmt.Sprintf("%v/s", weight)})
	case strings.HasPrefix(name, "plans/"):
		return resource.Of(&quotav1.Plan{Name: name, Weight: weight})
	}
	return tenant(&quotav1.Tenant{Name: name, Weight: weight,
		Plan: rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "plan")})
}

// A change of a plan is as large as the plans, however many tenants are on it.
func BenchmarkPlanChange(b *testing.B) {
	for _, tenants := range []int{1e3, 1e5} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			resources := []*quotav1.Resource{pool(&quotav1.Pool{Name: "pools/api", Capacity: 1e6}),
				resource.Of(&quotav1.Plan{Name: "plans/gold", Weight: 2}),
				limitOf(&quotav1.Limit{Name: "plans/gold/limits/each", Rate: "10/s", Burst: 5}),
				quota(&quotav1.Quota{Name: "plans/gold/quotas/api", Max: proto.Float64(100)})}
			for i := range tenants {
				resources = append(resources, tenant(&quotav1.Tenant{Name: fmt.Sprintf("tenants/t%06d", i), Plan: "gold"}))
			}
			var book Book
			if _, err := book.Change(resources, nil); err != nil {
				b.Fatal(err)
			}
			var wire counter
			for i := 0; b.Loop(); i++ {
				l := limitOf(&quotav1.Limit{Name: "plans/gold/limits/each", Rate: fmt.Sprintf("%d/s", i+1), Burst: 5})
				d, err := book.Change([]*quotav1.Resource{l}, nil)
				if err != nil || len(d.Tenants) != 0 || d.Shared != nil || len(d.Plans) != 1 {
					b.Fatal(d, err)
				}
				wire = 0
				if err := link.NewWriter(&wire).Write(d); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(wire), "B/gateway")
			b.ReportMetric(float64(book.size+book.head), "B/whole")
		})
	}
}

// One change of 10⁵ tenants, and all of them.
func BenchmarkChange(b *testing.B) {
	for _, tenants := range []int{1e3, 1e4, 1e5} {
		resources := []*quotav1.Resource{pool(&quotav1.Pool{Name: "pools/api", Capacity: 1e6})}
		for i := range tenants {
			name := fmt.Sprintf("tenants/t%06d", i)
			resources = append(resources, tenant(&quotav1.Tenant{Name: name, Weight: 1}),
				limitOf(&quotav1.Limit{Name: name + "/limits/each", Rate: "10/s", Burst: 5}),
				quota(&quotav1.Quota{Name: name + "/quotas/api", Guaranteed: 1}))
		}
		b.Run(fmt.Sprintf("whole/tenants=%d", tenants), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := new(Book).Change(resources, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("one/tenants=%d", tenants), func(b *testing.B) {
			var book Book
			if _, err := book.Change(resources, nil); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l := limitOf(&quotav1.Limit{Name: "tenants/t000007/limits/each", Rate: fmt.Sprintf("%d/s", i+1), Burst: 5})
				if d, err := book.Change([]*quotav1.Resource{l}, nil); err != nil || len(d.Tenants) != 1 {
					b.Fatal(d, err)
				}
			}
		})
	}
}
