package rlqs

import (
	"log/slog"
	"math"
	"testing"

	api "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/envoy-filter/enforcer"
)

// FuzzReports has three Envoys report any bytes. Whatever they say, together they are assigned no more than the limit
// and its slack, and what is assigned is what Envoy takes.
func FuzzReports(f *testing.F) {
	for _, r := range []*api.RateLimitQuotaUsageReports{{Domain: "titrate"}, {Domain: "titrate",
		BucketQuotaUsages: []*api.RateLimitQuotaUsageReports_BucketQuotaUsage{
			{BucketId: &api.BucketId{Bucket: ofBob}, NumRequestsAllowed: 1},
			{BucketId: &api.BucketId{Bucket: ofBob}, NumRequestsDenied: math.MaxUint64,
				NumRequestsAllowed: math.MaxUint64, TimeElapsed: &durationpb.Duration{Seconds: -1}},
			{BucketId: &api.BucketId{Bucket: map[string]string{"tenant": "acme", "x": "\xff"}}}, {}, nil}}} {
		b, err := proto.Marshal(r)
		if err != nil {
			b = nil // no UTF-8
		}
		f.Add(b, uint8(3))
	}
	s, revision := New(Options{Name: "a", Alone: true, Log: slog.New(slog.DiscardHandler)}), int64(0)
	f.Fuzz(func(t *testing.T, b []byte, steps uint8) {
		var r api.RateLimitQuotaUsageReports
		if proto.Unmarshal(b, &r) != nil {
			return
		}
		revision++
		s.book = s.newBook()
		limit(t, s, revision, config.Limit{Name: "l", Rate: 10, Burst: 20, PerTenant: true})
		now, sum := enforcer.Now(), 0.
		for range 3 {
			m, err := s.open(make(chan struct{}, 1))
			if err != nil {
				t.Fatal(err)
			}
			s.report(m, r.GetDomain(), r.GetBucketQuotaUsages())
			defer func() {
				for _, a := range s.take(m) {
					bucket := a.GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket()
					if bucket == nil {
						continue
					}
					seconds := bucket.GetFillInterval().GetSeconds()
					if seconds < 1 || bucket.GetMaxTokens() < 1 || bucket.GetTokensPerFill().GetValue() < 1 {
						t.Errorf("%v", a)
					}
					sum += float64(bucket.GetTokensPerFill().GetValue()) / float64(seconds)
				}
				if sum > 10.5+1e-6 {
					t.Errorf("%v/s of 10/s are assigned", sum)
				}
			}()
		}
		for range steps % 8 {
			s.book.Visit(now)
			s.book.Round(now)
			now += 7e9
		}
		if now := s.Stats(); now.Panics > 0 || now.Members > 3*len(r.GetBucketQuotaUsages()) {
			t.Errorf("%+v", now)
		}
	})
}
