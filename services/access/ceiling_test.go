package access

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Each number and mode that a ceiling bounds, at it and above it.
func TestCeilingOfEachField(t *testing.T) {
	two := proto.Float64(2)
	limit := func(rate string, burst float64) *quotav1.Limit { return &quotav1.Limit{Rate: rate, Burst: burst} }
	overridden := limit("1/s", 1)
	overridden.Overrides = []*quotav1.InlineOverride{{Client: "big", Rate: "3/s"}}
	planned := limit("1/s", 1)
	planned.Plans = []*quotav1.LimitPlan{{Plan: "gold", Rate: "3/s"}}
	requested := limit("1/s", 2)
	requested.Name = "tenants/a/limits/l"
	requested.RequestedRate = &quotav1.RequestedRate{Least: "1/s", Most: "3/s"}
	reset := &quotav1.Tenant{Weight: 1, Resets: []*quotav1.Reset{{Limit: "l", Client: "c"}}}
	shadow := limit("1/s", 1)
	shadow.Mode = quotav1.Mode_SHADOW
	for _, c := range []struct {
		ceiling Ceiling
		m       resource.Message
		over    string
	}{
		{Ceiling{Rate: "2/s"}, limit("120/min", 1000), ""},
		{Ceiling{Rate: "2/s"}, limit("121/min", 1), "rate 121/min is above 2/s"},
		{Ceiling{Rate: "2/s"}, limit("0", 1), ""},
		{Ceiling{Rate: "2/s"}, overridden, "override of big: rate 3/s"},
		{Ceiling{Rate: "2/s"}, planned, "plan gold: rate 3/s"},
		{Ceiling{Rate: "2/s"}, requested, "requested_rate: rate 3/s"},
		{Ceiling{Burst: new(5.)}, requested, "requested_rate: burst 6"}, {Ceiling{Burst: new(6.)}, requested, ""},
		{Ceiling{Rate: "2/s"}, reset, "a reset allows more than a rate"},
		{Ceiling{Weight: two}, reset, ""},
		{Ceiling{Rate: "2/s"}, shadow, "mode SHADOW"},
		{Ceiling{Burst: two}, shadow, "mode SHADOW"},
		{Ceiling{Weight: two}, shadow, ""},
		{Ceiling{Burst: two}, limit("9/s", 2), ""},
		{Ceiling{Burst: two}, limit("9/s", 3), "burst 3 is above 2"},
		{Ceiling{Weight: two}, &quotav1.Tenant{Weight: 2}, ""},
		{Ceiling{Weight: two}, &quotav1.Tenant{Weight: 3}, "weight 3 is above 2"},
		{Ceiling{Rate: "2/s"}, &quotav1.Tenant{Plan: "gold"}, "a plan has numbers of its own"},
		{Ceiling{Weight: two}, &quotav1.Quota{Weight: proto.Float64(3)}, "weight 3 is above 2"},
		{Ceiling{Weight: two}, &quotav1.Quota{Guaranteed: 9}, ""},
		{Ceiling{Guaranteed: two}, &quotav1.Quota{Guaranteed: 3}, "guaranteed 3 is above 2"},
		{Ceiling{Max: two}, &quotav1.Quota{Max: two}, ""},
		{Ceiling{Max: two}, &quotav1.Quota{Max: proto.Float64(3)}, "max 3 is above 2"},
		{Ceiling{Max: two}, &quotav1.Quota{}, "unbounded"},
		{Ceiling{Max: two}, &quotav1.Quota{Max: two, Mode: quotav1.Mode_OFF}, "mode OFF"},
		{Ceiling{Max: two}, &quotav1.Quota{Max: two, Until: timestamppb.Now()}, "after its until"},
	} {
		if over := c.ceiling.over(c.m, nil); !strings.Contains(over, c.over) || (over == "") != (c.over == "") {
			t.Errorf("%s for %v: %q, want %q", &c.ceiling, c.m, over, c.over)
		}
	}
}

