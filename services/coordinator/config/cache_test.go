package config_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

func tenant(i int, weight float64) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: fmt.Sprintf("tenants/t%d", i),
		Weight: weight}}}
}

// Whatever a holder missed, Since brings it to the present.
func TestSinceBringsAnyHolderUpToDate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config.New()
		if _, ok := c.Since(-1); ok {
			t.Fatal("an empty cache returns a change")
		}
		held := map[string]*quotav1.Resource{}
		have, revision := int64(-1), int64(0)
		for i := range rapid.IntRange(1, 300).Draw(t, "batches") {
			revision += int64(rapid.IntRange(1, 3).Draw(t, "step"))
			b := store.Batch{Revision: revision, Reset: i == 0 || rapid.IntRange(0, 99).Draw(t, "reset") == 0}
			for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 0, 4, rapid.ID).Draw(t, "touch") {
				if r := tenant(k, float64(revision)); rapid.Bool().Draw(t, "delete") && !b.Reset {
					b.Deleted = append(b.Deleted, resource.Name(r))
				} else {
					b.Resources = append(b.Resources, r)
				}
			}
			c.Apply(b)
			if rapid.IntRange(0, 20).Draw(t, "catch up") == 0 {
				have = catchUp(c, have, held)
			}
		}
		catchUp(c, have, held)
		all, _ := c.Since(-1)
		if len(all.Resources) != len(held) || !all.Full {
			t.Fatalf("holder has %v, cache %v", slices.Sorted(maps.Keys(held)), all)
		}
		for _, r := range all.Resources {
			if !proto.Equal(held[resource.Name(r)], r) {
				t.Fatalf("%s: holder has %v, cache %v", resource.Name(r), held[resource.Name(r)], r)
			}
		}
	})
}

func catchUp(c *config.Cache, have int64, held map[string]*quotav1.Resource) int64 {
	change, ok := c.Since(have)
	if !ok {
		return have
	}
	if change.Full {
		clear(held)
	}
	for _, r := range change.Resources {
		held[resource.Name(r)] = r
	}
	for _, name := range change.Deleted {
		delete(held, name)
	}
	return change.Revision
}

// Whatever a holder had, Resume brings it to the present. It sends a change if that was one of
// the last configurations, whatever revision it was called by. It sends the whole if it never was
// one.
func TestResumeBringsAnyHolderUpToDate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, state := config.New(), map[string]*quotav1.Resource{}
		if _, ok := c.Resume(0); ok {
			t.Fatal("an empty cache returns a change")
		}
		var known []map[string]*quotav1.Resource // since the last reset, newest last
		for revision := range int64(rapid.IntRange(1, 200).Draw(t, "batches")) {
			b := store.Batch{Revision: revision + 1, Reset: revision == 0 || rapid.IntRange(0, 99).Draw(t, "reset") == 0}
			for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 3, rapid.ID).Draw(t, "touch") {
				if r := tenant(k, float64(revision+1)); rapid.Bool().Draw(t, "delete") && !b.Reset {
					b.Deleted = append(b.Deleted, resource.Name(r))
				} else {
					b.Resources = append(b.Resources, r)
				}
			}
			if b.Reset {
				clear(state)
				known = nil
			}
			take(state, b.Resources, b.Deleted)
			c.Apply(b)
			known = append(known, maps.Clone(state))
		}
		last := known[max(len(known)-100, 0):]
		held := maps.Clone(rapid.SampledFrom(last).Draw(t, "holder"))
		foreign := rapid.IntRange(0, 3).Draw(t, "foreign") == 0
		if foreign {
			take(held, []*quotav1.Resource{tenant(99, 1)}, nil)
		}
		change, ok := c.Resume(digestOf(held))
		if whole := foreign || len(held) == 0; !ok || change.Full != whole {
			t.Fatalf("of %v: %+v, %v; want a whole %v", held, change, ok, whole)
		}
		if change.Full {
			clear(held)
		}
		if take(held, change.Resources, change.Deleted); digestOf(held) != digestOf(state) {
			t.Fatalf("holder has %v, cache %v", held, state)
		}
	})
}

