package limiter

import (
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
)

// An owner finds the hash and the numbers that gateways go by, of each kind of limit; not of a limit that
// owners do not hold.
func TestExactKeyIsTheGateways(t *testing.T) {
	overridden := exactly("overridden", 2, 4)
	overridden.Overrides = map[string]config.RateBurst{"vip": {Rate: 7, Burst: 9}}
	whole := exactly("whole", 3, 6)
	whole.PerTenant, whole.Strict = true, true
	unstated := config.Limit{Name: "unstated", Rate: 5}
	local := config.Limit{Name: "local", Rate: 5, Precision: config.Local}
	c := &config.Config{Seed: 42, Defaults: []config.Limit{unstated, exactly("whole", 99, 99)},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{overridden, whole, local, exactly("none", 0, 1)}}}}
	e := New(Options{Keys: 16})
	mustApply(t, e, c)
	var in config.Set
	in.Replace(c)
	for _, l := range e.snap.Load().tenants["acme"].limits {
		for _, client := range []string{"vip", "other", ""} {
			k := l.tokenKey("", client)
			key, p, ok := ExactKey(&in, 0, &exchange.KeyName{Tenant: k.Tenant, Limit: k.Limit, Client: k.Client})
			if held := l.name != "local" && l.name != "none"; ok != held {
				t.Errorf("%s: found %v", l.name, ok)
			} else if held && (key != k.Hash || p != grant.Params{Rate: k.Rate, Burst: int64(k.Burst * grant.Token),
				Strict: k.Strict}) {
				t.Errorf("%s of %q: %x %+v, the gateway has %+v", l.name, client, key, p, k)
			}
		}
	}
	for _, n := range []exchange.KeyName{{Tenant: "acme", Limit: "nobody's"}, {Tenant: "other", Limit: "whole"},
		{Tenant: "acme", Limit: "whole", Client: "vip"}} {
		if _, _, ok := ExactKey(&in, 0, &n); ok {
			t.Errorf("%+v is found", n)
		}
	}
}
