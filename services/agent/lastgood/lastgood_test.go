package lastgood

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"google.golang.org/protobuf/proto"
)

func sample(revision int64) Snapshot {
	return Snapshot{
		Configuration: &controlv1.Configuration{Revision: revision, Full: true, Seed: 3, Resources: []*quotav1.Resource{
			{Kind: &quotav1.Resource_Pool{Pool: &quotav1.Pool{Name: "pools/api", Capacity: 9}}}}},
		Leases: &controlv1.Leases{Epoch: 4, Leases: []*controlv1.Lease{{Tenant: "a", Pool: "api", Share: 5}}},
	}
}

func TestSaveLoad(t *testing.T) {
	dir := t.TempDir()
	if s, err := Load(dir); s != nil || err != nil {
		t.Fatalf("empty directory: %v, %v", s, err)
	}
	for revision := range int64(3) {
		want := sample(revision)
		if revision == 1 {
			want.Leases = nil
		}
		if err := NewKeeper(dir).Save(want); err != nil {
			t.Fatal(err)
		}
		got, err := Load(dir)
		if err != nil || !proto.Equal(got.Configuration, want.Configuration) || !proto.Equal(got.Leases, want.Leases) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v left, %v: want one file", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestSaveFailsWhole(t *testing.T) {
	if err := NewKeeper(filepath.Join(t.TempDir(), "missing")).Save(sample(1)); err == nil {
		t.Error("no error for a missing directory")
	}
}

// Whatever bit flips, wherever it is cut: refused, and kept aside.
func TestDamage(t *testing.T) {
	whole, err := encode(sample(1))
	if err != nil {
		t.Fatal(err)
	}
	var cases [][]byte
	for i := range whole {
		flipped := append([]byte(nil), whole...)
		flipped[i] ^= 0x10
		cases = append(cases, flipped, whole[:i])
	}
	dir := t.TempDir()
	for i, b := range cases {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(dir)
		if damaged := new(DamagedError); s != nil || !errors.As(err, &damaged) {
			t.Fatalf("case %d: %v, %v, want a DamagedError", i, s, err)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, damage)); err != nil || string(kept) != string(b) {
			t.Fatalf("case %d: the damaged file is lost: %v", i, err)
		}
		if s, err := Load(dir); s != nil || err != nil {
			t.Fatalf("case %d: second load: %v, %v", i, s, err)
		}
	}
}

// tenant returns a resource that is recognised by its weight.
func tenant(name string, weight float64) *quotav1.Resource {
	return &quotav1.Resource{Kind: &quotav1.Resource_Tenant{Tenant: &quotav1.Tenant{Name: "tenants/" + name,
		Weight: weight}}}
}

// changed keeps sample(1), three changes of it and new leases, and returns what is kept.
func changed(t *testing.T, dir string) (k *Keeper, want Snapshot) {
	t.Helper()
	k = NewKeeper(dir)
	t.Cleanup(k.Close)
	if !k.Full() {
		t.Error("nothing is kept, and a change can be added")
	}
	if err := k.Add(nil, nil); err == nil {
		t.Error("a change of nothing is added")
	}
	if err := k.Save(sample(1)); err != nil || k.Full() {
		t.Fatal(err)
	}
	want = sample(4)
	want.Configuration.Last, want.Configuration.Epoch = true, 6
	want.Configuration.Resources = append(want.Configuration.Resources, tenant("a", 2), tenant("c", 1))
	want.Leases.Epoch = 5
	first := []*controlv1.Configuration{
		{Revision: 2, Seed: 3, Resources: []*quotav1.Resource{tenant("a", 1), tenant("b", 1)}},
		{Revision: 3, Seed: 3, Resources: []*quotav1.Resource{tenant("a", 2)}, Deleted: []string{"tenants/b"}},
	}
	if err := k.Add(first, nil); err != nil {
		t.Fatal(err)
	}
	last := []*controlv1.Configuration{{Revision: 4, Seed: 3, Epoch: 6, Resources: []*quotav1.Resource{tenant("c", 1)}}}
	if err := k.Add(last, want.Leases); err != nil {
		t.Fatal(err)
	}
	return k, want
}

