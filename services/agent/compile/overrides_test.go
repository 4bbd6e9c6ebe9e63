package compile

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// A book that was changed in steps equals a book that was made at once: configuration, digest, resources. A change of
// an override changes no tenant.
func TestOverridesOfABook(t *testing.T) {
	base := []*quotav1.Resource{pool(&quotav1.Pool{Name: "pools/api", Capacity: 1}),
		tenant(&quotav1.Tenant{Name: "tenants/a"}), limitOf(&quotav1.Limit{Name: "tenants/a/limits/l", Rate: "1/s"})}
	stepped := Book{Seed: 7}
	if _, err := stepped.Change(base, nil); err != nil {
		t.Fatal(err)
	}
	all, r := map[string]*quotav1.Resource{}, rand.New(rand.NewPCG(1, 2))
	for step := range 60 {
		var put []*quotav1.Resource
		var gone []string
		for range r.IntN(5) {
			o := &quotav1.Override{Name: fmt.Sprintf("tenants/a/limits/l/overrides/c%d", r.IntN(40)), Rate: fmt.Sprint(r.IntN(9), "/s")}
			if r.IntN(3) == 0 {
				o.Rate, o.Concurrency = "", int64(1+r.IntN(5))
			}
			if all[o.Name] = resource.Of(o); !slices.ContainsFunc(put, func(x *quotav1.Resource) bool { return resource.Name(x) == o.Name }) {
				put = append(put, all[o.Name])
			} else {
				all[o.Name] = put[slices.IndexFunc(put, func(x *quotav1.Resource) bool { return resource.Name(x) == o.Name })]
			}
		}
		for name := range all {
			if r.IntN(10) == 0 && !slices.ContainsFunc(put, func(x *quotav1.Resource) bool { return resource.Name(x) == name }) {
				gone = append(gone, name)
				delete(all, name)
			}
		}
		d, err := stepped.Change(put, gone)
		if err != nil || len(d.Tenants)+len(d.Removed) > 0 || d.Shared != nil {
			t.Fatalf("%v %+v", err, d)
		}
		at := Book{Seed: 7}
		if _, err := at.Change(append(slices.Clone(base), slices.Collect(maps.Values(all))...), nil); err != nil {
			t.Fatal(err)
		}
		one, two := stepped.Config().Overrides, at.Config().Overrides
		if !slices.EqualFunc(one, two, func(a, b config.OverrideTable) bool {
			return a.OverridesOf == b.OverridesOf && a.Table.Same(b.Table)
		}) || stepped.Digest() != at.Digest() || stepped.Len() != at.Len() || stepped.apart != at.apart ||
			len(decoded(t, stepped.Resources())) != len(base)+len(all) {
			t.Fatalf("step %d: %d and %d resources, %d and %d bytes", step, stepped.Len(), at.Len(), stepped.apart, at.apart)
		}
	}
}

// decoded returns the resources of a configuration that is encoded and decoded.
func decoded(t *testing.T, c *controlv1.Configuration) []*quotav1.Resource {
	b, err := proto.Marshal(c)
	out := &controlv1.Configuration{}
	if err = errors.Join(err, proto.Unmarshal(b, out)); err != nil {
		t.Fatal(err)
	}
	return out.GetResources()
}

// An override that is not valid is left out, with its name; a valid one of the same name takes its place.
func TestOverridesLeftOut(t *testing.T) {
	b := Book{Seed: 7}
	const name = "tenants/a/limits/l/overrides/a%2Fb"
	one := func(rate string) []*quotav1.Resource {
		return []*quotav1.Resource{resource.Of(&quotav1.Override{Name: name, Rate: rate})}
	}
	newer := one("1/s")
	newer[0].GetOverride().ProtoReflect().SetUnknown([]byte{0xc8, 0x01, 1})
	for _, bad := range [][]*quotav1.Resource{one("fast"), newer} {
		if _, err := b.Change(bad, nil); err != nil {
			t.Fatal(err)
		}
		left := b.LeftOut()
		if len(left) != 1 || left[0].Tenant != "a" || left[0].Limit != "l/overrides/a%2Fb" || !strings.Contains(left[0].Reason, name) {
			t.Errorf("%+v", left)
		}
	}
	if _, err := b.Change(one("3/s"), nil); err != nil || len(b.LeftOut()) != 0 {
		t.Fatal(err, b.LeftOut())
	}
	table := b.Config().Overrides[0].Table
	if o, ok := table.Find(limiter.ClientKey(7, "a", "l", "a/b")); !ok || o.Number != 3 {
		t.Errorf("%+v %t", o, ok)
	}
	if got := b.Named([]string{name}); len(got) != 1 || got[0].GetOverride().GetRate() != "3/s" {
		t.Errorf("%v", got)
	}
}