// Receivers of one revision share what they lack, and a bounded number of changes is kept.
func TestChangesAreMadeOnce(t *testing.T) {
	c := config.New()
	c.Apply(store.Batch{Revision: 1, Reset: true, Resources: []*quotav1.Resource{tenant(0, 1)}})
	for i := range 20 {
		c.Apply(store.Batch{Revision: int64(i) + 2, Resources: []*quotav1.Resource{tenant(i, 2)}})
	}
	whole, _ := c.Since(-1)
	for revision := range int64(20) {
		one, _ := c.Since(revision + 1)
		if two, _ := c.Since(revision + 1); one != two || len(one.Resources) != 20-int(revision) {
			t.Errorf("since %d: %v and %v", revision+1, one.Resources, two.Resources)
		}
		parts, err := one.Parts()
		m := &controlv1.ConnectResponse{}
		if err != nil || len(parts) != 1 || proto.Unmarshal(parts[0], m) != nil ||
			len(m.GetConfiguration().GetResources()) != len(one.Resources) || !m.GetConfiguration().GetLast() {
			t.Errorf("since %d: %v, %v", revision+1, m, err)
		}
	}
	if again, _ := c.Since(-1); again != whole {
		t.Error("the whole is made again")
	}
	c.Apply(store.Batch{Revision: 22, Deleted: []string{"tenants/t0"}})
	if now, _ := c.Since(-1); now.Revision != 22 || len(now.Resources) != 19 {
		t.Errorf("%v", now.Resources)
	}
}

// take changes a set of resources.
func take(set map[string]*quotav1.Resource, resources []*quotav1.Resource, deleted []string) {
	for _, r := range resources {
		set[resource.Name(r)] = r
	}
	for _, name := range deleted {
		delete(set, name)
	}
}

func digestOf(set map[string]*quotav1.Resource) (d resource.Digest) {
	for _, r := range set {
		d = d.Replace(nil, r)
	}
	return d
}

func TestConfigIsWhatWasConfigured(t *testing.T) {
	c := config.New()
	if _, known, _ := c.Allocation(); known {
		t.Error("known before anything was applied")
	}
	top, none := 50.0, 0.0
	c.Apply(store.Batch{Revision: 9, Reset: true, Resources: []*quotav1.Resource{
		{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/b", Capacity: 10,
			Guarantee: quotav1.Guarantee_ADDITIVE}}},
		{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/a", Capacity: 20,
			Sharing: quotav1.Sharing_PROPORTIONAL, Alpha: 2}}},
		tenant(1, 0), tenant(2, 3),
		{Kind: &quotav1.Resource_Quota{Quota: &quotav1.Quota{Name: "tenants/t1/quotas/a", Guaranteed: 5, Max: &top,
			Mode: quotav1.Mode_OFF}}},
		{Kind: &quotav1.Resource_Quota{Quota: &quotav1.Quota{Name: "tenants/t2/quotas/a", Weight: &none}}},
		{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: "tenants/t2/limits/l", Rate: "1/s"}}},
	}})
	config, known, _ := c.Allocation()
	if !known || config.Revision != 9 || len(config.Pools) != 2 || config.Pools[0].Name != "a" {
		t.Fatalf("%+v", config)
	}
	if a := config.Pools[0]; a.Sharing != allocation.Proportional || a.Alpha != 2 || a.Capacity != 20 {
		t.Errorf("%+v", a)
	}
	if w := config.Tenants; w["t1"] != 1 || w["t2"] != 3 {
		t.Errorf("%v", w)
	}
	one := config.Quotas[allocation.Flow{Tenant: "t1", Pool: "a"}]
	two := config.Quotas[allocation.Flow{Tenant: "t2", Pool: "a"}]
	if one.Guaranteed != 5 || one.Max != 50 || !one.Off || !math.IsNaN(one.Weight) {
		t.Errorf("%+v", one)
	}
	if two.Weight != 0 || !math.IsInf(two.Max, 1) || two.Off {
		t.Errorf("%+v", two)
	}
}

// The allocator's configuration, kept by changes, equals the compiled whole; configurations that were given out before
// stay as they were.
func TestAllocationIsThatOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"pools/a", "pools/b", "tenants/t", "tenants/u", "tenants/t/quotas/a", "tenants/u/quotas/b",
			"tenants/t/limits/l", "plans/g", "plans/h", "plans/g/quotas/a", "plans/g/quotas/b", "plans/h/quotas/a"}
		c, state := config.New(), map[string]*quotav1.Resource{}
		for revision := range int64(rapid.IntRange(1, 10).Draw(t, "batches")) {
			b := store.Batch{Revision: revision + 1, Reset: revision == 0}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "names") {
				if rapid.Bool().Draw(t, "delete") && !b.Reset {
					b.Deleted = append(b.Deleted, name)
					delete(state, name)
					continue
				}
				state[name] = drawn(t, name)
				b.Resources = append(b.Resources, state[name])
			}
			before, _, _ := c.Allocation()
			was := fmt.Sprintf("%+v", *before)
			c.Apply(b)
			if is := fmt.Sprintf("%+v", *before); is != was {
				t.Fatalf("what was given out has become %s, was %s", is, was)
			}
		}
		fresh := config.New()
		now, _, _ := c.Allocation()
		fresh.Apply(store.Batch{Revision: now.Revision, Reset: true, Resources: slices.Collect(maps.Values(state))})
		want, _, _ := fresh.Allocation()
		if fmt.Sprintf("%+v", *now) != fmt.Sprintf("%+v", *want) {
			t.Fatalf("%+v, want %+v", *now, *want)
		}
	})
}

