package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

// herd is a pool and n tenants with a quota each, of a weight.
func herd(n int, weight float64) []store.Change {
	changes := puts(pool("api", 100))
	for i := range n {
		id := fmt.Sprintf("t%05d", i)
		changes = append(changes, puts(&quotav1.Tenant{Name: "tenants/" + id, Weight: weight}, quota(id, "api"))...)
	}
	return changes
}

func envelopes(changes []store.Change) []*quotav1.Resource {
	out := make([]*quotav1.Resource, len(changes))
	for i, c := range changes {
		out[i] = resource.Of(c.Resource)
	}
	return out
}

func TestThousandsInOneStep(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix)
	batches := s.Watch(t.Context(), store.Snapshot{})
	next(t, batches)

	began := time.Now()
	r := apply(t, s, herd(3000, 1)...)
	t.Logf("6001 resources took %s", time.Since(began).Round(time.Millisecond))
	if b := next(t, batches); b.Revision != r.Revision || b.Reset || len(b.Resources) != 6001 {
		t.Fatalf("a batch of %d at revision %d (reset %t), want 6001 at %d", len(b.Resources), b.Revision, b.Reset,
			r.Revision)
	}
	snap := snapshot(t, s)
	if snap.Revision != r.Revision || len(snap.Resources) != 6001 || snap.Missing != 0 {
		t.Errorf("%d resources at revision %d, %d missing", len(snap.Resources), snap.Revision, snap.Missing)
	}
	if got, err := s.Get(t.Context(), "tenants/t02999"); err != nil || got.GetEtag() != store.Etag(r.Revision) ||
		got.GetEtag() != r.Resources[5999].GetEtag() {
		t.Errorf("etag %q of a staged resource, revision %x (%v)", got.GetEtag(), r.Revision, err)
	}
	if err := s.Tidy(t.Context()); err != nil { // waits until it is carried out
		t.Fatal(err)
	}
	if n := keys(t, client, prefix+"changes/"); n != 0 {
		t.Errorf("%d keys are left of the change set", n)
	}
	// A small change after it is one small transaction.
	small := apply(t, s, puts(&quotav1.Tenant{Name: "tenants/t00001", Weight: 5})...)
	if b := next(t, batches); b.Revision != small.Revision || len(b.Resources) != 1 {
		t.Errorf("a small change came as %d resources", len(b.Resources))
	}
	refused(t, s, store.ErrEtag, 6001, append(herd(3000, 2), store.Change{Resource: tenant("x"), Etag: "1"})...)
	r = apply(t, s, store.Change{Op: store.Delete, Name: "pools/api", Force: true})
	if b := next(t, batches); len(r.Removed) != 3000 || len(b.Deleted) != 3001 || b.Revision != r.Revision {
		t.Errorf("the deletion removed %d and came as %d", len(r.Removed), len(b.Deleted))
	}
}

// A reader sees all of a large change or nothing, wherever its writer
// died, and the next writer cleans up.
func TestCrashWhileStaging(t *testing.T) {
	for at, visible := range map[store.CrashAt]bool{store.BeforeSwap: false, store.AfterSwap: true,
		store.Midway: true} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
			s := store.Open(client, prefix)
			apply(t, s, puts(pool("old", 1), tenant("t00000"))...)
			batches := s.Watch(t.Context(), store.Snapshot{})
			next(t, batches)
			if err := s.CrashingApply(t.Context(), envelopes(herd(300, 2)), at); err != nil {
				t.Fatal(err)
			}
			want := 2
			if visible {
				want = 602 // tenants/t00000 is replaced
				if b := next(t, batches); len(b.Resources) != 601 {
					t.Errorf("the watch delivered %d of 601", len(b.Resources))
				}
			}
			readers(t, store.Open(client, prefix), want)
			after := apply(t, store.Open(client, prefix), puts(pool("new", 1))...)
			if b := next(t, batches); b.Revision != after.Revision || len(b.Resources) != 1 {
				t.Errorf("after the crash a change came as %d resources (reset %t)", len(b.Resources), b.Reset)
			}
			readers(t, s, want+1)
			if n := keys(t, client, prefix+"changes/"); visible && n != 0 || !visible && n == 0 {
				t.Errorf("%d keys are left of the change set", n)
			}
		})
	}
}