func same(a *Snapshot, b Snapshot) bool {
	return a != nil && proto.Equal(a.Configuration, b.Configuration) && proto.Equal(a.Leases, b.Leases)
}

func TestChangesAreKept(t *testing.T) {
	dir := t.TempDir()
	k, want := changed(t, dir)
	if got, err := Load(dir); err != nil || !same(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	// Of a crash between the new snapshot and the end of the old changes.
	b, err := os.ReadFile(filepath.Join(dir, changesName))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Save(sample(7)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, changesName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(dir); err != nil || !same(got, sample(7)) {
		t.Fatalf("got %v, %v", got, err)
	}
	leases := sample(1).Leases
	for i := range 10_000 {
		leases.Leases = append(leases.Leases, &controlv1.Lease{Tenant: "a", Share: float64(i)})
	}
	for !k.Full() { // until the changes take more room than the snapshot
		if err := k.Add(nil, leases); err != nil {
			t.Fatal(err)
		}
		if k.bytes > 2*leastChanges {
			t.Fatalf("%d bytes of changes to a snapshot of %d", k.bytes, k.size)
		}
	}
}

// Wherever a crash has cut the file of changes, what was written before counts. A bit that
// flips is noticed, and the file is kept aside.
func TestDamagedChanges(t *testing.T) {
	dir := t.TempDir()
	_, want := changed(t, dir)
	path := filepath.Join(dir, changesName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	revision := int64(0)
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(dir)
		if err != nil || got.Configuration.GetRevision() < revision {
			t.Fatalf("cut at %d of %d: %v, %v", n, len(whole), got, err)
		}
		revision = got.Configuration.GetRevision()
		if n == len(whole) && !same(got, want) {
			t.Fatalf("the whole: %v, want %v", got, want)
		}
	}
	for i := changesHead + recordHead; i < len(whole); i++ {
		flipped := append([]byte(nil), whole...)
		flipped[i] ^= 0x10
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(dir)
		if got == nil || got.Configuration.GetRevision() > want.Configuration.GetRevision() {
			t.Fatalf("flipped at %d: %v, %v", i, got, err)
		}
		damaged := new(DamagedError)
		if same(got, want) || err != nil && !errors.As(err, &damaged) {
			t.Fatalf("flipped at %d: %v, %v", i, got, err)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, changesDamage)); damaged.Path != "" &&
			(err != nil || string(kept) != string(flipped)) {
			t.Fatalf("flipped at %d: the damaged file is lost: %v", i, err)
		}
	}
}

// A change of one tenant, added to the snapshot of so many.
func BenchmarkKeep(b *testing.B) {
	for _, tenants := range []int{1e3, 1e4, 1e5} {
		s := sample(1)
		for i := range tenants {
			s.Configuration.Resources = append(s.Configuration.Resources, tenant(fmt.Sprintf("t%06d", i), 1))
		}
		k := NewKeeper(b.TempDir())
		b.Cleanup(k.Close)
		b.Run(fmt.Sprintf("whole/tenants=%d", tenants), func(b *testing.B) {
			for b.Loop() {
				if err := k.Save(s); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("change/tenants=%d", tenants), func(b *testing.B) {
			one := []*controlv1.Configuration{{Revision: 2, Resources: []*quotav1.Resource{tenant("t000007", 2)}}}
			for b.Loop() {
				if err := k.Add(one, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzApplyRecords(f *testing.F) {
	b, err := records([]*controlv1.Configuration{{Revision: 2, Resources: []*quotav1.Resource{tenant("a", 1)}}},
		&controlv1.Leases{Epoch: 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(append([]byte(changesMagic), make([]byte, 32)...), b...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < changesHead {
			return
		}
		s := sample(1)
		if got, _ := applyRecords(&s, b); got == nil || got.Configuration == nil {
			t.Fatal("the snapshot is gone")
		}
	})
}

func FuzzDecode(f *testing.F) {
	whole, err := encode(sample(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decode(b)
		if (s == nil) == (err == nil) {
			t.Fatalf("%v, %v", s, err)
		}
	})
}