func drawn(t *rapid.T, name string) *quotav1.Resource {
	number := float64(rapid.IntRange(1, 5).Draw(t, "number"))
	ref, err := resource.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	m := ref.Kind.New()
	resource.SetName(m, name)
	switch m := m.(type) {
	case *quotav1.Pool:
		m.Capacity = number
	case *quotav1.Plan:
		m.Weight = number
	case *quotav1.Tenant:
		m.Weight, m.Plan = max(0, number-3), rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "plan")
	case *quotav1.Quota:
		m.Guaranteed = number
	}
	return resource.Of(m)
}

// Tenants of a plan have its weight and quotas, except where they have their own.
func TestPlans(t *testing.T) {
	c := config.New()
	c.Apply(store.Batch{Revision: 1, Reset: true, Resources: []*quotav1.Resource{
		resource.Of(&quotav1.Plan{Name: "plans/gold", Weight: 4}),
		resource.Of(&quotav1.Quota{Name: "plans/gold/quotas/a", Guaranteed: 7}),
		resource.Of(&quotav1.Tenant{Name: "tenants/t", Plan: "gold"}),
		resource.Of(&quotav1.Tenant{Name: "tenants/u", Plan: "gold", Weight: 2}),
		resource.Of(&quotav1.Quota{Name: "tenants/u/quotas/a", Guaranteed: 1}),
	}})
	check := func(tenant string, weight, guaranteed float64) {
		t.Helper()
		now, _, _ := c.Allocation()
		if q := now.Quota(allocation.Flow{Tenant: tenant, Pool: "a"}); q.Weight != weight || q.Guaranteed != guaranteed {
			t.Errorf("%s: %+v, want weight %v, guaranteed %v", tenant, q, weight, guaranteed)
		}
	}
	check("t", 4, 7)
	check("u", 2, 1)
	now, next := c.Rehearse([]*quotav1.Resource{resource.Of(&quotav1.Plan{Name: "plans/gold", Weight: 9})},
		[]string{"tenants/u/quotas/a"}, time.Now())
	if now.Tenants["t"] != 4 || next.Tenants["t"] != 9 || next.Quotas[allocation.Flow{Tenant: "u", Pool: "a"}].Guaranteed != 7 {
		t.Errorf("rehearsed %+v", next)
	}
	c.Apply(store.Batch{Revision: 2, Deleted: []string{"tenants/u/quotas/a"}, Resources: []*quotav1.Resource{
		resource.Of(&quotav1.Plan{Name: "plans/gold", Weight: 5}),
		resource.Of(&quotav1.Quota{Name: "plans/gold/quotas/a", Guaranteed: 8})}})
	check("t", 5, 8)
	check("u", 2, 8)
	c.Apply(store.Batch{Revision: 3, Resources: []*quotav1.Resource{resource.Of(&quotav1.Tenant{Name: "tenants/t", Weight: 1})}})
	check("t", 1, 0)
}

// A batch of one change, of a limit and of a quota, among so many tenants.
func BenchmarkApply(b *testing.B) {
	for _, tenants := range []int{1e3, 1e4, 1e5} {
		all := store.Batch{Revision: 1, Reset: true}
		for i := range tenants {
			name := fmt.Sprintf("tenants/t%d", i)
			all.Resources = append(all.Resources, tenant(i, 1),
				&quotav1.Resource{Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: name + "/limits/l", Rate: "1/s"}}},
				&quotav1.Resource{Kind: &quotav1.Resource_Quota{Quota: &quotav1.Quota{Name: name + "/quotas/a"}}})
		}
		c := config.New()
		c.Apply(all)
		b.Run(fmt.Sprintf("plan/tenants=%d", tenants), func(b *testing.B) {
			on := store.Batch{Revision: 1, Reset: true, Resources: []*quotav1.Resource{
				resource.Of(&quotav1.Quota{Name: "plans/gold/quotas/a", Guaranteed: 1}),
				resource.Of(&quotav1.Plan{Name: "plans/gold"})}}
			for i := range tenants {
				on.Resources = append(on.Resources,
					resource.Of(&quotav1.Tenant{Name: fmt.Sprintf("tenants/t%d", i), Plan: "gold"}))
			}
			planned := config.New()
			planned.Apply(on)
			for revision := int64(2); b.Loop(); revision++ {
				planned.Apply(store.Batch{Revision: revision, Resources: on.Resources[:1]})
			}
		})
		for i, what := range []string{"tenant", "limit", "quota"} {
			b.Run(fmt.Sprintf("%s/tenants=%d", what, tenants), func(b *testing.B) {
				for revision := int64(2); b.Loop(); revision++ {
					c.Apply(store.Batch{Revision: revision, Resources: all.Resources[i : i+1]})
				}
			})
		}
	}
}

