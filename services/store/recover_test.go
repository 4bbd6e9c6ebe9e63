package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

// cluster is an etcd that can be put back and replaced, at one address.
type cluster struct {
	t    *testing.T
	etcd *storetest.Etcd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	c.start(t.TempDir(), "")
	t.Cleanup(func() { c.etcd.Kill() })
	return c
}

func (c *cluster) start(dir, listen string) {
	c.t.Helper()
	var err error
	if c.etcd, err = storetest.Start(dir, listen); err != nil {
		c.t.Fatal(err)
	}
}

// backup copies the data; etcd stands still meanwhile.
func (c *cluster) backup() string {
	c.t.Helper()
	c.etcd.Kill()
	dir := filepath.Join(c.t.TempDir(), "backup")
	if err := os.CopyFS(dir, os.DirFS(c.etcd.Dir)); err != nil {
		c.t.Fatal(err)
	}
	c.start(c.etcd.Dir, c.etcd.Endpoint)
	return dir
}

// replace starts etcd on other data, "" = none.
func (c *cluster) replace(dir string) {
	c.t.Helper()
	c.etcd.Kill()
	if dir == "" {
		dir = c.t.TempDir()
	}
	c.start(dir, c.etcd.Endpoint)
}

func TestRestoredFromAnOlderBackup(t *testing.T) {
	c := newCluster(t)
	s := store.Open(c.etcd.Client(t), "")
	apply(t, s, puts(pool("api", 1), pool("kept", 1))...)
	backup := c.backup()
	batches := s.Watch(t.Context(), store.Snapshot{})
	next(t, batches)
	lost := apply(t, s, puts(pool("api", 2), pool("lost", 1))...)
	next(t, batches)

	c.replace(backup)
	b := next(t, batches)
	if !b.Reset || b.Lost == "" || b.Held != "" || b.Revision <= lost.Revision ||
		!slices.Equal(batchNames(b), []string{"pools/api", "pools/kept"}) {
		t.Fatalf("after the restore: %+v, want the older configuration above revision %d", b, lost.Revision)
	}
	after := apply(t, s, puts(pool("new", 1))...)
	if b := next(t, batches); b.Reset || b.Revision != after.Revision || after.Revision <= lost.Revision {
		t.Errorf("a change after the restore: %+v", b)
	}
	if fresh := snapshot(t, store.Open(c.etcd.Client(t), "")); fresh.Revision != after.Revision {
		t.Errorf("another process reads revision %d, want %d", fresh.Revision, after.Revision)
	}
}

// Others may write to the restored etcd before the watch looks, and its operator may raise its revisions, as
// etcdutl's --bump-revision does. Then only the head shows that the configuration is older.
func TestRestoredWithHigherRevisions(t *testing.T) {
	c := newCluster(t)
	s := store.Open(c.etcd.Client(t), "")
	apply(t, s, puts(pool("api", 1))...)
	backup := c.backup()
	batches := s.Watch(t.Context(), store.Snapshot{})
	next(t, batches)
	lost := apply(t, s, puts(pool("lost", 1))...)
	next(t, batches)
	address := c.etcd.Endpoint
	c.etcd.Kill()
	c.start(backup, "")
	client := c.etcd.Client(t)
	for range 50 {
		if _, err := client.Put(t.Context(), "/elsewhere", "x"); err != nil {
			t.Fatal(err)
		}
	}
	c.etcd.Kill()
	c.start(backup, address)
	b := next(t, batches)
	if !b.Reset || b.Lost == "" || b.Revision <= lost.Revision || !slices.Equal(batchNames(b), []string{"pools/api"}) {
		t.Errorf("after the restore: %+v, want the older configuration above revision %d", b, lost.Revision)
	}
}

// A watch that goes on over a restore delivers again, though etcd's revisions are lower than the awaited ones, and
// nothing had changed since the backup.
func TestRestoredWithoutALostChange(t *testing.T) {
	c := newCluster(t)
	client := c.etcd.Client(t)
	s := store.Open(client, "")
	apply(t, s, puts(pool("api", 1))...)
	backup := c.backup()
	for range 50 {
		if _, err := client.Put(t.Context(), "/elsewhere", "x"); err != nil {
			t.Fatal(err)
		}
	}
	batches := s.Watch(t.Context(), snapshot(t, s))
	c.replace(backup)
	after := eventually(t, s, puts(pool("new", 1)))
	if b := next(t, batches); b.Revision != after.Revision || !slices.Contains(batchNames(b), "pools/new") {
		t.Errorf("%+v, want the change of revision %d", b, after.Revision)
	}
}