// readers checks that Snapshot, List and Get agree on how much there is.
func readers(t *testing.T, s *store.Store, want int) {
	t.Helper()
	snap := snapshot(t, s)
	if len(snap.Resources) != want {
		t.Errorf("the snapshot has %d resources, want %d", len(snap.Resources), want)
	}
	tenants := 0
	for after := ""; ; {
		page, next, err := s.List(t.Context(), store.Query{Kind: resource.Tenant, Limit: 77, After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			if got, err := s.Get(t.Context(), m.GetName()); err != nil || got.GetEtag() != m.GetEtag() {
				t.Errorf("%s is listed and not there: %v", m.GetName(), err)
			}
		}
		tenants += len(page)
		if after = next; after == "" {
			break
		}
	}
	listed := 0
	for _, r := range snap.Resources {
		if r.GetTenant() != nil {
			listed++
		}
	}
	if tenants != listed {
		t.Errorf("listed %d tenants, the snapshot has %d", tenants, listed)
	}
}

func TestTidyRemovesOldLeftovers(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix)
	apply(t, s, puts(pool("old", 1))...)
	old := fmt.Sprintf("%schanges/%016x-00000001/000000", prefix, time.Now().Add(-time.Hour).UnixMilli())
	if _, err := client.Put(t.Context(), old, "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.CrashingApply(t.Context(), envelopes(herd(10, 1)), store.BeforeSwap); err != nil {
		t.Fatal(err)
	}
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := keys(t, client, prefix+"changes/"); n != 1 {
		t.Errorf("%d keys are left, want the one that may still be in the making", n)
	}
	if err := s.CrashingApply(t.Context(), envelopes(herd(10, 1)), store.AfterSwap); err != nil {
		t.Fatal(err)
	}
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if snap := snapshot(t, s); len(snap.Resources) != 22 {
		t.Errorf("%d resources, want 22", len(snap.Resources))
	}
}

// Processes that apply everything at once, and small changes at the same time: every reader sees one weight for all
// tenants, and no increment is lost.
func TestConcurrentLargeChanges(t *testing.T) {
	etcd, prefix := storetest.Shared(t), storetest.Prefix(t)
	first := store.Open(etcd.Client(t), prefix)
	apply(t, first, herd(150, 1)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches := first.Watch(ctx, store.Snapshot{})
	const writers, steps = 3, 4
	var wg sync.WaitGroup
	for w := range writers {
		s := store.Open(etcd.Client(t), prefix)
		wg.Go(func() {
			for i := range steps {
				if _, err := s.Apply(ctx, store.Note{}, herd(150, float64(1+w*steps+i))); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
				if err := increment(ctx, s); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	weights := map[string]float64{}
	reader := store.Open(etcd.Client(t), prefix)
	var last int64
	for running := true; running; {
		select {
		case <-done:
			running = false
		case b := <-batches:
			if b.Revision <= last {
				t.Errorf("revision %d after %d", b.Revision, last)
			}
			last = b.Revision
			for _, r := range b.Resources {
				weights[resource.Name(r)] = r.GetTenant().GetWeight()
			}
			uniform(t, "the watch", weights)
		default:
			seen := map[string]float64{}
			for _, r := range snapshot(t, reader).Resources {
				seen[resource.Name(r)] = r.GetTenant().GetWeight()
			}
			uniform(t, "a snapshot", seen)
		}
	}
	m, err := first.Get(t.Context(), "pools/count")
	if err != nil || m.(*quotav1.Pool).Capacity != writers*steps {
		t.Errorf("counted to %v, want %d (%v)", m, writers*steps, err)
	}
}

func uniform(t *testing.T, who string, weights map[string]float64) {
	t.Helper()
	want := weights["tenants/t00000"]
	for name, w := range weights {
		if resource.KindOf(kindOf(name)) == resource.Tenant && w != want {
			t.Fatalf("%s sees weight %v of %s and %v of tenants/t00000", who, w, name, want)
		}
	}
}

func kindOf(name string) resource.Message {
	ref, err := resource.Parse(name)
	if err != nil {
		panic(err)
	}
	return ref.Kind.New()
}

// increment adds one to the capacity of pools/count.
func increment(ctx context.Context, s *store.Store) error {
	for {
		change := store.Change{Op: store.Create, Resource: pool("count", 1)}
		m, err := s.Get(ctx, "pools/count")
		if err == nil {
			change = store.Change{Resource: pool("count", m.(*quotav1.Pool).Capacity+1), Etag: m.GetEtag()}
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		_, err = s.Apply(ctx, store.Note{}, []store.Change{change})
		if !errors.Is(err, store.ErrEtag) && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
}
