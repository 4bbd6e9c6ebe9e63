package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

func del(name string) store.Change { return store.Change{Op: store.Delete, Name: name} }

func TestRefusals(t *testing.T) {
	s := storetest.Open(t)
	r := apply(t, s, puts(pool("api", 100), tenant("acme"), quota("acme", "api"), limit("acme", "rate", "api"))...)
	etag := store.Etag(r.Revision)
	apply(t, s, puts(&quotav1.Tenant{Name: "tenants/y", Plan: "gold"}, &quotav1.Plan{Name: "plans/gold"},
		&quotav1.Plan{Name: "plans/silver"}, pool("of-plan", 1),
		&quotav1.Limit{Name: "plans/silver/limits/x", Rate: "1/s", Pools: []string{"of-plan"}})...)
	for _, c := range []struct {
		name    string
		want    error
		index   int
		changes []store.Change
	}{
		{"quota without tenant", store.ErrReference, 0, puts(quota("nobody", "api"))},
		{"quota without pool", store.ErrReference, 1, puts(tenant("x"), quota("acme", "none"))},
		{"limit without tenant", store.ErrReference, 0, puts(limit("nobody", "rate"))},
		{"limit on a missing pool", store.ErrReference, 0, puts(limit("acme", "rate", "api", "none"))},
		{"pool in use", store.ErrInUse, 0, []store.Change{del("pools/api")}},
		{"tenant in use", store.ErrInUse, 0, []store.Change{del("tenants/acme")}},
		{"tenant of a missing plan", store.ErrReference, 0, puts(&quotav1.Tenant{Name: "tenants/x", Plan: "tin"})},
		{"limit of a missing plan", store.ErrReference, 0, puts(&quotav1.Limit{Name: "plans/tin/limits/x", Rate: "1/s"})},
		{"plan in use", store.ErrInUse, 0, []store.Change{{Op: store.Delete, Name: "plans/gold", Force: true}}},
		{"plan with a limit", store.ErrInUse, 0, []store.Change{del("plans/silver")}},
		{"pool of a plan's limit", store.ErrInUse, 0, []store.Change{del("pools/of-plan")}},
		{"quota for a pool that goes", store.ErrReference, 0, append(puts(quota("-", "api")),
			store.Change{Op: store.Delete, Name: "pools/api", Force: true})},
		{"delete of nothing", store.ErrNotFound, 0, []store.Change{del("pools/none")}},
		{"create of what exists", store.ErrExists, 0, []store.Change{{Op: store.Create, Resource: pool("api", 1)}}},
		{"update of nothing", store.ErrNotFound, 0, []store.Change{{Op: store.Update, Resource: pool("none", 1)}}},
		{"stale etag", store.ErrEtag, 1, []store.Change{{Resource: tenant("x")},
			{Resource: pool("api", 1), Etag: "1"}}},
		{"stale etag of a delete", store.ErrEtag, 0,
			[]store.Change{{Op: store.Delete, Name: "tenants/acme", Etag: "1", Force: true}}},
		{"etag of nothing", store.ErrEtag, 0, []store.Change{{Resource: pool("none", 1), Etag: etag}}},
		{"named twice", store.ErrBadChange, 1, puts(pool("b", 1), pool("b", 2))},
		{"no name", store.ErrBadChange, 0, puts(&quotav1.Pool{})},
		{"no resource", store.ErrBadChange, 0, []store.Change{{}}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, s, c.want, c.index, c.changes...) })
	}
	apply(t, s, store.Change{Op: store.Update, Resource: pool("api", 7), Etag: etag})
}

// An old etag of a declared text is a conflict only where the texts differ: what is stored as it is asked for is
// unchanged, also together with a change. A caller that does not declare counts on the etag.
func TestAnOldEtagOfAnEqualTextIsUnchanged(t *testing.T) {
	s := storetest.Open(t)
	old := store.Etag(apply(t, s, puts(pool("api", 1), tenant("a"))...).Revision)
	apply(t, s, puts(pool("api", 2))...)
	now := apply(t, s, puts(pool("api", 1))...).Revision // changed, and changed back
	again := store.Change{Resource: pool("api", 1), Etag: old, Declared: true}
	r := apply(t, s, again)
	if r.Outcomes[0] != store.Unchanged || r.Revision != now || r.Resources[0].GetEtag() != store.Etag(now) {
		t.Errorf("%+v, want unchanged at revision %d", r, now)
	}
	r = apply(t, s, again, store.Change{Op: store.Update, Resource: tenant("a"), Etag: "1", Declared: true},
		puts(tenant("b"))[0])
	if !slices.Equal(r.Outcomes, []store.Outcome{store.Unchanged, store.Unchanged, store.Created}) {
		t.Errorf("outcomes %v", r.Outcomes)
	}
	refused(t, s, store.ErrEtag, 0, store.Change{Resource: pool("api", 2), Etag: old, Declared: true})
	refused(t, s, store.ErrEtag, 0, store.Change{Resource: pool("api", 1), Etag: old})
	refused(t, s, store.ErrExists, 0, store.Change{Op: store.Create, Resource: pool("api", 1), Declared: true})
}

