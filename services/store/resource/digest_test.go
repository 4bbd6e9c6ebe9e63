package resource_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// A digest depends on the set alone, not on how it came to be; another set has another one.
func TestDigestIsThatOfTheSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, digest := map[string]*quotav1.Resource{}, resource.Digest(0)
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			name := fmt.Sprintf("tenants/t%d", rapid.IntRange(0, 5).Draw(t, "tenant"))
			var now *quotav1.Resource
			if rapid.Bool().Draw(t, "put") {
				now = resource.Of(&quotav1.Tenant{Name: name, Weight: float64(rapid.IntRange(1, 3).Draw(t, "weight"))})
			}
			digest = digest.Replace(set[name], now)
			if set[name] = now; now == nil {
				delete(set, name)
			}
		}
		if want := digestOf(t, set); digest != want {
			t.Fatalf("%x after the changes, %x of %v", digest, want, set)
		}
		if len(set) == 0 {
			return
		}
		other := maps.Clone(set)
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(set))).Draw(t, "other")
		other[name] = proto.Clone(set[name]).(*quotav1.Resource)
		other[name].GetTenant().Etag += "1"
		if digestOf(t, other) == digest {
			t.Fatalf("%x is also that of %v", digest, other)
		}
	})
}

// digestOf is the digest of a set that was written and read again.
func digestOf(t *rapid.T, set map[string]*quotav1.Resource) (d resource.Digest) {
	for _, r := range set {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again := &quotav1.Resource{}
		if err := proto.Unmarshal(b, again); err != nil {
			t.Fatal(err)
		}
		d = d.Replace(nil, again)
	}
	return d
}
