package settings

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

func TestParseFilter(t *testing.T) {
	f, err := ParseFilter([]byte(`{
		"tenant": [{"header":"X-Tenant"},{"route":true}], "client": {"header":"x-client"},
		"pool": [{"header":"Host"},{"literal":"api"}], "cost": [{"header":"x-cost"},{"literal":2.5}], "enabled": false}`))
	f.Answers = Answers{} // has its own test
	off := false
	want := &Filter{
		Tenant:  []Source{{Kind: Header, Text: "x-tenant"}, {Kind: Route}},
		Client:  []Source{{Kind: Header, Text: "x-client"}},
		Pool:    []Source{{Kind: Header, Text: ":authority"}, {Kind: Literal, Text: "api"}}, // as Envoy keeps it
		Cost:    []Source{{Kind: Header, Text: "x-cost"}, {Kind: Literal, Number: 2.5}},
		Enabled: &off,
	}
	if err != nil || !reflect.DeepEqual(f, want) {
		t.Fatalf("%+v, %v", f, err)
	}
	if f, err := ParseRoute([]byte(`{"pool":{"literal":"b"}}`)); err != nil || !f.On() || f.Tenant != nil {
		t.Fatalf("an override of the pool alone: %+v, %v", f, err)
	}
}

func TestFilterErrorsNameTheField(t *testing.T) {
	cases := map[string]string{
		``:                                       "",
		`null`:                                   "",
		`[]`:                                     "",
		`{}`:                                     "tenant",
		`{"tenant":{"header":"x"}}`:              "pool",
		`{"tenant":{"header":"x"},"pol":{}}`:     "pol",
		`{"tenant":{"heder":"x"}}`:               "tenant.heder",
		`{"tenant":{}}`:                          "tenant",
		`{"tenant":{"header":"a","route":true}}`: "tenant",
		`{"tenant":[]}`:                          "tenant",
		`{"tenant":[{"header":"a"},{"header":"b c"}]}`:                              "tenant[1].header",
		`{"tenant":{"header":7}}`:                                                   "tenant.header",
		`{"tenant":{"header":null}}`:                                                "tenant.header",
		`{"tenant":{"literal":""}}`:                                                 "tenant.literal",
		`{"tenant":{"route":false}}`:                                                "tenant.route",
		`{"costs":{}}`:                                                              "costs",
		`{"costs":[1]}`:                                                             "costs",
		`{"costs":{"a":1,"b":1,"c":1,"d":1,"e":1}}`:                                 "costs",
		`{"costs":{"A":1}}`:                                                         "costs.A",
		`{"costs":{"a":0}}`:                                                         "costs.a",
		`{"costs":{"a":{}}}`:                                                        "costs.a",
		`{"costs":{"a":{"header":"x"}}}`:                                            "costs.a.header",
		`{"costs":{"a":{"cost":{"cookie":"x"}}}}`:                                   "costs.a.cost.cookie",
		`{"costs":{"a":{"response_cost":{"usage":"ALL"}}}}`:                         "costs.a.response_cost.usage",
		`{"costs":{"a":{"response_cost":{"kilobytes":1}}}}`:                         "costs.a.response_cost.kilobytes",
		`{"response_usage":"OPENAI"}`:                                               "response_usage",
		`{"response_usage":{}}`:                                                     "response_usage.format",
		`{"response_usage":{"format":"openai"}}`:                                    "response_usage.format",
		`{"response_usage":{"format":"OPENAI","input":"/a"}}`:                       "response_usage",
		`{"response_usage":{"format":"JSON_POINTER"}}`:                              "response_usage",
		`{"response_usage":{"format":"JSON_POINTER","input":"usage"}}`:              "response_usage.input",
		`{"response_usage":{"format":"JSON_POINTER","output":"/a~2"}}`:              "response_usage.output",
		`{"response_usage":{"format":"JSON_POINTER","total":"/1/2/3/4/5/6/7/8/9"}}`: "response_usage.total",
		`{"tenant":{"literal":"a"},"pool":{"literal":"b"},"response_cost":{"usage":"TOTAL"}}`: "response_usage",
		`{"cost":{"route":true}}`:                                                                  "cost.route",
		`{"cost":{"literal":0}}`:                                                                   "cost.literal",
		`{"cost":{"literal":"1"}}`:                                                                 "cost.literal",
		`{"enabled":"yes"}`:                                                                        "enabled",
		`{"cost":{"cookie":"a"}}`:                                                                  "cost.cookie",
		`{"cost":{"header":"a","literal":1}}`:                                                      "cost",
		`{"client":{"cookie":""}}`:                                                                 "client.cookie",
		`{"client":{"cookie":"a b"}}`:                                                              "client.cookie",
		`{"client":{"query":1}}`:                                                                   "client.query",
		`{"client":{"query":"` + strings.Repeat("a", 257) + `"}}`:                                  "client.query",
		`{"client":{"filter_state":""}}`:                                                           "client.filter_state",
		`{"client":{"metadata":"a"}}`:                                                              "client.metadata",
		`{"client":{"metadata":{"key":"a"}}}`:                                                      "client.metadata.namespace",
		`{"client":{"metadata":{"namespace":"a"}}}`:                                                "client.metadata.key",
		`{"client":{"metadata":{"namespace":"a","key":""}}}`:                                       "client.metadata.key",
		`{"client":{"metadata":{"namespace":"a","path":"b"}}}`:                                     "client.metadata.path",
		`{"client":{"mtls":"san"}}`:                                                                "client.mtls",
		`{"client":{"mtls":true}}`:                                                                 "client.mtls",
		`{"client":{"cookie":"a","names":"SHARED"}}`:                                               "client.names",
		`{"client":[{"cookie":"a"},{"names":"PLAIN"}]}`:                                            "client[1]",
		`{"tenant":{"cookie":"a","names":"PLAIN"}}`:                                                "tenant.names",
		`{"cost":{"header":"a","names":"PLAIN"}}`:                                                  "cost.names",
		`{"client":{"virtual_host":false}}`:                                                        "client.virtual_host",
		`{"client":{"cluster":"api"}}`:                                                             "client.cluster",
		`{"client":{"source_address":true}}`:                                                       "client.source_address",
		`{"client":{"source_address":{"from":"XFF"}}}`:                                             "client.source_address.from",
		`{"client":{"source_address":{"ipv4_prefix":33}}}`:                                         "client.source_address.ipv4_prefix",
		`{"client":{"source_address":{"ipv4_prefix":0}}}`:                                          "client.source_address.ipv4_prefix",
		`{"client":{"source_address":{"ipv6_prefix":6.5}}}`:                                        "client.source_address.ipv6_prefix",
		`{"client":{"source_address":{"trusted_hops":-1}}}`:                                        "client.source_address.trusted_hops",
		`{"client":{"source_address":{"trusted_hops":33}}}`:                                        "client.source_address.trusted_hops",
		`{"client":{"source_address":{"from":"ENVOY","trusted_hops":1}}}`:                          "client.source_address.trusted_hops",
		`{"identities":[]}`:                                                                        "identities",
		`{"identities":{}}`:                                                                        "identities",
		`{"identities":{"a":{"b":1}}}`:                                                             "identities.a.b",
		`{"identities":{"A":{"literal":"x"}}}`:                                                     "identities.A",
		`{"identities":{"a":[{"route":true},{"header":""}]}}`:                                      "identities.a[1].header",
		`{"identities":{` + repeat(9, `"n%d":{"route":true}`) + `}}`:                               "identities",
		`{"plan":{"header":"x-plan"}}`:                                                             "plan.header",
		`{"plan":{"header":"x-plan","trusted":false}}`:                                             "plan.header",
		`{"plan":{"filter_state":"p","trusted":"yes"}}`:                                            "plan.trusted",
		`{"plan":[{"filter_state":"p"},{"query":"p"}]}`:                                            "plan[1].query",
		`{"plan":{"cookie":"p"}}`:                                                                  "plan.cookie",
		`{"plan":{"source_address":{}}}`:                                                           "plan.source_address",
		`{"requested_rate":{"header":"x-rate"}}`:                                                   "requested_rate.header",
		`{"requested_rate":[{"filter_state":"p"},{"query":"p"}]}`:                                  "requested_rate[1].query",
		`{"classes":{}}`:                                                                           "classes",
		`{"classes":[]}`:                                                                           "classes",
		`{"classes":[` + repeat(33, `{"name":"n%d","match":{"path":"/"}}`) + `]}`:                  "classes",
		`{"classes":["a"]}`:                                                                        "classes[0]",
		`{"classes":[{"match":{"path":"/"}}]}`:                                                     "classes[0].name",
		`{"classes":[{"name":"a_","match":{"path":"/"}}]}`:                                         "classes[0].name",
		`{"classes":[{"name":"a"}]}`:                                                               "classes[0].match",
		`{"classes":[{"name":"a","match":{}}]}`:                                                    "classes[0].match",
		`{"classes":[{"name":"a","match":[]}]}`:                                                    "classes[0].match",
		`{"classes":[{"name":"a","match":[` + repeat(17, `{"path":"/%d"}`) + `]}]}`:                "classes[0].match",
		`{"classes":[{"name":"a","match":[{"path":"/"},{"paths":"/"}]}]}`:                          "classes[0].match[1].paths",
		`{"classes":[{"name":"a","match":{"path":"/"}},{"name":"a","match":{"path":"/"}}]}`:        "classes[1].name",
		`{"classes":[{"name":"a","match":{"methods":[]}}]}`:                                        "classes[0].match.methods",
		`{"classes":[{"name":"a","match":{"methods":["GET",""]}}]}`:                                "classes[0].match.methods[1]",
		`{"classes":[{"name":"a","match":{"methods":"G T"}}]}`:                                     "classes[0].match.methods",
		`{"classes":[{"name":"a","match":{"path_prefix":"x"}}]}`:                                   "classes[0].match.path_prefix",
		`{"classes":[{"name":"a","match":{"path":["/",7]}}]}`:                                      "classes[0].match.path[1]",
		`{"classes":[{"name":"a","match":{"headers":{}}}]}`:                                        "classes[0].match.headers",
		`{"classes":[{"name":"a","match":{"headers":[{}]}}]}`:                                      "classes[0].match.headers[0].name",
		`{"classes":[{"name":"a","match":{"headers":[{"name":"h"}]}}]}`:                            "classes[0].match.headers[0]",
		`{"classes":[{"name":"a","match":{"headers":[{"name":"h","present":false}]}}]}`:            "classes[0].match.headers[0].present",
		`{"classes":[{"name":"a","match":{"headers":[{"name":"h","prefix":""}]}}]}`:                "classes[0].match.headers[0].prefix",
		`{"classes":[{"name":"a","match":{"headers":[{"name":"h","exact":1}]}}]}`:                  "classes[0].match.headers[0].exact",
		`{"classes":[{"name":"a","match":{"headers":[{"name":"h","exact":"a","invert":1}]}}]}`:     "classes[0].match.headers[0].invert",
		`{"classes":[{"name":"a","match":{"headers":[{"name":"h","exact":"a","present":true}]}}]}`: "classes[0].match.headers[0]",
	}
	for in, want := range cases {
		_, err := ParseFilter([]byte(in))
		var field *FieldError
		if !errors.As(err, &field) || field.Field != want {
			t.Errorf("%s: %v, want an error of field %q", in, err, want)
		}
	}
}