// What cannot be read stays as it was known; a holder is to keep what it has
// where nothing is known.
func TestUnreadable(t *testing.T) {
	c := config.New()
	c.Apply(store.Batch{Revision: 1, Reset: true, Resources: []*quotav1.Resource{tenant(1, 1)},
		Unreadable: []string{"tenants/t2"}})
	all, _ := c.Since(-1)
	if len(all.Resources) != 1 || !slices.Equal(all.Unreadable, []string{"tenants/t2"}) {
		t.Errorf("%+v", all)
	}
	c.Apply(store.Batch{Revision: 2, Unreadable: []string{"tenants/t1"}})
	c.Apply(store.Batch{Revision: 3, Reset: true, Unreadable: []string{"tenants/t1", "tenants/t2"}})
	all, _ = c.Since(-1)
	if len(all.Resources) != 1 || !slices.Equal(all.Unreadable, []string{"tenants/t2"}) ||
		len(c.Trouble().Unreadable) != 2 {
		t.Errorf("%+v", all)
	}
	c.Apply(store.Batch{Revision: 4, Resources: []*quotav1.Resource{tenant(2, 1)}, Deleted: []string{"tenants/t1"}})
	if all, _ = c.Since(-1); len(all.Resources) != 1 || len(c.Trouble().Unreadable) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestHeldChangesNothing(t *testing.T) {
	c := config.New()
	c.Apply(store.Batch{Revision: 1, Reset: true, Resources: []*quotav1.Resource{tenant(1, 1)}})
	c.Apply(store.Batch{Revision: 1, Held: "gone", Lost: "restored"})
	if _, news := c.Since(1); news || c.Trouble().Held != "gone" || c.Trouble().Lost != 1 {
		t.Errorf("%+v", c.Trouble())
	}
	c.Apply(store.Batch{Revision: 2, Reset: true})
	if change, _ := c.Since(1); !change.Full || len(change.Resources) != 0 || c.Trouble().Held != "" {
		t.Errorf("%+v", change)
	}
}

// A quota that has lapsed is none for the allocator, and stays as it is stored for agents. A quota that is
// applied after its time never counts.
func TestQuotasLapse(t *testing.T) {
	now := time.Now()
	quota := func(pool string, until time.Duration) *quotav1.Resource {
		q := &quotav1.Quota{Name: "tenants/a/quotas/" + pool, Guaranteed: 5}
		if until != 0 {
			q.Until = timestamppb.New(now.Add(until))
		}
		return &quotav1.Resource{Kind: &quotav1.Resource_Quota{Quota: q}}
	}
	c := config.New()
	c.Apply(store.Batch{Revision: 1, Reset: true, Resources: []*quotav1.Resource{quota("x", time.Hour), quota("y", 0),
		quota("z", -time.Second), quota("w", 2*time.Hour)}})
	quotas := func() (names []string) {
		in, _, _ := c.Allocation()
		for f := range in.Quotas {
			names = append(names, f.Pool)
		}
		slices.Sort(names)
		return names
	}
	for _, step := range []struct {
		after time.Duration
		want  []string
	}{{0, []string{"w", "x", "y"}}, {time.Hour, []string{"w", "y"}}, {3 * time.Hour, []string{"y"}}} {
		c.Lapse(now.Add(step.after))
		if got := quotas(); !slices.Equal(got, step.want) {
			t.Errorf("after %v the quotas of %q count, want %q", step.after, got, step.want)
		}
	}
	if all, _ := c.Since(-1); len(all.Resources) != 4 {
		t.Errorf("%d resources are left for agents", len(all.Resources))
	}
	in, _, _ := c.Allocation()
	if c.Lapse(now.Add(4 * time.Hour)); in != func() *allocation.Config { in, _, _ := c.Allocation(); return in }() {
		t.Error("without a lapse the allocator gets another configuration")
	}
	c.Apply(store.Batch{Revision: 2, Resources: []*quotav1.Resource{quota("x", 5*time.Hour)}, Deleted: []string{"tenants/a/quotas/y"}})
	if got := quotas(); !slices.Equal(got, []string{"x"}) || in.Revision != 1 {
		t.Errorf("after a change the quotas of %q count", got)
	}
}