// eventually applies once etcd is back.
func eventually(t *testing.T, s *store.Store, changes []store.Change) store.Result {
	t.Helper()
	for {
		r, err := s.Apply(t.Context(), store.Note{}, changes)
		if err == nil {
			return r
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

func TestAnotherEmptyClusterIsHeld(t *testing.T) {
	c := newCluster(t)
	s := store.Open(c.etcd.Client(t), "")
	apply(t, s, puts(pool("api", 1), tenant("acme"))...)
	old := snapshot(t, s)
	batches := s.Watch(t.Context(), old)
	c.replace("")
	held(t, s, batches, old, "gone")

	b := recovered(t, batches, func() (store.Snapshot, error) { return s.Accept(t.Context(), 0) })
	if b.Revision <= old.Revision || len(b.Resources) != 0 {
		t.Errorf("accepted empty: %+v", b)
	}
	after := apply(t, s, puts(pool("new", 1))...)
	if b := next(t, batches); b.Reset || b.Revision != after.Revision {
		t.Errorf("%+v", b)
	}
}

// held checks that nothing is delivered and nothing can be changed.
func held(t *testing.T, s *store.Store, batches <-chan store.Batch, old store.Snapshot, why string) {
	t.Helper()
	b := next(t, batches)
	if !strings.Contains(b.Held, why) || b.Reset || len(b.Resources)+len(b.Deleted) > 0 || b.Revision != old.Revision {
		t.Fatalf("%+v, want it held because of %q at revision %d", b, why, old.Revision)
	}
	for name, err := range map[string]error{
		"Apply": second(s.Apply(t.Context(), store.Note{}, puts(pool("x", 1)))),
		"Check": second(s.Check(t.Context(), store.Note{}, puts(pool("x", 1)))),
		"Get":   second(s.Get(t.Context(), "pools/api")),
	} {
		if !errors.Is(err, store.ErrHeld) || !strings.Contains(err.Error(), "titrate recover") {
			t.Errorf("%s of a held configuration: %v", name, err)
		}
	}
	// A process that starts now holds it too.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if b := next(t, s.Watch(ctx, store.Snapshot{})); b.Held == "" || b.Reset {
		t.Errorf("a watch that starts delivers %+v", b)
	}
}

func second[T any](_ T, err error) error { return err }

func recovered(t *testing.T, batches <-chan store.Batch, do func() (store.Snapshot, error)) store.Batch {
	t.Helper()
	snap, err := do()
	if err != nil {
		t.Fatal(err)
	}
	b := next(t, batches)
	if !b.Reset || b.Held != "" || b.Revision != snap.Revision {
		t.Errorf("recovered to revision %d, delivered %+v", snap.Revision, b)
	}
	return b
}

func TestADeletedPrefixIsHeldAndComesBackFromASnapshot(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix)
	apply(t, s, herd(200, 1)...)
	old := snapshot(t, s)
	batches := s.Watch(t.Context(), old)
	if _, err := client.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	held(t, s, batches, old, "gone")
	b := recovered(t, batches, func() (store.Snapshot, error) {
		return s.Replace(t.Context(), store.Note{}, old.Resources, 0)
	})
	if len(b.Resources) != 401 || b.Revision <= old.Revision {
		t.Errorf("%d resources at revision %d", len(b.Resources), b.Revision)
	}
	apply(t, s, puts(pool("api", 2))...)
}

func TestMissingResourcesAreHeld(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix)
	apply(t, s, puts(pool("api", 1), pool("db", 1), tenant("acme"))...)
	apply(t, s, store.Change{Op: store.Delete, Name: "pools/db"})
	if _, err := client.Delete(t.Context(), prefix+"tenants/acme"); err != nil {
		t.Fatal(err)
	}
	batches := s.Watch(t.Context(), store.Snapshot{})
	if b := next(t, batches); !strings.Contains(b.Held, "1 resource is missing") {
		t.Fatalf("%+v", b)
	}
	b := recovered(t, batches, func() (store.Snapshot, error) { return s.Accept(t.Context(), 0) })
	if !slices.Equal(batchNames(b), []string{"pools/api"}) {
		t.Errorf("accepted %v", batchNames(b))
	}
}

func TestRaise(t *testing.T) {
	s := storetest.Open(t)
	r := apply(t, s, puts(pool("api", 1))...)
	batches := s.Watch(t.Context(), store.Snapshot{})
	next(t, batches)
	if err := s.Raise(t.Context(), r.Revision-1); err != nil {
		t.Fatal(err)
	}
	seen := r.Revision + 1e9
	if err := s.Raise(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if b := next(t, batches); !b.Reset || b.Revision <= seen || len(b.Resources) != 1 {
		t.Errorf("%+v, want the whole above revision %d", b, seen)
	}
	// A reader that has seen a revision of a configuration that is gone gets no empty one.
	empty := storetest.Open(t)
	if err := empty.Raise(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if b := next(t, empty.Watch(t.Context(), store.Snapshot{})); b.Held != store.Gone {
		t.Errorf("%+v", b)
	}
}
