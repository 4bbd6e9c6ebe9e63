package rls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/e2e/ratelimit"
	"github.com/titrate/titrate/services/rls"
)

const (
	domains   = 60 // drawn configurations
	perDomain = 80 // requests to each
)

// TestSameAnswers gives envoyproxy/ratelimit and our service the same files and the same
// requests, drawn at random, and compares what they answer: codes, limits, what remains,
// headers and metadata. Limits are per day and longer, so that what refills meanwhile is no
// whole request, and the requests are in one window.
//
// Documented differences: duration_until_reset, of which the header RateLimit-Reset is
// made; and a request of no hits where exactly nothing is left, which is OK there until one
// hit more has been counted, and over the limit here.
func TestSameAnswers(t *testing.T) {
	program := binary(t, "RATELIMIT_BIN", "run tools/sh/ratelimit.sh FILE and set it to FILE")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	files, all := map[string]string{}, make([]string, domains)
	for i := range all {
		all[i] = domainFile(r, fmt.Sprintf("d%d", i))
		files[fmt.Sprintf("d%d.yaml", i)] = all[i]
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	theirs, err := ratelimit.Start(ctx, group(t).Start, ratelimit.Options{Binary: program, Dir: t.TempDir(),
		Files: files, Env: []string{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true"}})
	if err != nil {
		t.Fatal(err)
	}
	address, _ := ours(t, files, rls.Options{Headers: true, Metadata: true})
	a, b := client(t, fmt.Sprintf("127.0.0.1:%d", theirs.Port)), client(t, address)
	day := time.Now().UTC().YearDay()
	over := 0
	for i := range all {
		for n := range perDomain {
			q := request(r, fmt.Sprintf("d%d", i))
			want, errA := a.ShouldRateLimit(ctx, q)
			got, errB := b.ShouldRateLimit(ctx, q)
			if errA != nil || errB != nil {
				t.Fatalf("request %v: %v there, %v here", q, errA, errB)
			}
			if want.GetOverallCode() == api.RateLimitResponse_OVER_LIMIT {
				over++
			}
			if difference := compare(q, want, got); difference != "" {
				if time.Now().UTC().YearDay() != day {
					t.Skip("midnight: the windows there have ended")
				}
				t.Fatalf("request %d %v: %s\nthere %v\nhere  %v\nof\n%s", n, q, difference, want, got, all[i])
			}
		}
	}
	t.Logf("%d of %d requests over their limit", over, domains*perDomain)
	if over < domains*perDomain/20 {
		t.Errorf("only %d of %d requests over a limit: nothing is tested", over, domains*perDomain)
	}
}

// compare says where two answers differ that should not.
func compare(q *api.RateLimitRequest, want, got *api.RateLimitResponse) string {
	exhausted := false
	for i, w := range want.GetStatuses() {
		g := got.GetStatuses()[i]
		if !proto.Equal(w.GetCurrentLimit(), g.GetCurrentLimit()) || w.GetLimitRemaining() != g.GetLimitRemaining() {
			return fmt.Sprintf("limit or remaining of descriptor %d", i)
		}
		if (w.GetDurationUntilReset() == nil) != (g.GetDurationUntilReset() == nil) && !asksAtTheEdge(q, i, w) {
			return fmt.Sprintf("duration_until_reset of descriptor %d", i)
		}
		switch {
		case w.GetCode() == g.GetCode() && !asksAtTheEdge(q, i, w):
		case asksAtTheEdge(q, i, w):
			exhausted = true
		default:
			return fmt.Sprintf("code of descriptor %d", i)
		}
	}
	if exhausted { // what follows from the code differs as well
		return ""
	}
	switch {
	case want.GetOverallCode() != got.GetOverallCode():
		return "overall code"
	case headers(want) != headers(got):
		return "headers: " + headers(want) + " there, " + headers(got) + " here"
	}
	delete(got.GetDynamicMetadata().GetFields(), "reasons") // ours
	for _, r := range []*api.RateLimitResponse{want, got} { // protobuf draws the spaces of that text at random
		for _, d := range r.GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues() {
			delete(d.GetStructValue().GetFields(), "limit")
		}
	}
	if !proto.Equal(want.GetDynamicMetadata(), got.GetDynamicMetadata()) {
		return "metadata"
	}
	return ""
}

// asksAtTheEdge reports whether a descriptor asks, with no hits, for a limit of which
// exactly nothing is left.
func asksAtTheEdge(q *api.RateLimitRequest, i int, s *api.RateLimitResponse_DescriptorStatus) bool {
	hits := q.GetDescriptors()[i].GetHitsAddend()
	return hits != nil && hits.GetValue() == 0 && s.GetCurrentLimit() != nil && s.GetLimitRemaining() == 0
}

// headers are those that are the same on both sides.
func headers(r *api.RateLimitResponse) string {
	var out []string
	for _, h := range r.GetResponseHeadersToAdd() {
		if h.GetKey() != "RateLimit-Reset" {
			out = append(out, h.GetKey()+": "+h.GetValue())
		}
	}
	return strings.Join(out, ", ")
}
