package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

func next(t *testing.T, batches <-chan store.Batch) store.Batch {
	t.Helper()
	select {
	case b, open := <-batches:
		if !open {
			t.Fatal("the watch ended")
		}
		return b
	case <-time.After(20 * time.Second):
		t.Fatal("no batch in 20s")
	}
	panic("unreachable")
}

func snapshot(t *testing.T, s *store.Store) store.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// compact forgets all of etcd's history but the present.
func compact(t *testing.T, client *clientv3.Client) {
	t.Helper()
	now, err := client.Get(t.Context(), "/elsewhere")
	if err == nil {
		_, err = client.Compact(t.Context(), now.Header.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func batchNames(b store.Batch) []string {
	var out []string
	for _, r := range b.Resources {
		out = append(out, resource.Name(r))
	}
	slices.Sort(out)
	return out
}

func TestWatchFollows(t *testing.T) {
	s := storetest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	batches := s.Watch(ctx, store.Snapshot{})
	if b := next(t, batches); !b.Reset || len(b.Resources) != 0 {
		t.Errorf("first batch of nothing: %+v", b)
	}
	r := apply(t, s, puts(pool("api", 1), tenant("acme"), quota("acme", "api"))...)
	b := next(t, batches)
	if b.Reset || b.Revision != r.Revision || len(b.Resources) != 3 {
		t.Errorf("batch %+v after revision %d", b, r.Revision)
	}
	if got := resource.Unwrap(b.Resources[0]).GetEtag(); got != store.Etag(r.Revision) {
		t.Errorf("etag %q in a batch of revision %d", got, r.Revision)
	}
	apply(t, s, store.Change{Op: store.Delete, Name: "tenants/acme", Force: true})
	b = next(t, batches)
	slices.Sort(b.Deleted)
	if !slices.Equal(b.Deleted, []string{"tenants/acme", "tenants/acme/quotas/api"}) {
		t.Errorf("deleted %v", b.Deleted)
	}
	cancel()
	if _, open := <-batches; open {
		t.Error("the watch goes on without its context")
	}
}

func TestWatchFromARevisionMissesNothing(t *testing.T) {
	s := storetest.Open(t)
	apply(t, s, puts(pool("old", 1))...)
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, puts(pool("new", 1))...)
	apply(t, s, puts(pool("newer", 1))...)
	batches := s.Watch(t.Context(), snap)
	var got []string
	for len(got) < 2 {
		b := next(t, batches)
		if b.Reset {
			t.Fatalf("reset although the history is there: %+v", b)
		}
		got = append(got, batchNames(b)...)
	}
	if !slices.Equal(got, []string{"pools/new", "pools/newer"}) {
		t.Errorf("got %v", got)
	}
}

func TestWatchAfterCompactionStartsOver(t *testing.T) {
	client := storetest.Shared(t).Client(t)
	s := store.Open(client, storetest.Prefix(t))
	apply(t, s, puts(pool("old", 1))...)
	first := snapshot(t, s)
	apply(t, s, store.Change{Op: store.Delete, Name: "pools/old"})
	last := apply(t, s, puts(pool("new", 1))...)
	compact(t, client)
	batches := s.Watch(t.Context(), first)
	b := next(t, batches)
	if !b.Reset || b.Revision != last.Revision || !slices.Equal(batchNames(b), []string{"pools/new"}) {
		t.Errorf("after a compaction: %+v", b)
	}
	after := apply(t, s, puts(pool("newest", 1))...)
	if b := next(t, batches); b.Reset || b.Revision != after.Revision {
		t.Errorf("after the reset: %+v", b)
	}
	if resumed, whole := s.WatchResets(); resumed != 0 || whole != 1 {
		t.Errorf("%d watches were resumed, %d began with the whole", resumed, whole)
	}
}

// A watch that ends, and does not lose its place, is counted as well.
func TestAWatchThatEndsIsCounted(t *testing.T) {
	client := storetest.Shared(t).Client(t)
	s := store.Open(client, storetest.Prefix(t))
	next(t, s.Watch(t.Context(), store.Snapshot{}))
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_ = client.Watcher.Close()
		if resumed, whole := s.WatchResets(); resumed > 0 && whole == 0 {
			return
		} else if time.Since(began) > 10*time.Second {
			t.Fatalf("%d watches were resumed, %d began with the whole", resumed, whole)
		}
	}
}

// A compaction past the configuration's own last change is no reason to start
// over: nothing changed.
func TestWatchOfAnUnchangedConfigurationAfterCompaction(t *testing.T) {
	client := storetest.Shared(t).Client(t)
	s := store.Open(client, storetest.Prefix(t))
	apply(t, s, puts(pool("api", 1))...)
	last := snapshot(t, s)
	for range 3 {
		if _, err := client.Put(t.Context(), "/elsewhere", "x"); err != nil {
			t.Fatal(err)
		}
	}
	compact(t, client)
	batches := s.Watch(t.Context(), last)
	after := apply(t, s, puts(pool("new", 1))...)
	if b := next(t, batches); b.Reset && len(b.Resources) != 2 || b.Revision != after.Revision {
		t.Errorf("%+v, want the change of revision %d", b, after.Revision)
	}
}

func TestCorruptValues(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	var said, byDefault bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&byDefault, nil)))
	defer func() {
		slog.SetDefault(before)
		if n := strings.Count(said.String(), "cannot be read"); n != 1 || byDefault.Len() > 0 {
			t.Errorf("the log has %d lines, and the default one:\n%s", n, byDefault.String())
		}
	}()
	s := store.Open(client, prefix).LogTo(slog.New(slog.NewTextHandler(&said, nil)))
	apply(t, s, puts(pool("api", 1), pool("db", 1), tenant("acme"), quota("acme", "api"))...)
	if _, err := client.Put(t.Context(), prefix+"pools/api", "\xff"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "pools/api"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Get: %v", err)
	}
	snap := snapshot(t, s)
	if !errors.Is(snap.Unreadable["pools/api"], store.ErrCorrupt) || len(snap.Resources) != 3 {
		t.Errorf("the snapshot holds %d resources and cannot read %v", len(snap.Resources), snap.Unreadable)
	}
	b := next(t, s.Watch(t.Context(), store.Snapshot{}))
	if !slices.Equal(b.Unreadable, []string{"pools/api"}) || b.Held != "" || len(b.Resources) != 3 {
		t.Errorf("a starting watch delivers %+v", b)
	}
	if page, _, err := s.List(t.Context(), store.Query{Kind: resource.Pool}); err != nil || len(page) != 1 {
		t.Errorf("List: %v %v", page, err)
	}
	// What refers to it stands, it can be replaced, and it can be deleted.
	apply(t, s, puts(quota("acme", "api"), pool("new", 1))...)
	apply(t, s, puts(pool("api", 7))...)
	if m, err := s.Get(t.Context(), "pools/api"); err != nil || m.(*quotav1.Pool).Capacity != 7 {
		t.Errorf("replaced: %v %v", m, err)
	}
	if _, err := client.Put(t.Context(), prefix+"pools/api", "\xff"); err != nil {
		t.Fatal(err)
	}
	refused(t, s, store.ErrInUse, 0, store.Change{Op: store.Delete, Name: "pools/api"})
	apply(t, s, store.Change{Op: store.Delete, Name: "pools/api", Force: true})
	if got := names(t, s); !slices.Equal(got, []string{"pools/db", "pools/new", "tenants/acme"}) {
		t.Errorf("left %v", got)
	}
}

