package lastgood

import (
	"errors"
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
		if err := Save(dir, want); err != nil {
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
	if err := Save(filepath.Join(t.TempDir(), "missing"), sample(1)); err == nil {
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
