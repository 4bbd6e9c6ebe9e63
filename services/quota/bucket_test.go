package quota_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// The sentence says where the tokens are.
func TestBucketSentence(t *testing.T) {
	gateway := func(name string, free *float64, whole bool) *quotav1.GatewayBucket {
		return &quotav1.GatewayBucket{Gateway: name, Free: free, Whole: whole}
	}
	some := new(3.)
	for want, b := range map[string]*quotav1.Bucket{
		"No agent has answered": {Agents: 1, Silent: []string{"a"}},
		"is full: no gateway":   {Rate: 1, Burst: 5, Agents: 1, Gateways: []*quotav1.GatewayBucket{gateway("g", nil, false)}},
		"LOCAL: gateway g alone": {Rate: 1, Burst: 5, Agents: 1, Gateways: []*quotav1.GatewayBucket{gateway("g", some, false),
			gateway("h", nil, false)}},
		"LOCAL: 2 gateways send": {Rate: 1, Burst: 5, Agents: 1, Gateways: []*quotav1.GatewayBucket{gateway("g", some, false),
			gateway("h", some, false)}},
		"EXACT, but no agent owns": {Rate: 1, Burst: 5, Exact: true, Agents: 1,
			Gateways: []*quotav1.GatewayBucket{gateway("g", some, false)}},
		"EXACT: gateway g alone uses the bucket of 5": {Rate: 1, Burst: 5, Exact: true, Agents: 1,
			Owners: []*quotav1.OwnerBucket{{Agent: "a"}}, Gateways: []*quotav1.GatewayBucket{gateway("g", some, true)}},
		"agent a owns the bucket. Of 5 tokens it may grant 0; gateways have 2 that": {Rate: 1, Burst: 5, Exact: true,
			Agents: 1, Owners: []*quotav1.OwnerBucket{{Agent: "a", Free: -1, Out: 2}}},
		"site eu: agent a owns the bucket. Of 5 tokens it may grant 1; gateways have 2 that they have not spent. " +
			"site us: agent b owns": {Rate: 1, Burst: 5, Exact: true, Agents: 2, Owners: []*quotav1.OwnerBucket{
			{Agent: "a", Site: "eu", Free: 1, Out: 2}, {Agent: "b", Site: "us"}}},
		"For site us, site eu takes 3.0/s off the limit, as claimed last: the way between them is cut. For the site " +
			"without a name, site us takes 1.0/s off the limit.": {Rate: 5, Burst: 5, Exact: true, Agents: 2,
			Claims: []*quotav1.SiteClaim{{Site: "us", At: "eu", Rate: 3}, {At: "us", Rate: 1, Reachable: true}}},
	} {
		c := serve(t, &present{bucket: b})
		got, err := c.GetBucket(t.Context(), &quotav1.GetBucketRequest{Name: "tenants/x/limits/y", Client: "<b>"})
		if err != nil || !strings.Contains(got.GetSentence(), want) {
			t.Errorf("%q, %v: want %q", got.GetSentence(), err, want)
		}
	}
}

func TestBucketAndHistoryThatAreNotKnown(t *testing.T) {
	c := serve(t, &present{bucket: &quotav1.Bucket{Agents: 2, Silent: []string{"a"}}})
	for _, one := range []struct {
		name string
		want codes.Code
	}{{"tenants/x/limits/none", codes.NotFound}, {"tenants/x", codes.InvalidArgument}, {"plans/x/limits/y",
		codes.InvalidArgument}} {
		if _, err := c.GetBucket(t.Context(), &quotav1.GetBucketRequest{Name: one.name}); status.Code(err) != one.want {
			t.Errorf("%s: %v, want %v", one.name, err, one.want)
		}
	}
	for name, want := range map[string]codes.Code{"pools/none": codes.NotFound, "tenants/x": codes.InvalidArgument} {
		if _, err := c.GetPoolHistory(t.Context(), &quotav1.GetPoolHistoryRequest{Name: name}); status.Code(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
