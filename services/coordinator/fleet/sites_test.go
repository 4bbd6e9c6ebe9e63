package fleet

import (
	"fmt"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Gateways have the sites of their agents, also of lost ones, and what agents of a site say of others is summed.
func TestSites(t *testing.T) {
	f := &Fleet{}
	report := func(agent, site string, far bool, others ...*controlv1.OtherSite) {
		report(f, start, agent, &controlv1.State{Site: site, Far: far, ExactWhy: agent, Sites: others,
			Gateways: []*controlv1.GatewayState{{Name: "gw-" + agent}}})
	}
	us := func(reachable bool, way time.Duration) *controlv1.OtherSite {
		return &controlv1.OtherSite{Name: "us", Reachable: reachable, Way: durationpb.New(way)}
	}
	report("a", "eu", false, &controlv1.OtherSite{Name: "ap", Reachable: true}, us(true, 40*time.Millisecond))
	report("b", "eu", true, us(false, 41*time.Millisecond))
	report("c", "", false)
	report("lost", "us", false)
	f.Hello("d", func() []string { return []string{"a", "b", "c", "d"} })
	connected := []string{"a", "b", "c"}
	const want = "[{ 1 [gw-c] 0  []} {eu 2 [gw-a gw-b] 1 b [{ap 0 0s} {us 1 41ms}]}]"
	if got := fmt.Sprint(f.Sites(connected)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	of := f.SiteOf(connected)
	for gateway, want := range map[string]string{"gw-a": "eu", "gw-c": "", "gw-lost": "us", "none": ""} {
		if got := of(gateway); got != want {
			t.Errorf("%s is of site %q, want %q", gateway, got, want)
		}
	}
}
