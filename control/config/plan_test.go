package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// planned is a configuration of which each tenant has limits from three places.
func planned() *config.Config {
	return &config.Config{Revision: 1, Pools: []config.Pool{{Name: "api", Capacity: 10}},
		Defaults: []config.Limit{{Name: "each", Rate: 1}, {Name: "ip", Rate: 2}},
		Plans: []config.Tenant{{Name: "gold", Weight: 4, Limits: []config.Limit{{Name: "each", Rate: 10}, {Name: "writes", Rate: 11}},
			Quotas: []config.Quota{{Pool: "api", Max: 9}}}},
		Tenants: []config.Tenant{{Name: "a", Plan: "gold"},
			{Name: "b", Plan: "gold", Weight: 2, Limits: []config.Limit{{Name: "each", Rate: 20, Until: 5}},
				Quotas: []config.Quota{{Pool: "api", Max: 3}}},
			{Name: "c", Weight: 1}}}
}

// The tenant's own come before those of its plan, and these before the defaults.
func TestPlans(t *testing.T) {
	c := planned()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	rates := func(t *config.Tenant) (out []float64) {
		for _, l := range t.Limits {
			out = append(out, l.Rate)
		}
		return out
	}
	in := c.Inherited()
	for i, want := range [][]float64{{10, 2, 11}, {20, 2, 11}, {1, 2}} {
		if got := rates(&in.Tenants[i]); !reflect.DeepEqual(got, want) {
			t.Errorf("%s has %v, want %v", in.Tenants[i].Name, got, want)
		}
	}
	if a, b := in.Tenants[0], in.Tenants[1]; a.Weight != 4 || b.Weight != 2 || a.Quotas[0].Max != 9 || b.Quotas[0].Max != 3 ||
		len(b.Quotas) != 1 || in.Plans != nil || a.Plan != "" {
		t.Errorf("%+v, %+v", a, b)
	}
	var s config.Set
	s.Replace(c)
	for _, one := range []struct {
		tenant, limit string
		at            config.Instant
		want          float64
	}{{"a", "each", 0, 10}, {"b", "each", 0, 20}, {"b", "each", 5, 10}, {"b", "writes", 0, 11}, {"c", "each", 0, 1},
		{"c", "writes", 0, 0}, {"d", "each", 0, 0}} {
		got := s.Limit(one.tenant, one.limit, one.at)
		if one.want == 0 && got != nil || one.want > 0 && (got == nil || got.Rate != one.want) {
			t.Errorf("%s of %s at %d: %+v, want rate %v", one.limit, one.tenant, one.at, got, one.want)
		}
	}
}

// What lapses in a plan lapses for its tenants.
func TestPlanLapses(t *testing.T) {
	c := planned()
	c.Plans[0].Limits[1].Until, c.Plans[0].Quotas[0].Until = 3, 4
	var l config.Lapses
	var s config.Set
	s.Replace(c)
	l.Replace(c, 0)
	if next := l.Next(); next != 3 {
		t.Errorf("next %d", next)
	}
	if lapsed := l.Take(&s, 3); !lapsed.Shared || lapsed.Tenants != nil || l.Next() != 4 {
		t.Errorf("%+v, then %d", lapsed, l.Next())
	}
	if at := c.At(4); len(at.Plans[0].Limits) != 1 || len(at.Plans[0].Quotas) != 0 || len(c.Plans[0].Limits) != 2 {
		t.Errorf("%+v", at.Plans)
	}
}

// What is not valid of a plan is left out, and its tenants stay; a plan counts in the limits of its tenants.
func TestPlansLeaveOut(t *testing.T) {
	c := planned()
	many := make([]config.Limit, config.MaxLimits-3)
	for i := range many {
		many[i] = config.Limit{Name: strings.Repeat("x", i+1), Rate: 1}
	}
	c.Plans[0].Limits = append(c.Plans[0].Limits, config.Limit{Name: "each", Rate: -1})
	c.Plans = append(c.Plans, config.Tenant{Name: "nested", Plan: "gold"})
	c.Tenants = append(c.Tenants, config.Tenant{Name: "d", Plan: "gold", Limits: append(many, config.Limit{Name: "over", Rate: 1})},
		config.Tenant{Name: "e", Plan: "none"})
	d := config.Delta{Tenants: c.Tenants}
	var got []string
	for _, l := range c.LeaveOut() {
		got = append(got, l.Tenant+" "+l.Limit)
	}
	if want := []string{"plans/gold each", "plans/nested ", "d over", "e "}; !reflect.DeepEqual(got, want) {
		t.Errorf("left out %q, want %q", got, want)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	d.LeaveOut(config.Shared{Pools: c.Pools, Defaults: c.Defaults, Plans: c.Plans})
	if !reflect.DeepEqual(d.Tenants, c.Tenants) {
		t.Error("of a delta something else is left out than of the whole")
	}
}
