package envoytest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// accessLog returns the access log of access-log.yaml by path.
func (e *envoy) accessLog() map[string]map[string]any {
	entries := map[string]map[string]any{}
	for line := range strings.Lines(e.lines("")) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["path"] != nil {
			entries[entry["path"].(string)] = entry
		}
	}
	return entries
}

// What an access log shows is one text in filter state, if the operator wants that. No client can add
// a key to it, and the filter that logs last has the last word.
func TestAccessLogInFilterState(t *testing.T) {
	t.Parallel()
	queue := config.Queue{Law: config.DropTail, MaxWait: 2 * time.Second, MaxRequests: 10}
	state := setup(1, config.Queue{}, config.Tenant{Name: "acme", Weight: 1,
		Limits: []config.Limit{{Name: "patient", Rate: 1, Burst: 1, Queue: queue}}}, limited("other", 0.001, 1))
	e, _ := launch{example: "access-log.yaml", concurrency: 1, edits: []edit{
		{`"%DYNAMIC_METADATA(titrate:outcome)%"`, `"%FILTER_STATE(titrate:PLAIN)%"`},
		{"access_log: ALWAYS\n", "access_log: ALWAYS\n                  access_log_to: FILTER_STATE\n"},
		{"access_log_client: HASH\n", "access_log_client: NAME\n"},
	}}.linked(t, state)
	for i, header := range [][]string{
		{"x-tenant", "acme", "x-client", "alice"}, {"x-tenant", "acme", "x-client", "alice"},
		{"x-tenant", "other"}, {"x-tenant", "other"},
		{"x-tenant", `a outcome=admitted "b\`, "x-client", strings.Repeat("\xff", 300)},
	} {
		e.get(fmt.Sprintf("/%d", i), header...)
	}
	entries := e.accessLog()
	for path, want := range map[string]string{
		"/0": "outcome=admitted tenant=acme pool=api client=alice",
		"/2": "outcome=admitted tenant=other pool=api",
		"/3": "outcome=rejected reason=client_limit limit=per-client tenant=other pool=api",
		"/4": "outcome=rejected reason=unknown_tenant tenant=a?outcome?admitted??b? pool=api client=" +
			strings.Repeat("?", 256),
	} {
		if got := entries[path]["outcome"]; got != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
	held, _ := entries["/1"]["outcome"].(string)
	if wait, ok := strings.CutPrefix(held, "outcome=admitted tenant=acme pool=api client=alice wait_ms="); !ok ||
		wait < "1" || wait > "9999" {
		t.Errorf("a request held for its limit of 1/s: %s", held)
	}
	if entries["/3"]["tenant"] != nil {
		t.Errorf("there is metadata, too: %v", entries["/3"])
	}
}

// secondFilter follows the first one in the chain, and takes the tenant from another header.
const secondFilter = `          - name: second
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
              dynamic_module_config: { name: titrate, do_not_close: true }
              filter_name: titrate
              filter_config:
                "@type": type.googleapis.com/google.protobuf.Struct
                value: { tenant: { header: x-second }, pool: { literal: api }, access_log_to: FILTER_STATE }
`

// With two filters in the chain, the filter that logs last writes the text.
func TestFilterStateOfTwoFilters(t *testing.T) {
	t.Parallel()
	if version(t) < "1.39" {
		t.Skip("this Envoy keeps the first text (docs/filter.md)")
	}
	const router = "          - name: envoy.filters.http.router\n"
	e, _ := launch{example: "access-log.yaml", concurrency: 1, edits: []edit{
		{`"%DYNAMIC_METADATA(titrate:outcome)%"`, `"%FILTER_STATE(titrate:PLAIN)%"`},
		{"access_log: ALWAYS\n", "access_log: ALWAYS\n                  access_log_to: FILTER_STATE\n"},
		{router, secondFilter + router},
	}}.linked(t, setup(1, config.Queue{}, limited("acme", 100, 100), limited("other", 0.001, 1)))
	for i := range 2 {
		e.get(fmt.Sprintf("/%d", i), "x-tenant", "acme", "x-second", "other")
	}
	entries := e.accessLog()
	for path, want := range map[string]string{
		"/0": "outcome=admitted tenant=acme pool=api",
		"/1": "outcome=rejected reason=client_limit limit=per-client tenant=other pool=api",
	} {
		if got := entries[path]["outcome"]; got != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
}

// Under a key the hash of a client is another one, and the RateLimit fields may lack the policy.
func TestKeyedHashAndNoPolicy(t *testing.T) {
	t.Parallel()
	e, _ := launch{example: "access-log.yaml", concurrency: 1, edits: []edit{
		{"access_log_client: HASH\n", "access_log_client: HASH\n                  access_log_key: 0123456789abcdef\n" +
			"                  rate_limit_policy: false\n"},
	}}.linked(t, setup(1, config.Queue{}, limited("acme", 0.01, 1)))
	e.expect([]reply{
		ask("admitted", "/0", 200, headers("x-client", "alice"), "ratelimit", ""),
		ask("refused", "/1", 429, headers("x-client", "alice"), "ratelimit", `"per-client";r=0;t=100`,
			"ratelimit-policy", ""),
	})
	entries := e.accessLog()
	const alice = "75f9d2d56a5ed3fd" // SipHash-2-4 under the first 16 bytes of the key's SHA-256
	for path, outcome := range map[string]string{"/0": "admitted", "/1": "rejected"} {
		if got := entries[path]; got["client"] != alice || got["outcome"] != outcome {
			t.Errorf("%s: %v, want client %s", path, got, alice)
		}
	}
}

// A refusal has only the parts that its operator configured.
func TestBareRefusal(t *testing.T) {
	t.Parallel()
	e, _ := launch{example: "access-log.yaml", concurrency: 1, edits: []edit{
		{"access_log: ALWAYS\n", `access_log: 'OFF'
                  rate_limit_headers: 'OFF'
                  reason_header: ""
                  request_id_header: ""
                  reject_body: NONE
`},
	}}.linked(t, setup(1, config.Queue{}, limited("acme", 0.01, 1)))
	e.expect([]reply{
		ask("admitted", "/0", 200, nil),
		ask("refused", "/1", 429, nil, "retry-after", "100", "body", "", "content-type", "", "x-request-id", "",
			"x-titrate-reason", "", "ratelimit", "", "ratelimit-policy", ""),
		ask("in gRPC", "/2", 200, headers("content-type", "application/grpc"), "grpc-status", `\d+`, "body", ""),
	})
	if got := e.accessLog()["/1"]; got["outcome"] != nil || got["details"] != "titrate_client_limit" {
		t.Errorf("%v", got)
	}
}
