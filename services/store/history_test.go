package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

// entries are the whole history, the newest first.
func entries(t *testing.T, s *store.Store) []store.Entry {
	t.Helper()
	out, err := s.History(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// changesOf are the changes of a revision by name.
func changesOf(t *testing.T, s *store.Store, e store.Entry) map[string]*quotav1.ResourceChange {
	t.Helper()
	out := map[string]*quotav1.ResourceChange{}
	err := s.Changes(t.Context(), e, func(c *quotav1.ResourceChange) bool {
		out[c.GetName()] = c
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// state is the configuration as people write it, with owners, by name.
func state(t *testing.T, s *store.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range snapshot(t, s).Resources {
		m := resource.Unwrap(r)
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(resource.Spec(m))
		if err != nil {
			t.Fatal(err)
		}
		out[m.GetName()] = m.GetSet() + string(b)
	}
	return out
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, value := range a {
		if other, ok := b[name]; !ok || other != value {
			return false
		}
	}
	return true
}

// rollback makes the configuration what it was after a revision.
func rollback(t *testing.T, s *store.Store, revision int64) store.Result {
	t.Helper()
	changes, on, err := s.Undo(t.Context(), revision)
	if err != nil {
		t.Fatalf("Undo to %d: %v", revision, err)
	}
	r, err := s.Apply(t.Context(), store.Note{Action: "rollback", IfRevision: on}, changes)
	if err != nil {
		t.Fatalf("rollback to %d: %v", revision, err)
	}
	return r
}

func TestHistorySaysWhoChangedWhat(t *testing.T) {
	s := storetest.Open(t)
	first := apply(t, s, puts(pool("api", 1), tenant("a"))...)
	note := store.Note{Author: "spiffe://x/alice", Message: "less", Action: "apply"}
	second, err := s.Apply(t.Context(), note, append(puts(pool("api", 2), pool("b", 1)),
		store.Change{Op: store.Delete, Name: "tenants/a"}))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, puts(pool("api", 2))...) // changes nothing, and leaves no entry
	all := entries(t, s)
	if len(all) != 2 || all[1].Revision != first.Revision {
		t.Fatalf("history %+v, want two entries", all)
	}
	e := all[0]
	if e.Revision != second.Revision || e.Previous != first.Revision || e.Author != note.Author ||
		e.Message != "less" || e.Action != "apply" || e.Created != 1 || e.Updated != 1 || e.Deleted != 1 ||
		time.Since(e.Time) > time.Minute {
		t.Errorf("entry %+v", e)
	}
	changes := changesOf(t, s, e)
	if c := changes["pools/api"]; c.GetBefore().GetPool().GetCapacity() != 1 || c.GetAfter().GetPool().GetCapacity() != 2 {
		t.Errorf("an update: %v", c)
	}
	if c := changes["pools/b"]; c.GetBefore() != nil || c.GetAfter() == nil {
		t.Errorf("a creation: %v", c)
	}
	if c := changes["tenants/a"]; c.GetBefore() == nil || c.GetAfter() != nil || len(changes) != 3 {
		t.Errorf("a deletion: %v", c)
	}
	_, err = s.Apply(t.Context(), store.Note{IfRevision: first.Revision}, puts(pool("api", 3)))
	if !errors.Is(err, store.ErrRevision) {
		t.Errorf("a change for an older revision: %v", err)
	}
}

// A rollback to a revision gives exactly the resources of that revision, with their owners,
// whatever was done since. The test has creations, updates, deletions that take others
// along, changes small and staged, other rollbacks.
func TestRollbackRestoresExactly(t *testing.T) {
	s, seed := storetest.Open(t), uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	was := map[int64]map[string]string{}
	var revisions []int64
	note := func() {
		if e := entries(t, s); len(e) > 0 && was[e[0].Revision] == nil {
			was[e[0].Revision] = state(t, s)
			revisions = append(revisions, e[0].Revision)
		}
	}
	for step := range 60 {
		switch {
		case step%20 == 19:
			changes := herd(70, float64(1+random.IntN(3)))
			apply(t, s, changes[:1+2*(1+random.IntN(70))]...)
		case step%4 == 3:
			to := revisions[random.IntN(len(revisions))]
			rollback(t, s, to)
			if !equal(state(t, s), was[to]) {
				t.Fatalf("step %d: after a rollback to %d: %d resources, want %d", step, to, len(state(t, s)), len(was[to]))
			}
		case step%4 == 2:
			owned(t, s, random)
		default:
			if err := disturb(t.Context(), s, random); err != nil {
				t.Fatal(err)
			}
		}
		note()
	}
	for _, to := range revisions {
		rollback(t, s, to)
		if !equal(state(t, s), was[to]) {
			t.Errorf("after a rollback to %d: other resources than then", to)
		}
	}
}

// owned puts a pool into one of two sets.
func owned(t *testing.T, s *store.Store, random *rand.Rand) {
	t.Helper()
	set := fmt.Sprintf("set-%d", random.IntN(2))
	m := pool(fmt.Sprint(random.IntN(2)), float64(1+random.IntN(2)))
	apply(t, s, store.Change{Resource: m, Set: &set, TakeOver: true})
}

// A staged change has one entry with all its changes, and can be undone.
func TestHistoryOfThousands(t *testing.T) {
	s := storetest.Open(t)
	before := apply(t, s, puts(tenant("x"))...)
	began := time.Now()
	apply(t, s, herd(3000, 1)...)
	t.Logf("6001 resources took %s", time.Since(began).Round(time.Millisecond))
	all := entries(t, s)
	if e := all[0]; e.Created != 6001 || e.Parts == 0 || len(changesOf(t, s, e)) != 6001 {
		t.Errorf("entry %+v", e)
	} else {
		t.Logf("its changes take %d bytes", e.Bytes)
	}
	began = time.Now()
	rollback(t, s, before.Revision)
	t.Logf("its rollback took %s", time.Since(began).Round(time.Millisecond))
	if got := names(t, s); !slices.Equal(got, []string{"tenants/x"}) {
		t.Errorf("after the rollback there are %d resources", len(got))
	}
}

func TestRetention(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix).Retain(store.Retention{Revisions: 3})
	var made []int64
	for i := range 8 {
		made = append(made, apply(t, s, puts(pool("api", float64(1+i)))...).Revision)
	}
	all := entries(t, s)
	if len(all) != 3 || all[2].Revision != made[5] {
		t.Fatalf("kept %+v, want the last three of %v", all, made)
	}
	if n := keys(t, client, prefix+"diffs/"); n != 3 {
		t.Errorf("%d keys of changes, want 3", n)
	}
	rollback(t, s, made[4]) // what the oldest entry changed can still be reached
	if _, _, err := s.Undo(t.Context(), made[3]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a revision that is no longer kept: %v", err)
	}

	// An entry whose changes are too large is kept without them, and what is older cannot be
	// reached. All older ones go.
	bytes := entries(t, s)[0].Bytes
	s = store.Open(client, prefix).Retain(store.Retention{Revisions: 100, Bytes: 2 * bytes})
	small := apply(t, s, puts(pool("api", 50))...)
	large := apply(t, s, herd(100, 3)...)
	after := apply(t, s, puts(pool("api", 51))...)
	all = entries(t, s)
	if all[1].Revision != large.Revision || all[1].Parts != 0 || all[1].Created != 200 {
		t.Errorf("the large change: %+v", all[1])
	}
	apply(t, s, puts(pool("api", 52))...)
	rollback(t, s, after.Revision)
	if _, _, err := s.Undo(t.Context(), small.Revision); !errors.Is(err, store.ErrNoHistory) &&
		!errors.Is(err, store.ErrNotFound) {
		t.Errorf("a rollback over changes that are not kept: %v", err)
	}
	total := int64(0)
	for _, e := range entries(t, s) {
		total += e.Bytes
	}
	if total > 2*bytes {
		t.Errorf("%d bytes are kept, want %d at most", total, 2*bytes)
	}

	off := store.Open(client, prefix).Retain(store.Retention{Revisions: -1})
	apply(t, off, puts(pool("api", 60))...)
	if n := keys(t, client, prefix+"diffs/") + keys(t, client, prefix+"changelog/"); n != 0 {
		t.Errorf("%d keys of a history that is off", n)
	}
}

// However often others change things, what administrators changed can be returned to: the changes
// between are put together, and the history keeps to its bound.
func TestMinorChangesArePutTogether(t *testing.T) {
	const kept = 16
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix).Retain(store.Retention{Revisions: kept})
	content := func() map[string]float64 {
		out := map[string]float64{}
		for _, name := range names(t, s) {
			m, err := s.Get(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = m.(*quotav1.Pool).Capacity
		}
		return out
	}
	r := rand.New(rand.NewPCG(3, 4))
	was := map[int64]map[string]float64{} // what administrators' revisions made
	for i := range 150 {
		admin := i%40 == 0
		note := store.Note{Author: fmt.Sprint("editor-", i%2), Minor: !admin}
		change := store.Change{Resource: pool(fmt.Sprint("p", r.IntN(4)), float64(1+i))}
		if r.IntN(4) == 0 {
			change = store.Change{Op: store.Delete, Name: fmt.Sprint("pools/p", r.IntN(4)), AllowMissing: true}
		}
		made, err := s.Apply(t.Context(), note, []store.Change{change})
		if err != nil {
			t.Fatal(err)
		}
		if admin {
			was[made.Revision] = content()
		}
		if n := len(entries(t, s)); n > kept {
			t.Fatalf("after %d changes the history has %d entries, want %d at most", i+1, n, kept)
		}
	}
	all := entries(t, s)
	if n := keys(t, client, prefix+"diffs/"); n != int64(len(all)) {
		t.Errorf("%d keys of changes for %d entries", n, len(all))
	}
	together := 0
	for _, e := range all {
		together = max(together, e.Merged)
	}
	if together < 30 {
		t.Errorf("an entry puts %d changes together at most, want 30 at least", together)
	}
	for revision, want := range was {
		rollback(t, s, revision)
		if got := content(); !maps.Equal(got, want) {
			t.Errorf("revision %d: %v, want %v", revision, got, want)
		}
	}
}

// However large the changes of others are, they take half of the history at most. What they change
// again and again is put together, and what still does not fit is refused.
func TestMinorChangesTakeHalfOfTheBytes(t *testing.T) {
	const most = 64 << 10
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix).Retain(store.Retention{Revisions: 100, Bytes: most})
	first := apply(t, s, puts(pool("api", 1), &quotav1.Tenant{Name: "tenants/acme"})...)
	r := rand.New(rand.NewPCG(5, 6))
	edit := func(id int) error {
		l := &quotav1.Limit{Name: fmt.Sprint("tenants/acme/limits/l", id), Rate: "1/s"}
		for range 40 {
			l.Overrides = append(l.Overrides, &quotav1.InlineOverride{Client: fmt.Sprintf("%x", r.Uint64()), Rate: "2/s"})
		}
		_, err := s.Apply(t.Context(), store.Note{Author: "editor", Minor: true}, puts(l))
		return err
	}
	for i := range 200 {
		if err := edit(i % 3); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	refused := error(nil)
	for i := 0; i < 200 && refused == nil; i++ {
		refused = edit(10 + i)
	}
	if !errors.Is(refused, store.ErrTooLarge) {
		t.Errorf("changes of ever more resources: %v, want ErrTooLarge", refused)
	}
	total := int64(0)
	for _, e := range entries(t, s) {
		total += e.Bytes
	}
	if total > most {
		t.Errorf("the history takes %d bytes, want %d at most", total, most)
	}
	rollback(t, s, first.Revision)
	if got := names(t, s); !slices.Equal(got, []string{"pools/api", "tenants/acme"}) {
		t.Errorf("after the rollback there are %v", got)
	}
}

// A change that was made without an entry is a gap: nothing before it can be reached.
func TestHistoryNoticesGaps(t *testing.T) {
	client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
	s := store.Open(client, prefix)
	first := apply(t, s, puts(pool("api", 1))...)
	apply(t, s, puts(pool("api", 2))...)
	written := map[string]any{} // by a writer that does not keep the account
	got, err := client.Get(t.Context(), prefix+"head")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got.Kvs[0].Value, &written); err != nil {
		t.Fatal(err)
	}
	delete(written, "history")
	written["prev"], written["revision"] = written["revision"], written["revision"].(float64)+1
	head, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), prefix+"head", string(head)); err != nil {
		t.Fatal(err)
	}
	third := apply(t, s, puts(pool("api", 3))...)
	apply(t, s, puts(pool("api", 4))...)
	if len(entries(t, s)) != 4 {
		t.Errorf("history %+v", entries(t, s))
	}
	rollback(t, s, third.Revision)
	if _, _, err := s.Undo(t.Context(), first.Revision); !errors.Is(err, store.ErrNoHistory) {
		t.Errorf("over a change without an entry: %v", err)
	}
	if _, err := s.Accept(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	apply(t, s, puts(pool("api", 5))...)
	if _, _, err := s.Undo(t.Context(), third.Revision); !errors.Is(err, store.ErrNoHistory) {
		t.Errorf("over what titrate recover accepted: %v", err)
	}
}

// A writer that crashed has left a whole entry of a change that is in force, and none of a change
// that is not.
func TestHistoryOfACrash(t *testing.T) {
	for at, visible := range map[store.CrashAt]bool{store.BeforeSwap: false, store.AfterSwap: true,
		store.Midway: true} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			client, prefix := storetest.Shared(t).Client(t), storetest.Prefix(t)
			s := store.Open(client, prefix)
			first := apply(t, s, puts(pool("old", 1), tenant("t00000"))...)
			then := state(t, s)
			if err := s.CrashingApply(t.Context(), envelopes(herd(300, 2)), at); err != nil {
				t.Fatal(err)
			}
			next := store.Open(client, prefix)
			all := entries(t, next)
			if visible != (len(all) == 2) {
				t.Fatalf("history %+v", all)
			}
			if visible && len(changesOf(t, next, all[0])) != 601 {
				t.Errorf("entry %+v without all its changes", all[0])
			}
			apply(t, next, puts(pool("new", 1))...)
			rollback(t, next, first.Revision)
			if !equal(state(t, next), then) {
				t.Errorf("after the rollback: %d resources, want %d", len(state(t, next)), len(then))
			}
		})
	}
}