// repeat writes a list of n with numbers in it.
func repeat(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ",")
}

func TestParseIdentitiesAndClasses(t *testing.T) {
	f, err := ParseRoute([]byte(`{
		"identities": {
			"user": [{"cookie":"session"},{"query":"api key"},{"literal":"nobody"}],
			"claim": {"metadata":{"namespace":"n","key":"k"}},
			"state": {"filter_state":"s"},
			"peer": {"source_address":{}},
			"client": {"source_address":{"trusted_hops":2,"ipv4_prefix":24,"ipv6_prefix":48}},
			"seen": {"source_address":{"from":"ENVOY"}},
			"who": [{"mtls":"subject"},{"mtls":"uri_san"},{"mtls":"dns_san"},{"mtls":"sha256"}],
			"where": [{"route":true},{"virtual_host":true},{"cluster":true}]},
		"requested_rate": {"filter_state":"rate"},
		"plan": [{"filter_state":"plan"},{"header":"X-Plan","trusted":true},{"literal":"free"}],
		"classes": [
			{"name":"a","match":{"methods":"GET","path":"/x","path_prefix":["/y","/z"]}},
			{"name":"b","match":[{"headers":[{"name":"X-A","present":true,"invert":true},{"name":"b","exact":""}]},
				{"headers":[{"name":"c","prefix":"1"},{"name":"d","suffix":"2"},{"name":"e","contains":"3"}]}]}]}`))
	address := func(a Address) []Source { return []Source{{Kind: SourceAddress, Address: a}} }
	want := &Filter{
		Identities: []Identity{
			{"claim", []Source{{Kind: Metadata, Namespace: "n", Text: "k"}}},
			{"client", address(Address{TrustedHops: 2, IPv4Prefix: 24, IPv6Prefix: 48})},
			{"peer", address(Address{IPv4Prefix: 32, IPv6Prefix: 64})},
			{"seen", address(Address{Envoys: true, IPv4Prefix: 32, IPv6Prefix: 64})},
			{"state", []Source{{Kind: FilterState, Text: "s"}}},
			{"user", []Source{{Kind: Cookie, Text: "session"},
				{Kind: Query, Text: "api key", Prefix: "query.api%20key:"},
				{Kind: Literal, Text: "nobody", Prefix: "literal:"}}},
			{"where", []Source{{Kind: Route}, {Kind: VirtualHost, Prefix: "virtual_host:"},
				{Kind: Cluster, Prefix: "cluster:"}}},
			{"who", []Source{{Kind: Subject}, {Kind: URISAN, Prefix: "mtls.uri_san:"},
				{Kind: DNSSAN, Prefix: "mtls.dns_san:"}, {Kind: Digest, Prefix: "mtls.sha256:"}}},
			{config.PlanIdentity, []Source{{Kind: FilterState, Text: "plan"}, {Kind: Header, Text: "x-plan"},
				{Kind: Literal, Text: "free"}}},
			{config.RateIdentity, []Source{{Kind: FilterState, Text: "rate"}}},
		},
		Classes: []Class{
			{"a", []Match{{Methods: []string{"GET"}, Paths: []string{"/x"}, PathPrefixes: []string{"/y", "/z"}}}},
			{"b", []Match{
				{Headers: []HeaderMatch{{"x-a", Present, "", true}, {"b", Exact, "", false}}},
				{Headers: []HeaderMatch{{"c", Prefix, "1", false}, {"d", Suffix, "2", false},
					{"e", Contains, "3", false}}},
			}},
		},
	}
	if err != nil || !reflect.DeepEqual(f, want) {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestParseBootstrap(t *testing.T) {
	b, err := ParseBootstrap([]byte(`{"agent_socket":"/run/titrate/agent.sock","replica":"gw-1","weight":2,
		"unknown_tenant":"REJECT","unknown_tenant_status":404,"boot_policy":"CLOSED","boot_wait":"1.5s",
		"keys":1e6,"contended_keys":250000,"concurrency":2}`))
	want := &Bootstrap{AgentSocket: "/run/titrate/agent.sock", Replica: "gw-1", Weight: 2,
		Unknown: limiter.UnknownReject, UnknownStatus: 404, Boot: limiter.BootClosed, BootWait: 1500 * time.Millisecond,
		Keys: 1_000_000, Contended: 250_000, Concurrency: 2}
	if err != nil || !reflect.DeepEqual(b, want) {
		t.Fatalf("%+v, %v", b, err)
	}
	b, err = ParseBootstrap([]byte(`{"agent_socket":"/a"}`))
	if err != nil || b.Replica == "" || b.Weight != 1 || b.Unknown != limiter.UnknownDefault ||
		b.UnknownStatus != 403 ||
		b.BootWait != 5*time.Second || b.Boot != limiter.BootOpen {
		t.Fatalf("defaults: %+v, %v", b, err)
	}
}

func TestBootstrapErrorsNameTheField(t *testing.T) {
	cases := map[string]string{
		`{}`:                            "agent_socket",
		`{"agent_socket":"agent.sock"}`: "agent_socket",
		`{"agent_socket":5}`:            "agent_socket",
		`{"agent_socket":"/` + strings.Repeat("a", 200) + `"}`:               "agent_socket",
		`{"agent_socket":"/a","weight":0}`:                                   "weight",
		`{"agent_socket":"/a","weight":-1}`:                                  "weight",
		`{"agent_socket":"/a","weight":2e6}`:                                 "weight",
		`{"agent_socket":"/a","keys":10}`:                                    "keys",
		`{"agent_socket":"/a","keys":1500.5}`:                                "keys",
		`{"agent_socket":"/a","concurrency":0}`:                              "concurrency",
		`{"agent_socket":"/a","boot_policy":"open"}`:                         "boot_policy",
		`{"agent_socket":"/a","boot_wait":"61s"}`:                            "boot_wait",
		`{"agent_socket":"/a","boot_wait":"-1s"}`:                            "boot_wait",
		`{"agent_socket":"/a","boot_wait":5}`:                                "boot_wait",
		`{"agent_socket":"/a","unknown_tenant_status":200}`:                  "unknown_tenant_status",
		`{"agent_socket":"/a","unknown_tenant":"ALLOW"}`:                     "unknown_tenant",
		`{"agent_socket":"/a","replica":"` + strings.Repeat("r", 300) + `"}`: "replica",
		`{"agent_socket":"/a","sockets":1}`:                                  "sockets",
	}
	for in, want := range cases {
		_, err := ParseBootstrap([]byte(in))
		var field *FieldError
		if !errors.As(err, &field) || field.Field != want || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error of field %q", in, err, want)
		}
	}
}

// The first field that needs Envoy 1.40 is named.
func TestCheckBefore140(t *testing.T) {
	for in, want := range map[string]string{
		`{"client":{"source_address":{}}}`:                                                   "client.source_address",
		`{"tenant":{"virtual_host":true}}`:                                                   "tenant.virtual_host",
		`{"plan":{"virtual_host":true}}`:                                                     "plan.virtual_host",
		`{"requested_rate":{"virtual_host":true}}`:                                           "requested_rate.virtual_host",
		`{"client":{"source_address":{"trusted_hops":1}}}`:                                   "client.source_address",
		`{"tenant":[{"header":"a"},{"source_address":{"from":"PEER"}}]}`:                     "tenant[1].source_address",
		`{"identities":{"a":{"source_address":{"from":"ENVOY"}},"b":{"source_address":{}}}}`: "identities.b.source_address",
		`{"client":{"source_address":{"from":"ENVOY"}},"pool":{"route":true}}`:               "",
	} {
		f, err := ParseRoute([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		err = f.CheckBefore140()
		var field *FieldError
		if want == "" && err != nil || want != "" && (!errors.As(err, &field) || field.Field != want) {
			t.Errorf("%s: %v, want an error of field %q", in, err, want)
		}
	}
}

// Whatever Envoy hands over: a configuration or a FieldError, never a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"tenant":[{"header":"x-tenant"},{"route":true}],"pool":{"literal":"a"},"cost":{"literal":1}}`))
	f.Add([]byte(`{"enabled":false,"mode":"SHADOW","reject_status":503,"reject_body":"TEXT",
		"peek":{"header":"p"},"response_cost":{"metadata":{"namespace":"n","key":"k"}},"access_log":false,"reason_header":""}`))
	f.Add([]byte(`{"agent_socket":"/a","weight":2,"keys":1e6}`))
	f.Add([]byte(`{"enabled":false,"identities":{"a":{"source_address":{"trusted_hops":2}},
		"b":[{"mtls":"subject"},{"metadata":{"namespace":"n","key":"k"}}]}}`))
	f.Add([]byte(`{"enabled":false,"costs":{"a":1,"b":{"cost":[{"header":"x"}],"response_cost":{"usage":"INPUT",
		"estimate":{"first":2,"percentile":50}}}},"response_usage":{"format":"JSON_POINTER","input":"/u/~1/0"}}`))
	f.Add([]byte(`{"enabled":false,"classes":[{"name":"a","match":[{"methods":"GET","path":["/"]},
		{"headers":[{"name":"h","exact":"","invert":true}]}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var field *FieldError
		parsed, err := ParseFilter(raw)
		if err != nil && !errors.As(err, &field) {
			t.Fatalf("not a FieldError: %v", err)
		}
		if err == nil && parsed.On() && (len(parsed.Tenant) == 0 || len(parsed.Pool) == 0) {
			t.Fatalf("accepted without tenant or pool: %s", raw)
		}
		if _, err := ParseBootstrap(raw); err != nil && !errors.As(err, &field) {
			t.Fatalf("not a FieldError: %v", err)
		}
	})
}

// Costs are sorted by name; a number is what each request costs. An override may have none.
func TestParseCosts(t *testing.T) {
	f, err := ParseRoute([]byte(`{"costs":{"requests":2,"output":{"cost":[{"header":"X-Max"}],
		"response_cost":{"usage":"OUTPUT"}}},"response_usage":{"format":"JSON_POINTER","output":"/a~1b/~01"}}`))
	want := []Cost{
		{Name: "output", Sources: []Source{{Kind: Header, Text: "x-max"}},
			Response: ResponseCost{From: CostUsage, Usage: UsageOutput, Estimate: Estimate{1, 1e-6, 1e6, 90}}},
		{Name: "requests", Sources: []Source{{Kind: Literal, Number: 2}}},
	}
	if err != nil || !reflect.DeepEqual(f.Costs, want) {
		t.Errorf("%+v, %v", f, err)
	}
	if path := []UsagePath{{Keys: []string{"a/b", "~1"}, Counts: UsageOutput, Field: 1}}; !reflect.DeepEqual(f.Usage, path) {
		t.Errorf("%+v, want %+v", f.Usage, path)
	}
	if f, err = ParseRoute([]byte(`{"costs":false}`)); err != nil || f.Costs == nil || len(f.Costs) > 0 {
		t.Errorf("switched off: %+v, %v", f, err)
	}
	for name, paths := range usageFormats {
		if len(paths) > MaxUsagePaths {
			t.Errorf("%s has %d paths, C has room for %d", name, len(paths), MaxUsagePaths)
		}
	}
}
