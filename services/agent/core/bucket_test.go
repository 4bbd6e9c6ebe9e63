package core

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/applied"
)

// The agent answers for its gateways by what they have reported, and for the keys that it owns by its book.
func TestBucketOfAKey(t *testing.T) {
	c := newCore()
	ask := func(limit string) *controlv1.KeyAnswer {
		q := &controlv1.Question{Id: 4, Key: &controlv1.KeyQuestion{Tenant: "acme", Limit: limit, Client: "eve"}}
		return c.Answer(2*time.Second, q)().GetKey()
	}
	if a := ask("local"); a.GetRate() != 0 {
		t.Errorf("without a configuration: %v", a)
	}
	in := &applied.Configuration{Revision: 1, Config: &config.Config{Revision: 1, Seed: 5, Tenants: []config.Tenant{
		{Name: "acme", Limits: []config.Limit{{Name: "local", Rate: 2, Burst: 10, Precision: config.Local},
			{Name: "exact", Rate: 2, Burst: 10, Precision: config.Exact}, {Name: "flight", Concurrency: 3}}}}}}
	if _, err := c.Configure(in); err != nil {
		t.Fatal(err)
	}
	c.Connected(time.Second, 1, hello("gw", 3, 0), 0)
	if a := ask("flight"); a.GetRate() != 0 {
		t.Errorf("a limit on requests in flight has a bucket: %v", a)
	}
	key := func(limit string) uint64 {
		b, _ := limiter.BucketOf(c.applied.Configuration(), 0, &exchange.KeyName{Tenant: "acme", Limit: limit, Client: "eve"})
		return b.Key
	}

	// What is kept for a restart is followed by time.
	c.Received(time.Second, 1, &exchange.Spent{Keys: []exchange.KeySpent{{Key: key("local"), Ahead: 3 * time.Second}}})
	a := ask("local")
	if g := a.GetGateways(); len(g) != 1 || g[0].GetBucket().GetFree() != 10-2*2 || a.GetExact() || a.GetOwner() != nil {
		t.Errorf("from what is kept: %v", a)
	}
	// A claim is newer.
	c.Received(time.Second, 1, &exchange.Claims{Keys: []exchange.KeyClaim{{Key: key("local"), Claim: 1.5, Admitted: 40,
		Spent: 7}}})
	if g := ask("local").GetGateways()[0].GetBucket(); g.GetFree() != 3 || g.GetRate() != 1.5 || g.GetAdmitted() != 40 ||
		g.GetReported().AsDuration() != time.Second {
		t.Errorf("from a claim: %v", g)
	}

	c.Received(time.Second, 1, &exchange.TokenRequests{List: []exchange.TokenRequest{{Key: key("exact"),
		KeyName: exchange.KeyName{Tenant: "acme", Limit: "exact", Client: "eve"},
		Request: grant.Request{Session: 1, Number: 1, Seq: 1, Need: grant.Token, Least: grant.Token, Level: -1}}}})
	a = ask("exact")
	owned := 0
	for _, g := range a.GetGateways() {
		if g.GetOwned() {
			owned++
			if b := g.GetBucket(); g.GetProcess() != processNumber(Process{Gateway: "gw", Generation: 3}) ||
				b.GetAgent() != "agent" || !b.GetWhole() && b.GetGranted() < 1 {
				t.Errorf("of the owner: %v", g)
			}
		}
	}
	if !a.GetExact() || a.GetOwner().GetAgent() != "agent" || owned != 1 {
		t.Errorf("of the owner: %v", a)
	}
}
