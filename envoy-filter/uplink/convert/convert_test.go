package convert

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
)

// The engine's and the link's enumerations have the same names.
func TestNames(t *testing.T) {
	for name, v := range laws {
		if name != "" && v.String() != string(name) {
			t.Errorf("law %s is %s in the engine", name, v)
		}
	}
	for name, v := range modes {
		if name != "" && v.String() != string(name) {
			t.Errorf("mode %s is %s in the engine", name, v)
		}
	}
	for name, v := range losses {
		if name != "" && v.String() != string(name) {
			t.Errorf("on_loss %s is %s in the engine", name, v)
		}
	}
	if limiter.Connected != limiter.Isolation(link.Connected) || limiter.Frozen != limiter.Isolation(link.Frozen) ||
		limiter.Split != limiter.Isolation(link.Split) {
		t.Error("isolation differs")
	}
}

func TestConfigConverts(t *testing.T) {
	in := &link.Config{
		Revision: 1, Seed: 2,
		Pools: []link.Pool{{Name: "api", Capacity: 3, Queue: link.Queue{Law: link.Police, DelayTarget: 4, MaxWait: 5, MaxRequests: 6}, OnLoss: link.SafeRate, HardExpiry: 7}},
		Tenants: []link.Tenant{{Name: "acme", Weight: 8,
			Limits: []link.Limit{{Name: "l", PerTenant: true, Rate: 9, Burst: 10, Pools: []string{"api"}, Overrides: map[string]link.RateBurst{"bob": {Rate: 11, Burst: 12}}, Queue: link.Queue{Law: link.DropTail}, Mode: link.Shadow, Strict: true, Identity: "ip", Classes: []string{"writes"}}},
			Quotas: []link.Quota{{Pool: "api", Guaranteed: 13, Max: math.Inf(1), Mode: link.Off}}}},
	}
	want := &limiter.Config{
		Revision: 1, Seed: 2,
		Pools: []limiter.Pool{{Name: "api", Capacity: 3, Queue: limiter.Queue{Law: limiter.Police, DelayTarget: 4, MaxWait: 5, MaxRequests: 6}, OnLoss: limiter.SafeRate, HardExpiry: 7}},
		Tenants: []limiter.Tenant{{Name: "acme", Weight: 8,
			Limits: []limiter.Limit{{Name: "l", PerTenant: true, Rate: 9, Burst: 10, Pools: []string{"api"}, Overrides: map[string]limiter.RateBurst{"bob": {Rate: 11, Burst: 12}}, Queue: limiter.Queue{Law: limiter.DropTail}, Mode: limiter.Shadow, Strict: true, Identity: "ip", Classes: []string{"writes"}}},
			Quotas: []limiter.Quota{{Pool: "api", Guaranteed: 13, Max: limiter.Unbounded, Mode: limiter.Off}}}},
	}
	if got, left, err := Config(in); err != nil || left != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v, %v", got, left, err)
	}
}

// What a newer agent may send is left out limit by limit, and said.
func TestUnknownIsLeftOut(t *testing.T) {
	in := &link.Config{
		Pools: []link.Pool{{Name: "api", Capacity: 3}},
		Tenants: []link.Tenant{{Name: "acme",
			Limits: []link.Limit{{Name: "loud", Mode: "LOUD"}, {Name: "kept"}, {Name: "daily", Unknown: "days"}},
			Quotas: []link.Quota{{Pool: "api", Unknown: "mean"}, {Pool: "db", Mode: "LOUD"}, {Pool: "web"}}}},
	}
	got, left, err := Config(in)
	if err != nil || len(got.Tenants[0].Limits) != 1 || got.Tenants[0].Limits[0].Name != "kept" ||
		len(got.Tenants[0].Quotas) != 1 || got.Tenants[0].Quotas[0].Pool != "web" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := [][2]string{{"loud", `tenant acme, limit loud.mode: "LOUD"`}, {"daily", `"days"`}, {"quotas/api", `"mean"`}, {"quotas/db", `"LOUD"`}}
	if len(left) != len(want) {
		t.Fatalf("left out %v", left)
	}
	for i, w := range want {
		if l := left[i]; l.Tenant != "acme" || l.Limit != w[0] || !strings.Contains(l.Why.Error(), w[1]) {
			t.Errorf("left out %+v, want %v", l, w)
		}
	}
	in.Pools[0].OnLoss = "WISHFUL"
	if _, _, err := Config(in); err == nil || !strings.Contains(err.Error(), `pool api.on_loss: "WISHFUL"`) {
		t.Errorf("an unknown name in a pool: %v", err)
	}
}
