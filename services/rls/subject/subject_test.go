package subject

import (
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

// Entries say whose request it is, by the names that limits use.
func TestAdd(t *testing.T) {
	names, unused := Names(&config.Config{
		Defaults: []config.Limit{{Name: "a", Rate: 1, Plans: map[string]config.RateBurst{"gold": {Rate: 9}}},
			{Name: "d", Rate: 1, RequestedRate: config.RateBounds{Least: 1, Most: 9, Per: 1}}},
		Plans: []config.Tenant{{Name: "p", Limits: []config.Limit{{Name: "b", Rate: 1, Identity: "user"}}}},
		Tenants: []config.Tenant{{Name: "t", Limits: []config.Limit{{Name: "c", Rate: 1, Identity: "user",
			Classes: []string{"heavy"}}}}},
	})
	if unused != 0 {
		t.Fatalf("%d names have no place", unused)
	}
	r := New(&names)
	for _, e := range [][2]string{{"tenant", "acme"}, {"client", "bob"}, {"pool", "api"}, {"class", "heavy"},
		{"class", "other"}, {"user", "eve"}, {"plan", "gold"}, {"requested_rate", "5/s"}, {"nothing", "x"}} {
		r.Add(e[0], e[1])
	}
	plan, user, rate := -1, -1, -1
	for i, name := range names.Identities {
		switch name {
		case config.PlanIdentity:
			plan = i
		case "user":
			user = i
		case config.RateIdentity:
			rate = i
		}
	}
	if plan < 0 || user < 0 || rate < 0 {
		t.Fatalf("identities %v", names.Identities)
	}
	want := limiter.Identities{}
	want[plan], want[user], want[rate] = "gold", "eve", "5/s"
	if r.Tenant != "acme" || r.Client != "bob" || r.Pool != "api" || r.Classes != 1 || *r.Identities != want {
		t.Errorf("%+v with %v", r.Request, *r.Identities)
	}
}