// Writers with a store each leave a chain without a gap.
func TestConcurrentWritersLeaveOneHistory(t *testing.T) {
	etcd, prefix := storetest.Shared(t), storetest.Prefix(t)
	first := apply(t, store.Open(etcd.Client(t), prefix), puts(pool("api", 1))...)
	const writers, steps = 4, 10
	var running sync.WaitGroup
	for w := range writers {
		s := store.Open(etcd.Client(t), prefix)
		running.Go(func() {
			for i := range steps {
				var err error
				if i == 5 {
					_, err = s.Apply(t.Context(), store.Note{}, herd(80, float64(2+w)))
				} else {
					_, err = s.Apply(t.Context(), store.Note{}, puts(pool("api", float64(10+w*steps+i))))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	s := store.Open(etcd.Client(t), prefix)
	all := entries(t, s)
	if len(all) != 1+writers*steps {
		t.Errorf("%d entries of %d changes", len(all), 1+writers*steps)
	}
	for i := range all[:len(all)-1] {
		if all[i].Previous != all[i+1].Revision {
			t.Errorf("revision %d says that it changed %d, before it is %d", all[i].Revision, all[i].Previous,
				all[i+1].Revision)
		}
	}
	rollback(t, s, first.Revision)
	if got := names(t, s); !slices.Equal(got, []string{"pools/api"}) {
		t.Errorf("after the rollback to the first revision: %d resources", len(got))
	}
}

// Compaction of etcd takes nothing from the history; a restored backup has the history of its
// time, and what follows goes on from there.
func TestHistoryOfARestoredEtcd(t *testing.T) {
	c := newCluster(t)
	s := store.Open(c.etcd.Client(t), "")
	first := apply(t, s, puts(pool("api", 1))...)
	second := apply(t, s, puts(pool("api", 2))...)
	client := c.etcd.Client(t)
	got, err := client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), got.Header.Revision); err != nil {
		t.Fatal(err)
	}
	if all := entries(t, s); len(all) != 2 || len(changesOf(t, s, all[0])) != 1 {
		t.Errorf("after a compaction: %+v", all)
	}
	backup := c.backup()
	batches := s.Watch(t.Context(), store.Snapshot{})
	next(t, batches)
	lost := apply(t, s, puts(pool("api", 3))...)
	next(t, batches)
	c.replace(backup)
	next(t, batches) // the watch has raised the revision
	apply(t, s, puts(pool("api", 4))...)
	all := entries(t, s)
	if len(all) != 3 || all[0].Previous != second.Revision ||
		slices.ContainsFunc(all, func(e store.Entry) bool { return e.Revision == lost.Revision }) {
		t.Errorf("history after the restore: %+v", all)
	}
	rollback(t, s, first.Revision)
	if m, err := s.Get(t.Context(), "pools/api"); err != nil || m.(*quotav1.Pool).Capacity != 1 {
		t.Errorf("after the rollback: %v (%v)", m, err)
	}
}

func TestSetsOwnResources(t *testing.T) {
	s := storetest.Open(t)
	a, b := "a", "b"
	apply(t, s, store.Change{Resource: pool("api", 1), Set: &a})
	if m, err := s.Get(t.Context(), "pools/api"); err != nil || m.GetSet() != "a" {
		t.Fatalf("owner %q (%v)", m.GetSet(), err)
	}
	apply(t, s, puts(pool("api", 2))...) // a change without a set leaves the owner
	refused(t, s, store.ErrOwned, 0, store.Change{Resource: pool("api", 3), Set: &b})
	apply(t, s, store.Change{Op: store.Delete, Name: "pools/none", AllowMissing: true})
	if m, err := s.Get(t.Context(), "pools/api"); err != nil || m.GetSet() != "a" || m.(*quotav1.Pool).Capacity != 2 {
		t.Errorf("%v (%v)", m, err)
	}
	r := apply(t, s, store.Change{Resource: pool("api", 2), Set: &b, TakeOver: true, Declared: true})
	if r.Outcomes[0] != store.Updated || r.Resources[0].GetSet() != "b" {
		t.Errorf("a change of the owner alone: %+v", r)
	}
}

// keys counts keys under a prefix.
func keys(t *testing.T, client *clientv3.Client, prefix string) int64 {
	t.Helper()
	got, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return got.Count
}