// What somebody writes into etcd by hand moves no head: it is not delivered.
func TestChangesByHandDoNotCount(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix)
	apply(t, s, puts(pool("api", 1), pool("db", 1))...)
	batches := s.Watch(t.Context(), snapshot(t, s))
	if _, err := client.Delete(t.Context(), prefix+"pools/api"); err != nil {
		t.Fatal(err)
	}
	after := apply(t, s, puts(pool("new", 1))...)
	if b := next(t, batches); b.Revision != after.Revision || len(b.Deleted) != 0 ||
		!slices.Equal(batchNames(b), []string{"pools/new"}) {
		t.Errorf("%+v", b)
	}
}

func TestEtcdKilledAndBack(t *testing.T) {
	etcd, err := storetest.Start(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	client := etcd.Client(t)
	s := store.Open(client, "")
	apply(t, s, puts(pool("api", 1))...)
	batches := s.Watch(t.Context(), snapshot(t, s))
	etcd.Kill()

	calls := map[string]func() error{
		"Get":      func() error { _, err := s.Get(t.Context(), "pools/api"); return err },
		"List":     func() error { _, _, err := s.List(t.Context(), store.Query{Kind: resource.Pool}); return err },
		"Apply":    func() error { _, err := s.Apply(t.Context(), store.Note{}, puts(pool("b", 1))); return err },
		"Snapshot": func() error { _, err := s.Snapshot(t.Context()); return err },
		"Seed":     func() error { _, err := s.Seed(t.Context()); return err },
	}
	type answer struct {
		call string
		err  error
	}
	answers := make(chan answer)
	for name, call := range calls {
		go func() { answers <- answer{name, call()} }()
	}
	for range calls {
		select {
		case a := <-answers:
			if !errors.Is(a.err, store.ErrUnavailable) {
				t.Errorf("%s without etcd: %v", a.call, a.err)
			}
		case <-time.After(10 * store.Timeout):
			t.Fatal("a call without etcd hangs")
		}
	}

	back, err := storetest.Start(etcd.Dir, etcd.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Kill()
	for {
		if _, err = s.Apply(t.Context(), store.Note{}, puts(pool("back", 1))); !errors.Is(err, store.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if b := next(t, batches); !slices.Contains(batchNames(b), "pools/back") {
		t.Errorf("the watch did not live through it: %+v", b)
	}
}

func TestACallerWhoLeavesIsNotAnOutage(t *testing.T) {
	s := storetest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, "pools/api"); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestListPages(t *testing.T) {
	s := storetest.Open(t)
	apply(t, s, puts(pool("p", 1), tenant("a"), tenant("a-b"), tenant("b"), quota("a", "p"), limit("a", "l1"),
		limit("a", "l2"), limit("a-b", "l3"))...)
	for _, c := range []struct {
		q    store.Query
		want []string
		next string
	}{
		{store.Query{Kind: resource.Tenant}, []string{"tenants/a", "tenants/a-b", "tenants/b"}, ""},
		{store.Query{Kind: resource.Tenant, Limit: 3}, []string{"tenants/a", "tenants/a-b", "tenants/b"}, ""},
		{store.Query{Kind: resource.Tenant, Limit: 2}, []string{"tenants/a", "tenants/a-b"}, "tenants/a-b"},
		{store.Query{Kind: resource.Tenant, Limit: 2, After: "tenants/a-b"}, []string{"tenants/b"}, ""},
		{store.Query{Kind: resource.Limit, Parent: "tenants/a"}, []string{"tenants/a/limits/l1", "tenants/a/limits/l2"},
			""},
		{store.Query{Kind: resource.Limit}, []string{"tenants/a-b/limits/l3", "tenants/a/limits/l1",
			"tenants/a/limits/l2"}, ""},
		{store.Query{Kind: resource.Quota, Parent: "tenants/b"}, nil, ""},
		{store.Query{Kind: resource.Pool, After: "pools/z"}, nil, ""},
	} {
		page, next, err := s.List(t.Context(), c.q)
		var got []string
		for _, m := range page {
			got = append(got, m.GetName())
		}
		if err != nil || next != c.next || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v then %q (%v), want %v then %q", c.q, got, next, err, c.want, c.next)
		}
	}
}

// A watch that is behind, as after a change of 400,000 resources, and moves, is kept: else the whole
// configuration would be read again.
func TestASlowWatchIsNotGivenUp(t *testing.T) {
	s := storetest.Open(t)
	apply(t, s, puts(pool("api", 1))...)
	if s.GivesUp(t.Context(), 1, 2, 3) {
		t.Error("a watch that moves is given up")
	}
	if !s.GivesUp(t.Context(), 1, 1, 1) {
		t.Error("a watch that stands still is not given up")
	}
}