// A tenant stays on its plan: off it, no number of the plan would hold. Everything else of it may change.
func TestCeilingKeepsThePlan(t *testing.T) {
	c := &Ceiling{Rate: "2/s", Weight: proto.Float64(2)}
	gold := &quotav1.Tenant{Name: "tenants/acme", Plan: "gold"}
	for _, x := range []struct {
		m, old *quotav1.Tenant
		want   string
	}{
		{&quotav1.Tenant{}, gold, "without plan gold"},
		{&quotav1.Tenant{Plan: "silver"}, gold, "a plan has numbers"},
		{&quotav1.Tenant{Plan: "gold", DisplayName: "Acme"}, gold, ""},
		{&quotav1.Tenant{Plan: "gold", Weight: 2}, gold, ""},
		{&quotav1.Tenant{Plan: "gold", Weight: 3}, gold, "weight 3 is above 2"},
		{&quotav1.Tenant{Plan: "gold"}, &quotav1.Tenant{}, "a plan has numbers"},
	} {
		if over := c.over(x.m, x.old); !strings.Contains(over, x.want) || (over == "") != (x.want == "") {
			t.Errorf("%v in place of %v: %q, want %q", x.m, x.old, over, x.want)
		}
	}
	if c := (&Ceiling{Rate: "2/s"}); !strings.Contains(c.deletes(gold.Name, gold), "no plan gold") ||
		c.deletes(gold.Name, nil) != "" {
		t.Error("a tenant on a plan may be deleted, and created without it")
	}
}

// A mode that enforces nothing is refused wherever the ceiling bounds what the resource would enforce: each field
// of a ceiling, each mode, each kind of resource.
func TestCeilingOfEachMode(t *testing.T) {
	one := proto.Float64(1)
	bounds := map[string][]Ceiling{
		"limit": {{Rate: "1/s"}, {Burst: one}}, "quota": {{Weight: one}, {Guaranteed: one}, {Max: one}},
	}
	var all []Ceiling
	for _, of := range bounds {
		all = append(all, of...)
	}
	if fields := reflect.TypeFor[Ceiling]().NumField(); len(all) != fields {
		t.Fatalf("%d fields of a ceiling are tried, it has %d", len(all), fields)
	}
	for number, name := range quotav1.Mode_name {
		mode := quotav1.Mode(number)
		for kind, m := range map[string]resource.Message{
			"limit": &quotav1.Limit{Rate: "1/s", Burst: 1, Mode: mode}, "quota": &quotav1.Quota{Max: one, Mode: mode},
			"tenant": &quotav1.Tenant{Weight: 1}, "pool": &quotav1.Pool{Capacity: 1},
		} {
			for i := range all {
				refused := all[i].over(m, nil) != ""
				want := mode != quotav1.Mode_MODE_UNSPECIFIED && mode != quotav1.Mode_ENFORCE &&
					slices.Contains(bounds[kind], all[i])
				if refused != want {
					t.Errorf("ceiling %s, a %s in mode %s: refused %v, want %v", &all[i], kind, name, refused, want)
				}
			}
		}
	}
}

// A grant of the policy has a ceiling, by certificate or by JWT; of two grants the wider
// counts, and other tenants' grants do not.
func TestCeilingOfGrants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy")
	write(t, path, `grants:
  - {id: narrow.example.org, role: editor, tenants: [acme], ceiling: {rate: 10/s}}
  - {id: wide.example.org, role: editor, tenants: [acme], ceiling: {rate: 100/s}}
  - {id: wide.example.org, role: editor, tenants: [acme], ceiling: {rate: 10/s}}
  - {id: two.example.org, role: editor, tenants: [acme], ceiling: {rate: 10/s}}
  - {id: two.example.org, role: editor, tenants: [bolt]}
  - {id: both.example.org, role: editor, tenants: [acme], ceiling: {rate: 10/s}}
  - {id: both.example.org, role: admin}
`)
	p, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]codes.Code{"narrow.example.org": codes.PermissionDenied,
		"wide.example.org": codes.OK, "two.example.org": codes.PermissionDenied, "both.example.org": codes.OK,
		"viewer.example.org": codes.OK} {
		c := &Caller{Name: id, ids: []string{id}}
		c.grants = p.of(c)
		err := Ceilings{}.Write(context.WithValue(t.Context(), callerKey{}, c),
			&quotav1.Limit{Name: "tenants/acme/limits/l", Rate: "50/s"}, nil)
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
	for _, wrong := range []string{"{}", "{rate: fast}", "{burst: -1}", "{weight: .nan}", "{speed: 1}"} {
		write(t, path, "grants: [{id: a, role: editor, tenants: [b], ceiling: "+wrong+"}]")
		if _, err := Read(path); err == nil {
			t.Errorf("ceiling %s is read", wrong)
		}
	}
	write(t, path, "grants: [{id: a, role: viewer, ceiling: {rate: 1/s}}]")
	if _, err := Read(path); err == nil {
		t.Error("a viewer has a ceiling")
	}
}
