package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

// Several processes (a store each, so that no lock is shared) add and remove what refers to each other. Whatever the
// interleaving, no reader may see a reference to nothing, and no increment may be lost.
func TestConcurrentWritersKeepReferences(t *testing.T) {
	etcd, prefix := storetest.Shared(t), storetest.Prefix(t)
	const writers, steps = 4, 25
	var wg sync.WaitGroup
	for w := range writers {
		s := store.Open(etcd.Client(t), prefix)
		random := rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for range steps {
				if err := disturb(t.Context(), s, random); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	reader := store.Open(etcd.Client(t), prefix)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		snap, err := reader.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		whole(t, snap)
	}
}

// disturb makes a random change; a refusal for its content is as good as success.
func disturb(ctx context.Context, s *store.Store, random *rand.Rand) error {
	id := fmt.Sprint(random.IntN(2))
	choices := [][]store.Change{
		puts(pool(id, 1)), puts(tenant(id)), puts(quota(id, id)), puts(limit(id, "l", "0", "1")),
		{{Op: store.Delete, Name: "pools/" + id}}, {{Op: store.Delete, Name: "tenants/" + id}},
		{{Op: store.Delete, Name: "pools/" + id, Force: true}}, {{Op: store.Delete, Name: "tenants/" + id,
			Force: true}},
		append(puts(pool(id, 2), tenant(id)), puts(quota(id, id))...),
	}
	_, err := s.Apply(ctx, store.Note{}, choices[random.IntN(len(choices))])
	for _, refusal := range []error{store.ErrReference, store.ErrInUse, store.ErrNotFound} {
		if errors.Is(err, refusal) {
			return nil
		}
	}
	return err
}

func whole(t *testing.T, snap store.Snapshot) {
	t.Helper()
	exists := make(map[string]bool)
	for _, r := range snap.Resources {
		exists[resource.Name(r)] = true
	}
	for _, r := range snap.Resources {
		for _, to := range resource.References(resource.Unwrap(r)) {
			if !exists[to.Name] {
				t.Errorf("revision %d: %s refers to %s, which does not exist", snap.Revision, resource.Name(r), to.Name)
			}
		}
	}
}

func TestConcurrentIncrementsAllCount(t *testing.T) {
	etcd, prefix := storetest.Shared(t), storetest.Prefix(t)
	apply(t, store.Open(etcd.Client(t), prefix), puts(pool("api", 1))...)
	const writers, steps = 4, 10
	var wg sync.WaitGroup
	for range writers {
		s := store.Open(etcd.Client(t), prefix)
		wg.Go(func() {
			for done := 0; done < steps; {
				m, err := s.Get(t.Context(), "pools/api")
				if err != nil {
					t.Error(err)
					return
				}
				next := pool("api", m.(*quotav1.Pool).Capacity+1)
				_, err = s.Apply(t.Context(), store.Note{}, []store.Change{{Resource: next, Etag: m.GetEtag()}})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrEtag):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	m, err := store.Open(etcd.Client(t), prefix).Get(t.Context(), "pools/api")
	if err != nil || m.(*quotav1.Pool).Capacity != 1+writers*steps {
		t.Errorf("counted to %v, want %d (%v)", m, 1+writers*steps, err)
	}
}
