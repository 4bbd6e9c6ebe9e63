package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

func TestReadAnObject(t *testing.T) {
	o := &object{Kind: "Quota", Name: "tenants/acme/quotas/api", Spec: json.RawMessage(`{"guaranteed":20,"max":200}`)}
	m, err := o.read()
	if err != nil {
		t.Fatal(err)
	}
	if q := m.(*quotav1.Quota); q.GetName() != o.Name || q.GetGuaranteed() != 20 || q.GetMax() != 200 {
		t.Errorf("%v", q)
	}
	o = &object{Kind: "Limit", Name: "tenants/acme/limits/in-flight", Spec: json.RawMessage(`{"concurrency":20}`)}
	if m, err = o.read(); err != nil || m.(*quotav1.Limit).GetConcurrency() != 20 {
		t.Errorf("%v, %v", m, err)
	}
}

// A message names the wrong field and a right value, and has no line numbers.
func TestWrongObjects(t *testing.T) {
	for want, o := range map[string]*object{
		"spec.rate: ":     {Kind: "Limit", Name: "tenants/-/limits/a", Spec: json.RawMessage(`{"rate":"fast"}`)},
		"spec.burst: ":    {Kind: "Limit", Name: "tenants/-/limits/a", Spec: json.RawMessage(`{"rate":"1/s","burst":-1}`)},
		"name: ":          {Kind: "Pool", Name: "api", Spec: json.RawMessage(`{"capacity":1}`)},
		"spec.capacity: ": {Kind: "Pool", Name: "pools/api"},
	} {
		_, err := o.read()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ":1: ") {
			t.Errorf("%s %s: %v, want %q", o.Name, o.Spec, err, want)
		}
	}
}

// The oldest object that is not being deleted stands for a resource.
func TestOwners(t *testing.T) {
	now := time.Now()
	made := func(uid string, age time.Duration, gone bool) *object {
		o := &object{Name: "pools/api", kind: resource.Pool, Metadata: metadata{UID: uid, CreationTimestamp: now.Add(-age)}}
		if gone {
			o.Metadata.DeletionTimestamp = &now
		}
		return o
	}
	older, young, twin := made("b", time.Hour, false), made("a", time.Minute, false), made("c", time.Hour, false)
	all := []*object{young, twin, older, made("d", 2*time.Hour, true)}
	inOrder(all)
	if owner := owners(all)[older.id()]; owner != older {
		t.Errorf("owner %s, want b", owner.Metadata.UID)
	}
	wrong := &object{Name: "pools/api", kind: resource.Tenant} // Invalid
	if all := owners([]*object{wrong, young}); all[young.id()] != young {
		t.Error("an object of another kind stands for a pool")
	}
	if len(owners([]*object{made("d", 0, true)})) != 0 {
		t.Error("an object that is being deleted is an owner")
	}
}
