package coordinator

import (
	"testing"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/stream"
)

// The owner's numbers join those of the gateway's own agent, or stand alone if that agent has not answered.
func TestBucketJoinsAnswers(t *testing.T) {
	free := 3.
	own := func(process uint64, name string) *controlv1.KeyGateway {
		return &controlv1.KeyGateway{Process: process, Bucket: &quotav1.GatewayBucket{Gateway: name, Agent: name, Free: &free}}
	}
	b := bucket(stream.Replies{Asked: 4, Silent: []string{"c", "b"}, Answers: []*controlv1.Answer{
		{}, // of an earlier release
		{Key: &controlv1.KeyAnswer{Rate: 2, Burst: 10, Gateways: []*controlv1.KeyGateway{own(1, "gw-2"), {}}}},
		{Key: &controlv1.KeyAnswer{Rate: 2, Burst: 10, Exact: true, Owner: &quotav1.OwnerBucket{Agent: "a", Site: "eu", Free: 4},
			Gateways: []*controlv1.KeyGateway{own(2, "gw-1"),
				{Process: 1, Owned: true, Bucket: &quotav1.GatewayBucket{Agent: "gw-2", Tokens: 5, Granted: 9, Whole: true}},
				{Process: 7, Owned: true, Bucket: &quotav1.GatewayBucket{Agent: "c", Tokens: 1}}},
			Claims: []*quotav1.SiteClaim{{Site: "us", At: "eu"}, {Site: "ap", At: "eu"}}}},
		{Key: &controlv1.KeyAnswer{Rate: 2, Burst: 10, Exact: true, Claims: []*quotav1.SiteClaim{{Site: "eu", At: "us"}},
			Owner: &quotav1.OwnerBucket{Agent: "d", Site: "ap", Free: 1}}},
	}})
	if len(b.Gateways) != 3 || !b.Exact || len(b.Owners) != 2 || b.Owners[1].GetFree() != 4 || b.Rate != 2 || b.Agents != 3 || b.Silent[0] != "b" {
		t.Fatalf("%v", b)
	}
	if c := b.Claims; len(c) != 3 || c[0].Site != "ap" || c[1].Site != "eu" || c[2].At != "eu" {
		t.Errorf("claims %v", c)
	}
	if g := b.Gateways[0]; g.Agent != "c" || g.Gateway != "" || g.Tokens != 1 {
		t.Errorf("of an agent that is silent: %v", g)
	}
	if g := b.Gateways[2]; g.Gateway != "gw-2" || g.GetFree() != 3 || g.Tokens != 5 || g.Granted != 9 || !g.Whole {
		t.Errorf("joined: %v", g)
	}
}
