package rls

import (
	"maps"
	"math"
	"strconv"
	"strings"
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
	for i := range all {
		out.Statuses[i] = all[i].status()
	}
	tightest, over := s.tightest(all)
	if over && s.o.Shadow {
		s.counts.shadowed.Add(1)
	} else if over {
		out.OverallCode = api.RateLimitResponse_OVER_LIMIT
	}
	if s.o.Headers && tightest >= 0 {
		out.ResponseHeadersToAdd = all[tightest].headers()
	}
	if s.o.Metadata {
		out.DynamicMetadata = metadata(r, all)
	}
	return out
}

// tightest returns the decision whose headers the answer has, or -1, and whether the request is over a limit. The
// last refusal comes before the limit with the least left.
func (s *Server) tightest(all []decision) (at int, over bool) {
	at, quotas := -1, quotas{}
	for i := range all {
		d := &all[i]
		refuses := d.exceeded() && !d.quota
		quotas.add(d, s.o.Quota)
		if d.limited && (refuses || !over && (at < 0 || d.remaining < all[at].remaining)) {
			at = i
		}
		over = over || refuses
	}
	return at, over || quotas.exceeded()
}

// exceeded reports whether a response says so of the limit.
func (d *decision) exceeded() bool { return d.over && !d.shadow }

// quotas are the limits of a request with quota_mode: each says which service may take the request, and while one of
// them has room, there is a service that can.
type quotas struct{ all, over int }

// add counts a decision. If all limits are quotas, a descriptor without a limit counts as a quota with room.
func (q *quotas) add(d *decision, all bool) {
	if d.quota || all && !d.unlimited {
		q.all++
		if d.exceeded() {
			q.over++
		}
	}
}

// exceeded reports whether no quota has room.
func (q *quotas) exceeded() bool { return q.all > 0 && q.over == q.all }

// status returns the API's form of a decision.
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
	out.DurationUntilReset = durationpb.New(seconds(d.reset))
	if d.exceeded() {
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

// metadata says what was asked, and has the metadata of the limits that let the request pass.
func metadata(r *api.RateLimitRequest, all []decision) *structpb.Struct {
	fields := map[string]*structpb.Value{"domain": structpb.NewStringValue(text(r.GetDomain()))}
	var descriptors, reasons []*structpb.Value
	for _, d := range r.GetDescriptors() {
		descriptors = append(descriptors, structpb.NewStructValue(describe(d)))
	}
	fields["descriptors"] = listOf(descriptors)
	if hits := r.GetHitsAddend(); hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	passed := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range all {
		if all[i].over {
			reasons = append(reasons, structpb.NewStringValue(all[i].reason.String()))
		}
		if !all[i].exceeded() {
			merge(passed.Fields, all[i].metadata)
		}
	}
	if len(passed.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(passed)
	}
	if len(reasons) > 0 {
		fields["reasons"] = listOf(reasons)
	}
	return &structpb.Struct{Fields: fields}
}

// merge adds fields that are not there yet. Of a struct that is there and is added, fields are added. What is added
// is not changed: it belongs to a limit.
func merge(into map[string]*structpb.Value, from *structpb.Struct) {
	for name, value := range from.GetFields() {
		there, both := into[name].GetStructValue(), value.GetStructValue()
		switch {
		case into[name] == nil:
			into[name] = value
		case there != nil && both != nil:
			mixed := maps.Clone(there.GetFields())
			if mixed == nil {
				mixed = map[string]*structpb.Value{}
			}
			merge(mixed, both)
			into[name] = structpb.NewStructValue(&structpb.Struct{Fields: mixed})
		}
	}
}

func describe(d *ratelimitv3.RateLimitDescriptor) *structpb.Struct {
	var entries []*structpb.Value
	for _, e := range d.GetEntries() {
		entries = append(entries, structpb.NewStringValue(text(e.GetKey()+"="+e.GetValue())))
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

// text turns a request's bytes into text for a response: U+FFFD stands for bytes that are no UTF-8.
func text(bytes string) string { return strings.ToValidUTF8(bytes, "\uFFFD") }

func listOf(values []*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}
