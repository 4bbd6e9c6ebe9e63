package toplist_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/toplist"
)

// gateway is the row of a tenant at one gateway, with parts.
func gateway(clientLimit uint64) *quotav1.Activity {
	return &quotav1.Activity{Tenant: "acme", Admitted: 30, Refused: 12, ClientLimit: clientLimit,
		TenantShare: 12 - clientLimit, AdmittedParts: []uint64{10, 20}, RefusedParts: []uint64{4, 8},
		NewestPart: durationpb.New(5 * time.Second), Window: durationpb.New(time.Minute)}
}

// A sum of requests of which some have no parts has none: parts of one gateway are not taken for those of all.
func TestPartsOfSomeAreNotThoseOfAll(t *testing.T) {
	limited, client := gateway(1), &quotav1.Activity{Refused: 3}
	toplist.OfShare(limited)
	idle := &quotav1.Activity{Waited: 1, Window: durationpb.New(time.Minute)} // no request that parts would count
	for _, c := range []struct {
		name string
		rows []*quotav1.Activity
		want string
	}{
		{"all have parts", []*quotav1.Activity{gateway(0), idle, gateway(0)}, "[20 40] [8 16] 15s"},
		{"the first has none", []*quotav1.Activity{limited, gateway(0)}, "[] [] 0s"},
		{"the second has none", []*quotav1.Activity{gateway(0), limited}, "[] [] 0s"},
		{"more follow", []*quotav1.Activity{gateway(0), client, gateway(0), gateway(0)}, "[] [] 0s"},
	} {
		var sum *quotav1.Activity
		for _, m := range c.rows {
			sum = toplist.Plus(sum, toplist.Copy(m))
		}
		_, _, window := toplist.Recent(sum)
		if got := fmt.Sprint(sum.AdmittedParts, sum.RefusedParts, window); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if known := c.want[:2] != "[]"; known != (sum.NewestPart != nil) {
			t.Errorf("%s: the newest part has lasted for %v", c.name, sum.NewestPart)
		}
	}
}
