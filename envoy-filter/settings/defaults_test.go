package settings

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/limiter"
)

// The defaults in the tables of docs/filter.md equal the defaults of the code.
func TestDefaultsAreDocumented(t *testing.T) {
	documented := documentedDefaults(t)
	for field, want := range defaults(t) {
		got, ok := documented[field]
		if !ok || got != want {
			t.Errorf("docs/filter.md: the default of %s is %q (found: %v), in the code it is %q", field, got, ok, want)
		}
	}
}

// defaults are the defaults as the code has them.
func defaults(t *testing.T) map[string]string {
	t.Helper()
	b, err := ParseBootstrap([]byte(`{"agent_socket":"/run/agent.sock"}`))
	if err != nil {
		t.Fatal(err)
	}
	f, err := ParseFilter([]byte(`{"tenant":{"source_address":{}},"pool":{"literal":"api"}}`))
	if err != nil {
		t.Fatal(err)
	}
	a, address := f.Answers, f.Tenant[0].Address
	return map[string]string{
		"weight":                strconv.FormatFloat(b.Weight, 'g', -1, 64),
		"unknown_tenant":        choiceName(t, unknownPolicies, b.Unknown),
		"unknown_tenant_status": strconv.Itoa(b.UnknownStatus),
		"boot_policy":           choiceName(t, bootPolicies, b.Boot),
		"boot_wait":             b.BootWait.String(),
		"keys":                  strconv.Itoa(limiter.DefaultKeys),
		"contended_keys":        strconv.Itoa(limiter.DefaultContended),
		"enabled":               strconv.FormatBool(f.On()),
		"from":                  map[bool]string{false: "PEER", true: "ENVOY"}[address.Envoys],
		"first":                 strconv.FormatFloat(DefaultFirst, 'g', -1, 64),
		"percentile":            strconv.Itoa(DefaultPercentile),
		"trusted_hops":          strconv.Itoa(address.TrustedHops),
		"ipv4_prefix":           strconv.Itoa(address.IPv4Prefix),
		"ipv6_prefix":           strconv.Itoa(address.IPv6Prefix),
		"mode":                  a.Mode.String(),
		"reject_status":         strconv.Itoa(a.Status),
		"reject_body":           choiceName(t, bodies, a.Body),
		"rate_limit_headers":    choiceName(t, rateLimits, a.RateLimit),
		"rate_limit_policy":     strconv.FormatBool(*a.RateLimitPolicy),
		"reason_header":         *a.Reason,
		"request_id_header":     *a.RequestID,
		"wait_header":           *a.Wait,
		"congestion_header":     *a.Congestion,
		"limited_header":        *a.Limited,
		"mark_upstream":         strconv.FormatBool(*a.MarkUpstream),
		"peek":                  map[bool]string{true: "none"}[*a.Peek == ""],
		"response_cost":         map[bool]string{true: "none"}[a.Cost.From == CostNowhere],
		"access_log":            choiceName(t, logs, a.Log),
		"access_log_to":         choiceName(t, logTos, a.LogTo),
		"access_log_key":        map[bool]string{true: "none"}[a.LogKey == nil],
		"access_log_client":     choiceName(t, logClients, a.LogClient),
	}
}

func choiceName[T comparable](t *testing.T, choices map[string]T, value T) string {
	t.Helper()
	for name, v := range choices {
		if v == value {
			return name
		}
	}
	t.Fatalf("%v has no name among %v", value, choices)
	return ""
}

// documentedDefaults reads the last column of all tables with a column "default". It drops code marks,
// separators of thousands and text after a colon.
func documentedDefaults(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/filter.md")
	if err != nil {
		t.Fatal(err)
	}
	found, inTable := map[string]string{}, false
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case last == "default":
			inTable = true
		case inTable && len(cells) > 1:
			text, _, _ := strings.Cut(strings.NewReplacer("`", "", ",", "").Replace(last), ":")
			found[strings.Trim(cells[0], " `")] = text
		}
	}
	return found
}
