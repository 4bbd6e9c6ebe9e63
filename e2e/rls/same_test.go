package rls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/e2e/ratelimit"
	"github.com/titrate/titrate/services/rls"
)

const (
	domains   = 60 // drawn configurations
	perDomain = 80 // requests to each
)

// TestSameAnswers gives envoyproxy/ratelimit and our service the same files and the same random requests, and
// compares the answers: codes, limits, remaining hits, headers and metadata. Limits are per day and longer, so
// that less than a whole request refills during the test, and the requests are in one window.
//
// Documented differences of sliding windows are duration_until_reset, and so the header RateLimit-Reset.
// Another one is a request of no hits when exactly nothing is left, which is OK in ratelimit until one more
// hit has been counted, and over the limit here. With fixed windows there is no difference.
func TestSameAnswers(t *testing.T) {
	for _, windows := range []rls.Windows{rls.Sliding, rls.Fixed} {
		t.Run(string(windows), func(t *testing.T) { sameAnswers(t, windows) })
	}
}

func sameAnswers(t *testing.T, windows rls.Windows) {
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
	address, _ := ours(t, files, rls.Options{Headers: true, Metadata: true, Windows: windows})
	same := comparison{fixed: windows == rls.Fixed}
	shared := same.fixed && !startsAnotherWindow()
	a, b := client(t, fmt.Sprintf("127.0.0.1:%d", theirs.Port)), client(t, address)
	day := time.Now().UTC().YearDay()
	over := 0
	for i := range all {
		for n := range perDomain {
			q := request(r, fmt.Sprintf("d%d", i), shared)
			second := time.Now().Unix()
			want, errA := a.ShouldRateLimit(ctx, q)
			got, errB := b.ShouldRateLimit(ctx, q)
			same.resets = same.fixed && time.Now().Unix() == second
			if errA != nil || errB != nil {
				t.Fatalf("request %v: %v there, %v here", q, errA, errB)
			}
			if want.GetOverallCode() == api.RateLimitResponse_OVER_LIMIT {
				over++
			}
			if difference := same.compare(q, want, got); difference != "" {
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

// startsAnotherWindow reports whether this day's window begins with one of another unit: then
// limits of both units share a counter there, since it is named by the window's begin.
func startsAnotherWindow() bool {
	day := time.Now().Unix() / 86400
	return day%7 == 0 || day%30 == 0 || day%365 == 0
}

// comparison selects the parts that must be the same.
type comparison struct {
	fixed  bool // also the answers when exactly nothing is left
	resets bool // and duration_until_reset: both were asked in one second
}

// compare describes the first difference of two answers that should be the same.
func (c comparison) compare(q *api.RateLimitRequest, want, got *api.RateLimitResponse) string {
	exhausted := false
	for i, w := range want.GetStatuses() {
		g := got.GetStatuses()[i]
		if !proto.Equal(w.GetCurrentLimit(), g.GetCurrentLimit()) || w.GetLimitRemaining() != g.GetLimitRemaining() {
			return fmt.Sprintf("limit or remaining of descriptor %d", i)
		}
		edge := !c.fixed && asksAtTheEdge(q, i, w)
		if (w.GetDurationUntilReset() == nil) != (g.GetDurationUntilReset() == nil) && !edge ||
			c.resets && !proto.Equal(w.GetDurationUntilReset(), g.GetDurationUntilReset()) {
			return fmt.Sprintf("duration_until_reset of descriptor %d", i)
		}
		switch {
		case w.GetCode() == g.GetCode() && !edge:
		case edge:
			exhausted = true
		default:
			return fmt.Sprintf("code of descriptor %d", i)
		}
	}
	if exhausted { // fields that follow from the code differ as well
		return ""
	}
	switch {
	case want.GetOverallCode() != got.GetOverallCode():
		return "overall code"
	case c.headers(want) != c.headers(got):
		return "headers: " + c.headers(want) + " there, " + c.headers(got) + " here"
	}
	delete(got.GetDynamicMetadata().GetFields(), "reasons")           // ours
	delete(want.GetDynamicMetadata().GetFields(), "quotaModeEnabled") // of earlier versions
	for _, r := range []*api.RateLimitResponse{want, got} {
		// In ratelimit a limit with detailed_metric or value_to_metric loses its metadata, and the metadata of
		// one request changes those of later requests.
		delete(r.GetDynamicMetadata().GetFields(), "metadata")
		// Protobuf draws the spaces of that text at random
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

// headers returns the headers that must be the same on both sides.
func (c comparison) headers(r *api.RateLimitResponse) string {
	var out []string
	for _, h := range r.GetResponseHeadersToAdd() {
		if h.GetKey() != "RateLimit-Reset" || c.resets {
			out = append(out, h.GetKey()+": "+h.GetValue())
		}
	}
	return strings.Join(out, ", ")
}

// perSecond is a limit whose windows end while the test runs.
const perSecond = `
domain: shop
descriptors:
  - {key: a, rate_limit: {unit: second, requests_per_unit: 3, name: each}}
  - {key: b, rate_limit: {unit: second, requests_per_unit: 7}}
  - {key: c, rate_limit: {unit: minute, requests_per_unit: 40}}
  - {key: d, rate_limit: {unit: hour, requests_per_unit: 60}, shadow_mode: true}
`

// TestSameAnswersAcrossWindows compares the answers while windows of a second end. A request at which the
// second changes may fall into one window there and into another here; from then on nothing is compared until a
// second begins with both untouched.
func TestSameAnswersAcrossWindows(t *testing.T) {
	program := binary(t, "RATELIMIT_BIN", "run tools/sh/ratelimit.sh FILE and set it to FILE")
	const seconds = 6 // compared from their beginning
	files := map[string]string{"shop.yaml": perSecond}
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	theirs, err := ratelimit.Start(ctx, group(t).Start, ratelimit.Options{Binary: program, Dir: t.TempDir(),
		Files: files, Env: []string{"LIMIT_RESPONSE_HEADERS_ENABLED=true"}})
	if err != nil {
		t.Fatal(err)
	}
	address, _ := ours(t, files, rls.Options{Headers: true, Windows: rls.Fixed})
	a, b := client(t, fmt.Sprintf("127.0.0.1:%d", theirs.Port)), client(t, address)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r, same := rand.New(rand.NewPCG(seed, 0)), comparison{fixed: true, resets: true}
	compared, over, second := 0, 0, time.Now().Unix()
	for whole := 0; whole < seconds; {
		for time.Now().Unix() == second { // the counts of this window may differ
			if ctx.Err() != nil {
				t.Fatalf("%d windows compared: this machine is too slow", whole)
			}
			time.Sleep(time.Millisecond)
		}
		second = time.Now().Unix()
		for n := range 40 {
			// The minute's and the hour's counters have an own client in each second, so that
			// they are equal, too.
			q := &api.RateLimitRequest{Domain: "shop", HitsAddend: uint32(r.IntN(3))}
			for range 1 + r.IntN(2) {
				key := pick(r, []string{"a", "b", "c", "d"})
				q.Descriptors = append(q.Descriptors, &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.
					RateLimitDescriptor_Entry{{Key: key, Value: fmt.Sprint(map[bool]int64{true: second}[key > "b"])}}})
			}
			want, errA := a.ShouldRateLimit(ctx, q)
			got, errB := b.ShouldRateLimit(ctx, q)
			if errA != nil || errB != nil {
				t.Fatalf("request %v: %v there, %v here", q, errA, errB)
			}
			if time.Now().Unix() != second {
				break
			}
			if difference := same.compare(q, want, got); difference != "" {
				t.Fatalf("request %d of second %d, %v: %s\nthere %v\nhere  %v", n, second, q, difference, want, got)
			}
			if compared++; want.GetOverallCode() == api.RateLimitResponse_OVER_LIMIT {
				over++
			}
			if n == 39 {
				whole++
			}
		}
		if time.Now().Unix() != second {
			second = time.Now().Unix()
		}
	}
	t.Logf("%d requests compared, %d over their limit", compared, over)
	if over < compared/10 {
		t.Errorf("only %d of %d requests over a limit: nothing is tested", over, compared)
	}
}
