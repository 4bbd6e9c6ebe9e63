package store_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

func pool(id string, capacity float64) resource.Message {
	return &quotav1.Pool{Name: "pools/" + id, Capacity: capacity}
}

func tenant(id string) resource.Message {
	return &quotav1.Tenant{Name: "tenants/" + id, Weight: 1}
}

func quota(tenant, pool string) resource.Message {
	return &quotav1.Quota{Name: "tenants/" + tenant + "/quotas/" + pool, Guaranteed: 1}
}

func limit(tenant, id string, pools ...string) resource.Message {
	return &quotav1.Limit{Name: "tenants/" + tenant + "/limits/" + id, Rate: "5/s", Pools: pools}
}

func puts(ms ...resource.Message) []store.Change {
	changes := make([]store.Change, len(ms))
	for i, m := range ms {
		changes[i] = store.Change{Resource: m}
	}
	return changes
}

func apply(t *testing.T, s *store.Store, changes ...store.Change) store.Result {
	t.Helper()
	r, err := s.Apply(t.Context(), store.Note{}, changes)
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	return r
}

func refused(t *testing.T, s *store.Store, want error, index int, changes ...store.Change) {
	t.Helper()
	before, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Apply(t.Context(), store.Note{}, changes)
	if !errors.Is(err, want) {
		t.Fatalf("Apply: %v, want %v", err, want)
	}
	var c *store.ChangeError
	if errors.As(err, &c) && c.Index != index {
		t.Errorf("Apply blames change %d, want %d", c.Index, index)
	}
	after, err := s.Snapshot(context.Background())
	if err != nil || after.Revision != before.Revision {
		t.Errorf("a refused Apply moved the revision from %d to %d (%v)", before.Revision, after.Revision, err)
	}
}

func names(t *testing.T, s *store.Store) []string {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	var out []string
	for _, r := range snap.Resources {
		out = append(out, resource.Name(r))
	}
	return out
}

func TestApplyStoresAndGetReturns(t *testing.T) {
	s := storetest.Open(t)
	r := apply(t, s, puts(pool("api", 100), tenant("acme"), quota("acme", "api"))...)
	if r.Revision == 0 || r.Outcomes[0] != store.Created {
		t.Fatalf("result %+v", r)
	}
	got, err := s.Get(t.Context(), "pools/api")
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, r.Resources[0]) {
		t.Errorf("Get %v, Apply returned %v", got, r.Resources[0])
	}
	if got.GetEtag() != store.Etag(r.Revision) || got.GetUpdateTime() == nil {
		t.Errorf("etag %q and time %v of a resource written at revision %d", got.GetEtag(), got.GetUpdateTime(),
			r.Revision)
	}
	again := apply(t, s, puts(pool("api", 100))...)
	if again.Outcomes[0] != store.Unchanged || again.Revision != r.Revision ||
		again.Resources[0].GetEtag() != got.GetEtag() {
		t.Errorf("applying the same again: %+v", again)
	}
	changed := apply(t, s, puts(pool("api", 200), tenant("acme"))...)
	if changed.Outcomes[0] != store.Updated || changed.Outcomes[1] != store.Unchanged ||
		changed.Revision <= r.Revision {
		t.Errorf("changing one of two: %+v", changed)
	}
	if _, err := s.Get(t.Context(), "pools/none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get of nothing: %v", err)
	}
}

func TestSnapshotRevisionIsTheConfigurations(t *testing.T) {
	s := storetest.Open(t)
	r := apply(t, s, puts(pool("api", 1))...)
	if _, err := storetest.Shared(t).Client(t).Put(t.Context(), "/elsewhere", "x"); err != nil {
		t.Fatal(err)
	}
	snap, err := s.Snapshot(t.Context())
	if err != nil || snap.Revision != r.Revision {
		t.Errorf("revision %d after a foreign write, want %d (%v)", snap.Revision, r.Revision, err)
	}
}

func TestSeedIsDrawnOnce(t *testing.T) {
	s := storetest.Open(t)
	a, err := s.Seed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Seed(t.Context()); err != nil || a != b {
		t.Errorf("seed %d, then %d (%v)", a, b, err)
	}
}
