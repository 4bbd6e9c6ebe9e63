package coordinator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/store/storetest"
)

// Three coordinators of two sites share the pools. Each pool is led at the site where most of its demand is. When
// demand swings for a moment no pool moves, when it stays elsewhere its pool moves. When the only coordinator of a
// site ends, others lead its pools, until it is back.
func TestPoolsAreLedAtTheirSites(t *testing.T) {
	etcd, prefix := storetest.Shared(t), strings.TrimSuffix(storetest.Prefix(t), "/")
	begin := func(name, site string) *running {
		return startWith(t, etcd.Endpoint, prefix, name, insecure.NewCredentials(), func(c *coordinator.Config) {
			c.SharePools, c.Settle, c.Round = true, 300*time.Millisecond, 100*time.Millisecond
			c.Site, c.SiteSettle = site, 3*time.Second
		})
	}
	eu1 := begin("eu-1", "eu")
	pools, resources := sharedPools()
	eu1.apply(resources...)
	begin("eu-2", "eu")
	us := begin("us-1", "us")
	half := pools[:4] // their demand is at us, that of the others at eu
	x := joinShared(t, "x", "a", 600, pools, eu1.c.Address())
	y := joinShared(t, "y", "b", 600, pools, eu1.c.Address())
	x.note(func() { x.site, x.quiet = "eu", half })
	y.note(func() { y.site, y.quiet = "us", pools[4:] })
	ledAtHome := func(a *sharedAgent, us string) func() bool {
		return func() bool {
			return !slices.ContainsFunc(pools, func(p string) bool {
				return a.held[p].from == "" || slices.Contains(half, p) != (a.held[p].from == us)
			})
		}
	}
	for _, a := range []*sharedAgent{x, y} {
		a.until("is led at the pools' sites", ledAtHome(a, us.c.Address()))
	}
	said, _ := us.quota().Check(t.Context(), &quotav1.CheckRequest{})
	if !strings.Contains(fmt.Sprint(said), "us-1 of site us leads 4") {
		t.Errorf("check: %v", said)
	}
	list, err := eu1.quota().ListPools(t.Context(), &quotav1.ListPoolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.GetPools() {
		want := "eu"
		if slices.Contains(half, strings.TrimPrefix(p.GetName(), "pools/")) {
			want = "us"
		}
		if got := p.GetStatus().GetSite(); got != want {
			t.Errorf("%s: site %q, want %q", p.GetName(), got, want)
		}
	}
	// All demand goes to eu for less than SiteSettle.
	before := x.epochNow()
	x.note(func() { x.quiet = nil })
	y.note(func() { y.quiet = pools })
	time.Sleep(2 * time.Second)
	x.note(func() { x.quiet = half })
	y.note(func() { y.quiet = pools[4:] })
	time.Sleep(2 * time.Second)
	if now := x.epochNow(); now != before || !ledAtHome(x, us.c.Address())() {
		t.Errorf("a moment of demand elsewhere moved pools: epoch %d, then %d", before, now)
	}
	us.end()
	for _, a := range []*sharedAgent{x, y} {
		a.until("is led by the other site", func() bool {
			return !slices.ContainsFunc(pools, func(p string) bool {
				return a.held[p].epoch <= before || a.held[p].from == us.c.Address()
			})
		})
	}
	if _, metrics := eu1.get("/metrics"); !strings.Contains(metrics, "titrate_pools_led_away ") {
		t.Error("no metric says that pools are led away from their site")
	}
	again := begin("us-1", "us")
	for _, a := range []*sharedAgent{x, y} {
		a.until("is led at its site again", ledAtHome(a, again.c.Address()))
	}
	// The demand of one of the pools stays elsewhere.
	x.note(func() { x.quiet = half[1:] })
	y.note(func() { y.quiet = append(slices.Clone(pools[4:]), half[0]) })
	x.until("is led by eu in the pool that moved", func() bool {
		return x.held[half[0]].from != again.c.Address() && x.held[half[1]].from == again.c.Address()
	})
}
