package settings

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/limiter"
)

func TestParseFilter(t *testing.T) {
	f, err := ParseFilter([]byte(`{
		"tenant": [{"header":"X-Tenant"},{"route":true}], "client": {"header":"x-client"},
		"pool": {"literal":"api"}, "cost": [{"header":"x-cost"},{"literal":2.5}], "enabled": false}`))
	f.Answers = Answers{} // tested beside
	off := false
	want := &Filter{
		Tenant:  []Source{{Kind: Header, Text: "x-tenant"}, {Kind: Route}},
		Client:  []Source{{Kind: Header, Text: "x-client"}},
		Pool:    []Source{{Kind: Literal, Text: "api"}},
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
		`{"tenant":[{"header":"a"},{"header":"b c"}]}`: "tenant[1].header",
		`{"tenant":{"header":7}}`:                      "tenant.header",
		`{"tenant":{"header":null}}`:                   "tenant.header",
		`{"tenant":{"literal":""}}`:                    "tenant.literal",
		`{"tenant":{"route":false}}`:                   "tenant.route",
		`{"cost":{"route":true}}`:                      "cost.route",
		`{"cost":{"literal":0}}`:                       "cost.literal",
		`{"cost":{"literal":"1"}}`:                     "cost.literal",
		`{"enabled":"yes"}`:                            "enabled",
	}
	for in, want := range cases {
		_, err := ParseFilter([]byte(in))
		var field *FieldError
		if !errors.As(err, &field) || field.Field != want {
			t.Errorf("%s: %v, want an error of field %q", in, err, want)
		}
	}
}

func TestParseBootstrap(t *testing.T) {
	b, err := ParseBootstrap([]byte(`{"agent_socket":"/run/titrate/agent.sock","replica":"gw-1","weight":2,
		"unknown_tenant":"REJECT","boot_policy":"CLOSED","keys":1e6,"concurrency":2}`))
	want := &Bootstrap{AgentSocket: "/run/titrate/agent.sock", Replica: "gw-1", Weight: 2,
		Unknown: limiter.UnknownReject, Boot: limiter.BootClosed, Keys: 1_000_000, Concurrency: 2}
	if err != nil || !reflect.DeepEqual(b, want) {
		t.Fatalf("%+v, %v", b, err)
	}
	b, err = ParseBootstrap([]byte(`{"agent_socket":"/a"}`))
	if err != nil || b.Replica == "" || b.Weight != 1 || b.Unknown != limiter.UnknownDefault || b.Boot != limiter.BootOpen {
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
		`{"agent_socket":"/a","keys":10}`:                                    "keys",
		`{"agent_socket":"/a","keys":1500.5}`:                                "keys",
		`{"agent_socket":"/a","concurrency":0}`:                              "concurrency",
		`{"agent_socket":"/a","boot_policy":"open"}`:                         "boot_policy",
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

// Whatever Envoy hands over: a configuration or a FieldError, never a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"tenant":[{"header":"x-tenant"},{"route":true}],"pool":{"literal":"a"},"cost":{"literal":1}}`))
	f.Add([]byte(`{"agent_socket":"/a","weight":2,"keys":1e6}`))
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
