package ratelimitconfig

import (
	"strings"
	"testing"

	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// A domain that comes by the xDS protocol is what its file would be.
func TestResourceIsAsItsFile(t *testing.T) {
	resource := &rlsconfig.RateLimitConfig{Name: "r", Domain: "shop", Descriptors: []*rlsconfig.RateLimitDescriptor{{
		Key: "route", Value: "a/b: \"#", Descriptors: []*rlsconfig.RateLimitDescriptor{
			{Key: "client", ShadowMode: true, DetailedMetric: true, RateLimit: &rlsconfig.RateLimitPolicy{
				Unit: rlsconfig.RateLimitUnit_WEEK, RequestsPerUnit: 1<<32 - 1, Name: "each",
				Replaces: []*rlsconfig.RateLimitReplace{{Name: "other"}}}},
			{Key: "client", Value: "x*", QuotaMode: true, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
				"yes": structpb.NewStringValue("010")}}, RateLimit: &rlsconfig.RateLimitPolicy{Unlimited: true}}}}}}
	file := `
domain: shop
descriptors:
  - key: route
    value: 'a/b: "#'
    descriptors:
      - key: client
        shadow_mode: true
        detailed_metric: true
        rate_limit: {unit: week, requests_per_unit: 4294967295, name: each, replaces: [{name: other}]}
      - key: client
        value: x*
        quota_mode: true
        metadata: {"yes": "010"}
        rate_limit: {unlimited: true}
`
	byXDS, byFile := &Config{}, &Config{}
	if err := byXDS.AddResource(resource, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := byFile.Add("r", strings.NewReader(file), Options{}); err != nil {
		t.Fatal(err)
	}
	got, want := byXDS.Limits(), byFile.Limits()
	if len(got) != 2 || len(want) != 2 {
		t.Fatalf("%d and %d limits, want 2", len(got), len(want))
	}
	for i := range want {
		one, other := *got[i], *want[i]
		one.Line, other.Line = 0, 0
		if one.ID != other.ID || one.Requests != other.Requests || one.Unit != other.Unit || one.Name != other.Name ||
			one.Unlimited != other.Unlimited || one.Shadow != other.Shadow || one.Quota != other.Quota ||
			one.Detailed != other.Detailed || !proto.Equal(one.Metadata, other.Metadata) || len(one.Replaces) != len(other.Replaces) || one.Domain != other.Domain {
			t.Errorf("by xDS %+v, by its file %+v", one, other)
		}
	}
}

func TestWrongResources(t *testing.T) {
	policy := &rlsconfig.RateLimitPolicy{RequestsPerUnit: 5}
	for want, resource := range map[string]*rlsconfig.RateLimitConfig{
		"r:1: domain: missing": {Name: "r"},
		"r:1: descriptors[0].rate_limit.unit: missing": {Name: "r", Domain: "d",
			Descriptors: []*rlsconfig.RateLimitDescriptor{{Key: "k", RateLimit: policy}}},
	} {
		err := (&Config{}).AddResource(resource, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", resource, err, want)
		}
	}
}
