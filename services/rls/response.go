package rls

import (
	"math"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// respond puts the decisions of all descriptors together.
func (s *Server) respond(r *api.RateLimitRequest, all []decision) *api.RateLimitResponse {
	out := &api.RateLimitResponse{OverallCode: api.RateLimitResponse_OK,
		Statuses: make([]*api.RateLimitResponse_DescriptorStatus, len(all))}
	tightest, over := -1, false
	var violations []int
	for i := range all {
		d := &all[i]
		out.Statuses[i] = d.status()
		refuses := d.over && !d.shadow && !d.quota
		if d.over && !d.shadow && d.quota {
			violations = append(violations, i)
		}
		if d.limited && (refuses || !over && (tightest < 0 || d.remaining < all[tightest].remaining)) {
			tightest = i
		}
		over = over || refuses
	}
	if over && s.o.Shadow {
		s.counts.shadowed.Add(1)
	} else if over {
		out.OverallCode = api.RateLimitResponse_OVER_LIMIT
	}
	if s.o.Headers && tightest >= 0 {
		out.ResponseHeadersToAdd = all[tightest].headers()
	}
	if s.o.Metadata {
		out.DynamicMetadata = metadata(r, all, violations)
	}
	return out
}

// status is what the API says of a decision.
func (d *decision) status() *api.RateLimitResponse_DescriptorStatus {
	out := &api.RateLimitResponse_DescriptorStatus{Code: api.RateLimitResponse_OK}
	switch {
	case d.unlimited:
		out.LimitRemaining = unlimitedRemaining
		return out
	case !d.limited:
		return out
	}
	out.LimitRemaining = d.remaining
	out.CurrentLimit = &api.RateLimitResponse_RateLimit{Name: d.numbers.name, RequestsPerUnit: d.numbers.requests,
		Unit: api.RateLimitResponse_RateLimit_Unit(d.numbers.unit)}
	if d.over && d.quota && !d.shadow {
		return out
	}
	out.DurationUntilReset = durationpb.New(seconds(d.reset))
	if d.over && !d.shadow {
		out.Code = api.RateLimitResponse_OVER_LIMIT
	}
	return out
}

// seconds rounds up to whole seconds: Envoy cuts the rest off.
func seconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
}

// headers are the fields of the draft that envoyproxy/ratelimit writes.
func (d *decision) headers() []*corev3.HeaderValue {
	field := func(key string, value int64) *corev3.HeaderValue {
		return &corev3.HeaderValue{Key: key, Value: strconv.FormatInt(value, 10)}
	}
	return []*corev3.HeaderValue{
		field("RateLimit-Limit", int64(d.numbers.requests)), field("RateLimit-Remaining", int64(d.remaining)),
		field("RateLimit-Reset", int64(seconds(d.reset).Seconds())),
	}
}

// metadata says what was asked and which quotas were exceeded.
func metadata(r *api.RateLimitRequest, all []decision, violations []int) *structpb.Struct {
	fields := map[string]*structpb.Value{"domain": structpb.NewStringValue(r.GetDomain())}
	var descriptors []*structpb.Value
	for _, d := range r.GetDescriptors() {
		descriptors = append(descriptors, structpb.NewStructValue(describe(d)))
	}
	fields["descriptors"] = listOf(descriptors)
	if hits := r.GetHitsAddend(); hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	var exceeded []*structpb.Value
	for _, i := range violations {
		exceeded = append(exceeded, structpb.NewNumberValue(float64(i)))
	}
	if len(exceeded) > 0 {
		fields["quotaModeViolations"] = listOf(exceeded)
	}
	quota := false
	var reasons []*structpb.Value
	for i := range all {
		quota = quota || all[i].limited && all[i].quota
		if all[i].over {
			reasons = append(reasons, structpb.NewStringValue(all[i].reason.String()))
		}
	}
	fields["quotaModeEnabled"] = structpb.NewBoolValue(quota)
	if len(reasons) > 0 {
		fields["reasons"] = listOf(reasons)
	}
	return &structpb.Struct{Fields: fields}
}

func describe(d *ratelimitv3.RateLimitDescriptor) *structpb.Struct {
	var entries []*structpb.Value
	for _, e := range d.GetEntries() {
		entries = append(entries, structpb.NewStringValue(e.GetKey()+"="+e.GetValue()))
	}
	fields := map[string]*structpb.Value{"entries": listOf(entries)}
	if d.GetLimit() != nil {
		fields["limit"] = structpb.NewStringValue(d.GetLimit().String())
	}
	if d.GetHitsAddend() != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(d.GetHitsAddend().GetValue()))
	}
	return &structpb.Struct{Fields: fields}
}

func listOf(values []*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}
