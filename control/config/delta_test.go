package config_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
)

// Changes one after the other, taken together two by two, or made of a whole configuration,
// lead to the same.
func TestDeltasAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, two config.Set
		whole := &config.Config{}
		var before *config.Delta
		for revision := range int64(rapid.IntRange(1, 8).Draw(t, "changes")) {
			d := &config.Delta{Base: revision, Revision: revision + 1}
			if rapid.Bool().Draw(t, "shared") {
				d.Shared = &config.Shared{Pools: []config.Pool{{Name: "p", Capacity: float64(revision + 1)}},
					Plans: []config.Tenant{{Name: "g"}, {Name: "h"}}}
			} else if len(whole.Plans) > 0 {
				for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"g", "h"}), 0, 2, rapid.ID).Draw(t, "plans") {
					d.Plans = append(d.Plans, config.Tenant{Name: name, Weight: float64(revision + 1)})
				}
			}
			names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
			for _, name := range rapid.SliceOfNDistinct(names, 0, 3, rapid.ID).Draw(t, "names") {
				if rapid.Bool().Draw(t, "removed") {
					d.Removed = append(d.Removed, name)
				} else {
					d.Tenants = append(d.Tenants, config.Tenant{Name: name, Weight: float64(revision + 1)})
				}
			}
			next, err := whole.With(d)
			if err := errors.Join(err, one.Change(d)); err != nil {
				t.Fatal(err)
			}
			whole = next
			if before != nil {
				d, before = before.Then(d), nil
			} else if rapid.Bool().Draw(t, "together") {
				before = d
				continue
			}
			if err := two.Change(d); err != nil {
				t.Fatal(err)
			}
		}
		if before != nil {
			if err := two.Change(before); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(one.Config(), whole) || !reflect.DeepEqual(two.Config(), whole) {
			t.Fatalf("%+v, together %+v, whole %+v", one.Config(), two.Config(), whole)
		}
		if one.Tenants() != len(whole.Tenants) || one.Revision() != whole.Revision {
			t.Fatalf("%d tenants, revision %d", one.Tenants(), one.Revision())
		}
	})
}

func TestDeltaOfAnotherRevision(t *testing.T) {
	var s config.Set
	s.Replace(&config.Config{Revision: 4, Tenants: []config.Tenant{{Name: "a"}}})
	var base *config.BaseError
	if err := s.Change(&config.Delta{Base: 3, Revision: 5, Removed: []string{"a"}}); !errors.As(err, &base) ||
		base.Base != 3 || base.InForce != 4 {
		t.Errorf("error %v", err)
	}
	if c := s.Config(); c.Revision != 4 || len(c.Tenants) != 1 {
		t.Errorf("a change of another revision has changed it: %+v", c)
	}
}

// What is not valid is left out of a change as it is of a whole configuration.
func TestDeltaLeaveOut(t *testing.T) {
	many := make([]config.Limit, config.MaxLimits)
	for i := range many {
		many[i] = config.Limit{Name: string(rune('0' + i)), Rate: 1}
	}
	c := config.Config{Pools: []config.Pool{{Name: "api", Capacity: 1}}, Defaults: []config.Limit{{Name: "each", Rate: 1}},
		Tenants: []config.Tenant{
			{Name: "good", Weight: 1, Limits: []config.Limit{{Name: "l", Rate: 1}}},
			{Name: "heavy", Weight: -1},
			{Name: "minus", Limits: []config.Limit{{Name: "l", Rate: -1}, {Name: "m", Rate: 1}}},
			{Name: "many", Limits: many},
			{Name: "poolless", Quotas: []config.Quota{{Pool: "none", Max: 1}, {Pool: "api", Max: 1}}},
		}}
	d := config.Delta{Tenants: slices.Clone(c.Tenants), Removed: []string{"gone"}}
	left := d.LeaveOut(config.Shared{Pools: c.Pools, Defaults: c.Defaults})
	want := c.LeaveOut()
	if !reflect.DeepEqual(left, want) || len(want) != 4 {
		t.Errorf("left out %+v, of the whole %+v", left, want)
	}
	if !reflect.DeepEqual(d.Tenants, c.Tenants) {
		t.Errorf("the rest is %+v, of the whole %+v", d.Tenants, c.Tenants)
	}
	if !slices.Equal(d.Removed, []string{"gone", "heavy"}) {
		t.Errorf("removed %q: a tenant that is not valid is none", d.Removed)
	}
}
