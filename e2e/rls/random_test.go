package rls

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What is drawn: few keys and values, so that descriptors often match. A key holds the
// separator of key and value.
var (
	someKeys     = []string{"a", "b", "a_b"}
	someValues   = []string{"", "x", "b", "bx", "xyz"}
	somePatterns = []string{"*", "x*", "b*", "xy*"}
	someFlags    = []string{"shadow_mode", "detailed_metric", "value_to_metric"}
	someUnits    = []string{"day", "WEEK", "Month", "year"}
	someNames    = []string{"one", "two", "three"}
)

// newest reports whether RATELIMIT_BIN is built from the main branch of ratelimit. The version that
// tools/ratelimit pins is the newest that the Go proxy serves. It is older: it has no metadata, allows * only
// at the end, and quota_mode has another meaning there.
func newest() bool { return os.Getenv("RATELIMIT_NEWEST") != "" }

func init() {
	if newest() {
		somePatterns = append(somePatterns, "x*z", "*y*", "b*x")
		someFlags = append(someFlags, "quota_mode")
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// chance is true one time in n.
func chance(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// domainFile draws the file of a domain.
func domainFile(r *rand.Rand, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", name)
	writeDescriptors(r, &b, "  ", 0)
	return b.String()
}

func writeDescriptors(r *rand.Rand, b *strings.Builder, indent string, depth int) {
	taken := map[string]bool{}
	for range 1 + r.IntN(5) {
		key, value := pick(r, someKeys), pick(r, someValues)
		if chance(r, 3) {
			value = pick(r, somePatterns)
		}
		name := strings.TrimSuffix(key+"_"+value, "_")
		if taken[name] {
			continue
		}
		taken[name] = true
		fmt.Fprintf(b, "%s- key: %s\n", indent, key)
		if value != "" {
			fmt.Fprintf(b, "%s  value: %q\n", indent, value)
		}
		if strings.Contains(value, "*") && chance(r, 2) {
			fmt.Fprintf(b, "%s  share_threshold: true\n", indent)
		}
		for _, flag := range someFlags {
			if chance(r, 6) {
				fmt.Fprintf(b, "%s  %s: true\n", indent, flag)
			}
		}
		if newest() && chance(r, 3) {
			fmt.Fprintf(b, "%s  metadata: {%s: {%s: %d}}\n", indent, pick(r, someNames), pick(r, someNames), r.IntN(3))
		}
		if !chance(r, 4) {
			fmt.Fprintf(b, "%s  rate_limit: %s\n", indent, rateLimit(r))
		}
		if depth < 2 && chance(r, 2) {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			writeDescriptors(r, b, indent+"    ", depth+1)
		}
	}
}

func rateLimit(r *rand.Rand) string {
	var parts []string
	if chance(r, 8) {
		parts = append(parts, "unlimited: true")
	} else {
		parts = append(parts, "unit: "+pick(r, someUnits), fmt.Sprintf("requests_per_unit: %d", r.IntN(12)))
	}
	names := slices.Clone(someNames)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if chance(r, 2) {
		parts = append(parts, "name: "+names[0])
	}
	if chance(r, 4) {
		parts = append(parts, "replaces: [{name: "+names[1]+"}]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// request draws a request to a domain. Limits that descriptors carry may share counters if the windows are
// fixed. Otherwise each has its own counter here, but in ratelimit the limits of one unit share one.
func request(r *rand.Rand, domain string, shared bool) *api.RateLimitRequest {
	out := &api.RateLimitRequest{Domain: domain}
	if chance(r, 4) {
		out.HitsAddend = uint32(r.IntN(4))
	}
	for range 1 + r.IntN(3) {
		d := &ratelimitv3.RateLimitDescriptor{}
		for range 1 + r.IntN(3) {
			d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: pick(r, someKeys),
				Value: pick(r, someValues)})
		}
		if chance(r, 4) {
			d.HitsAddend = wrapperspb.UInt64(uint64(r.IntN(5)))
		}
		if chance(r, 12) {
			n := 1 + r.IntN(3)
			if value := fmt.Sprint(n); !shared {
				d.Entries = []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "own", Value: value}}
			}
			d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(n),
				Unit: typev3.RateLimitUnit_DAY}
		}
		out.Descriptors = append(out.Descriptors, d)
	}
	return out
}
