package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

func override(limit, client string) resource.Message {
	return &quotav1.Override{Name: "tenants/acme/limits/" + limit + "/overrides/" + client, Rate: "1/s"}
}

// Overrides are stored apart from the limits. They are in lists of their own, in snapshots and in batches, also of a
// change set that is staged. They go with their limit and their tenant.
func TestManyOverrides(t *testing.T) {
	s := storetest.Open(t)
	batches := s.Watch(t.Context(), store.Snapshot{})
	next(t, batches)
	changes := puts(tenant("acme"), limit("acme", "a"), limit("acme", "b"), tenant("other"))
	for i := range 300 {
		changes = append(changes, puts(override("a", fmt.Sprintf("c%03d", i)), override("b", fmt.Sprintf("c%03d", i)))...)
	}
	r := apply(t, s, changes...)
	if b := next(t, batches); len(b.Resources) != 604 {
		t.Errorf("a batch of %d", len(b.Resources))
	}
	if snap := snapshot(t, s); len(snap.Resources) != 604 || snap.Missing != 0 || len(snap.Unreadable) != 0 {
		t.Errorf("%d resources, %d missing, %v", len(snap.Resources), snap.Missing, snap.Unreadable)
	}
	for parent, want := range map[string]int{"tenants/acme/limits/a": 300, "tenants/acme": 600, "tenants/*": 600, "": 600, "tenants/other": 0} {
		var all []string
		for after := ""; ; {
			page, last, err := s.List(t.Context(), store.Query{Kind: resource.Override, Parent: parent, After: after, Limit: 70})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range page {
				all = append(all, m.GetName())
			}
			if after = last; last == "" {
				break
			}
		}
		if len(all) != want || !slices.IsSorted(all) {
			t.Errorf("%q: %d overrides", parent, len(all))
		}
	}
	for _, kind := range []resource.Kind{resource.Limit, resource.Quota} {
		if page, _, err := s.List(t.Context(), store.Query{Kind: kind}); err != nil || len(page) > 2 {
			t.Errorf("%d %ss, %v", len(page), kind, err)
		}
	}
	if m, err := s.Get(t.Context(), "tenants/acme/limits/a/overrides/c007"); err != nil || m.GetEtag() != store.Etag(r.Revision) {
		t.Error(m, err)
	}
	for _, name := range []string{"tenants/acme/limits/a", "tenants/acme"} {
		if _, err := s.Apply(t.Context(), store.Note{}, []store.Change{del(name)}); !errors.Is(err, store.ErrInUse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := apply(t, s, store.Change{Op: store.Delete, Name: "tenants/acme/limits/a", Force: true})
	if len(gone.Removed) != 300 {
		t.Errorf("%d went with their limit", len(gone.Removed))
	}
	apply(t, s, store.Change{Op: store.Delete, Name: "tenants/acme", Force: true})
	if snap := snapshot(t, s); len(snap.Resources) != 1 || snap.Missing != 0 {
		t.Errorf("%d resources are left, %d missing", len(snap.Resources), snap.Missing)
	}
}

// A snapshot is of one revision, although overrides and the rest are read one after the other.
func TestSnapshotIsOfOneRevision(t *testing.T) {
	s, done := storetest.Open(t), make(chan struct{})
	put := puts(tenant("acme"), limit("acme", "a"), override("a", "alice"))
	remove := []store.Change{del("tenants/acme")}
	remove[0].Force = true
	go func() {
		defer close(done)
		for range 50 {
			for _, changes := range [][]store.Change{put, remove} {
				if _, err := s.Apply(t.Context(), store.Note{}, changes); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for {
		if n := len(snapshot(t, s).Resources); n != 0 && n != len(put) {
			t.Errorf("a snapshot has %d of %d resources", n, len(put))
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