func TestReferencesWithinOneApply(t *testing.T) {
	s := storetest.Open(t)
	apply(t, s, puts(quota("acme", "api"), limit("-", "all"), tenant("acme"), pool("api", 1))...)
	apply(t, s, del("tenants/acme"), del("tenants/acme/quotas/api"), del("pools/api"))
	if got := names(t, s); !slices.Equal(got, []string{"tenants/-/limits/all"}) {
		t.Errorf("left %v", got)
	}
}

func TestForce(t *testing.T) {
	s := storetest.Open(t)
	apply(t, s, puts(pool("api", 1), pool("db", 1), tenant("a"), tenant("a-b"), quota("a", "api"), quota("a", "db"),
		quota("a-b", "api"), limit("a", "one", "api"), limit("a", "two", "api", "db"), limit("a-b", "any"))...)
	r := apply(t, s, store.Change{Op: store.Delete, Name: "pools/api", Force: true})
	if want := []string{"tenants/a-b/quotas/api", "tenants/a/limits/one",
		"tenants/a/quotas/api"}; !slices.Equal(r.Removed, want) {
		t.Errorf("removed %v, want %v", r.Removed, want)
	}
	two, err := s.Get(t.Context(), "tenants/a/limits/two")
	if err != nil || !slices.Equal(two.(*quotav1.Limit).Pools, []string{"db"}) {
		t.Errorf("the limit on two pools became %v (%v)", two, err)
	}
	apply(t, s, store.Change{Op: store.Delete, Name: "tenants/a", Force: true})
	if got, want := names(t, s), []string{"pools/db", "tenants/a-b", "tenants/a-b/limits/any"}; !slices.Equal(got,
		want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

func TestDefaultTenantNeedsNoEntry(t *testing.T) {
	s := storetest.Open(t)
	apply(t, s, puts(tenant("-"), limit("-", "all"))...)
	apply(t, s, del("tenants/-"))
	if got := names(t, s); !slices.Equal(got, []string{"tenants/-/limits/all"}) {
		t.Errorf("left %v", got)
	}
	apply(t, s, puts(tenant("-"))...)
	apply(t, s, store.Change{Op: store.Delete, Name: "tenants/-", Force: true})
	if got := names(t, s); len(got) != 0 {
		t.Errorf("force left %v", got)
	}
}

func TestTooLarge(t *testing.T) {
	s := storetest.Open(t)
	many := make([]store.Change, store.MaxChanges+1)
	for i := range many {
		many[i] = store.Change{Resource: tenant(fmt.Sprintf("t%d", i))}
	}
	refused(t, s, store.ErrTooLarge, 0, many...)

	big := &quotav1.Limit{Name: "tenants/-/limits/big", Rate: "1/s"}
	for i := range 5000 {
		big.Overrides = append(big.Overrides, &quotav1.InlineOverride{Client: fmt.Sprintf("%d-%s", i,
			strings.Repeat("x", 240)), Rate: "1/s"})
	}
	refused(t, s, store.ErrTooLarge, 0, store.Change{Resource: big})
	if _, err := s.Check(t.Context(), store.Note{}, puts(big)); err == nil {
		t.Error("Check accepts what Apply refuses")
	}
}

func TestForceOfMoreThanOneTransaction(t *testing.T) {
	s := storetest.Open(t)
	changes := puts(pool("api", 1))
	for i := range 135 {
		id := fmt.Sprintf("t%d", i)
		changes = append(changes, puts(tenant(id), quota(id, "api"))...)
	}
	apply(t, s, changes...)
	r := apply(t, s, store.Change{Op: store.Delete, Name: "pools/api", Force: true})
	if left := names(t, s); len(r.Removed) != 135 || len(left) != 135 || !strings.HasPrefix(left[0], "tenants/t") {
		t.Errorf("%d removed, %d left", len(r.Removed), len(left))
	}
}

func TestCheckWritesNothing(t *testing.T) {
	s := storetest.Open(t)
	r, err := s.Check(t.Context(), store.Note{}, puts(pool("api", 1)))
	if err != nil || r.Outcomes[0] != store.Created || r.Resources[0].GetEtag() != "" {
		t.Errorf("%+v (%v)", r, err)
	}
	if got := names(t, s); len(got) != 0 {
		t.Errorf("stored %v", got)
	}
}
