package coordinator

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/fleet"
	"github.com/titrate/titrate/services/coordinator/leadership"
)

// Each thing that can be wrong is found in its category, with advice, and nothing else is.
func TestFindings(t *testing.T) {
	const ok, warning, bad = quotav1.Finding_OK, quotav1.Finding_WARNING, quotav1.Finding_FAILED
	healthy := func() *facts {
		return &facts{known: true, config: &allocation.Config{Revision: 7, Pools: []allocation.Pool{{Name: "api"}}},
			election: election.State{Role: election.Leading, Epoch: 3}, agents: 2,
			view: leadership.View{Members: 2, Outcome: &allocation.Outcome{
				Pools: []allocation.PoolShare{{Pool: "api", GuaranteeScale: 1}}}}}
	}
	for _, c := range []struct {
		name     string
		spoil    func(*facts)
		category string
		want     quotav1.Finding_State
	}{
		{"healthy", func(*facts) {}, "", ok},
		{"no etcd", func(f *facts) { f.etcd = errors.New("gone") }, "etcd", bad},
		{"etcd restored", func(f *facts) { f.trouble.Lost = 1 }, "etcd", warning},
		{"held", func(f *facts) { f.trouble = config.Trouble{Held: "gone"} }, "configuration", bad},
		{"not read", func(f *facts) { f.known = false }, "configuration", bad},
		{"not followed", func(f *facts) { f.astray = errors.New("permission denied") }, "configuration", bad},
		{"unreadable", func(f *facts) { f.trouble.Unreadable = []string{"pools/x"} }, "configuration", bad},
		{"empty", func(f *facts) { f.config.Pools = nil }, "configuration", warning},
		{"no certificates", func(f *facts) { f.unknown = true }, "security", warning},
		{"no agents' certificates", func(f *facts) { f.anyAgent = true }, "security", warning},
		{"expired", func(f *facts) { f.files = errors.New("expired") }, "security", bad},
		{"expires soon", func(f *facts) { f.expires = errors.New("expires") }, "security", warning},
		{"orphaned", func(f *facts) { f.election.Role = election.Orphaned }, "leader", bad},
		{"no leader", func(f *facts) { f.election = election.State{} }, "leader", bad},
		{"another leads", func(f *facts) { f.election = election.State{Leader: "there:1"} }, "", ok},
		{"shared", func(f *facts) { f.election.Sharing = &election.Sharing{} }, "", ok},
		{"not shared", func(f *facts) { f.alone = errors.New("an older agent") }, "leader", warning},
		{"one of the sharers is silent", func(f *facts) { f.silent = errors.New("no answer") }, "leader", bad},
		{"no agents", func(f *facts) { f.agents = 0 }, "gateways", warning},
		{"no gateways", func(f *facts) { f.view.Members = 0 }, "gateways", warning},
		{"stale", func(f *facts) { f.view.Stale = true }, "gateways", bad},
		{"refusing", func(f *facts) { f.fleet = fleet.Summary{Refusing: 1, First: errors.New("no")} }, "gateways", bad},
		{"left out", func(f *facts) { f.fleet = fleet.Summary{LeftOut: 1, First: errors.New("no")} }, "gateways", warning},
		{"unknown names", func(f *facts) { f.names = []string{"limits/a: no."} }, "gateways", warning},
		{"late", func(f *facts) { f.late = []*quotav1.Gateway{{Name: "gw-1", Behind: 2}} }, "gateways", warning},
		{"lost", func(f *facts) {
			f.lost = []*quotav1.Gateway{{Name: "gw-1", Agent: "gw-1", Heard: timestamppb.Now()}}
		}, "gateways", warning},
		{"several sites", func(f *facts) {
			f.sites = []fleet.Site{{Name: "eu", Agents: 1, Others: []fleet.OtherSite{{Name: "us", Way: 4e7}}}, {Name: "us"}}
		}, "", ok},
		{"a site is cut off", func(f *facts) {
			f.sites = []fleet.Site{{Name: "eu", Agents: 2, Others: []fleet.OtherSite{{Name: "us", Cut: 1}}}}
		}, "sites", warning},
		{"a gateway without a site among sites", func(f *facts) {
			f.sites = []fleet.Site{{Agents: 1, Gateways: []string{"gw-1"}}, {Name: "eu", Agents: 1}}
		}, "sites", warning},
		{"agents of a site are far", func(f *facts) {
			f.sites = []fleet.Site{{Name: "eu", Agents: 2, Far: 2, Why: "3ms to a"}, {Name: "us"}}
		}, "sites", warning},
		{"agents of one site are far", func(f *facts) {
			f.sites = []fleet.Site{{Agents: 2, Gateways: []string{"gw-1"}, Far: 2, Why: "3ms to a"}}
		}, "", ok},
		{"lapsed", func(f *facts) { f.lapsed = []string{"tenants/a/limits/b: it has lapsed"} }, "", ok},
		{"suspects", func(f *facts) { f.view.Outcome.Suspects = []allocation.Suspect{{Agent: "a"}} }, "gateways", warning},
		{"guarantees", func(f *facts) { f.view.Outcome.Pools[0].GuaranteeScale = .5 }, "pools", warning},
	} {
		f := healthy()
		c.spoil(f)
		f.pools = poolFindings(&f.view)
		for _, got := range f.findings() {
			want := ok
			if got.GetCategory() == c.category {
				want = c.want
			}
			if got.GetState() != want || (want == ok) != (got.GetAdvice() == "") {
				t.Errorf("%s: %v", c.name, got)
			}
		}
	}
}

// A slow pair between sites is named, and is no fault.
func TestSitesAreNamed(t *testing.T) {
	f := &facts{sites: []fleet.Site{
		{Name: "eu", Agents: 1, Gateways: []string{"gw-1"}, Others: []fleet.OtherSite{{Name: "us", Way: 4e7}}},
		{Name: "us", Agents: 1, Gateways: []string{"gw-2", "gw-3"}, Others: []fleet.OtherSite{{Name: "eu", Way: 4e7}}}}}
	const want = "site eu with 1 gateway, site us with 2 gateways; one way 40ms from site eu to site us; only ways " +
		"between sites are long"
	if got := f.ofSites(); len(got) != 1 || got[0].GetMessage() != want {
		t.Errorf("%v, want %s", got, want)
	}
	if got := (&facts{sites: []fleet.Site{{Agents: 3}}}).ofSites(); len(got) > 0 {
		t.Errorf("%v of one site without a name", got)
	}
}
