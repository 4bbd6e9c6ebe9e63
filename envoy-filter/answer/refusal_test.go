package answer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/titrate/titrate/control/limiter"
)

func TestRetrySeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 1, -time.Hour: 1, time.Nanosecond: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90,
	} {
		if got := RetrySeconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}

func TestGRPCStatus(t *testing.T) {
	for r, want := range map[limiter.Reason]int{
		limiter.ClientLimit: 8, limiter.TenantShare: 8, limiter.UnknownTenant: 7, limiter.NotConfigured: 14,
		InternalError: 14,
	} {
		if got := GRPCStatus(r); got != want || len(Summary(r)) > 16 {
			t.Errorf("%s: %d %q, want %d", ReasonName(r), got, Summary(r), want)
		}
	}
}

func TestStatus(t *testing.T) {
	for r, want := range map[limiter.Reason]int{
		limiter.ClientLimit: 429, limiter.TenantShare: 429, limiter.QueueFull: 429, limiter.QueueTimeout: 429,
		limiter.UnknownTenant: 403, limiter.NotConfigured: 503, InternalError: 503,
	} {
		if got := Status(r, 429, 403); got != want || ReasonName(r) == "" {
			t.Errorf("%s: %d, want %d", ReasonName(r), got, want)
		}
	}
}

// Whatever a client calls its tenant and its request, the body is JSON of bounded length.
func FuzzBody(f *testing.F) {
	f.Add("acme", "")
	f.Add("\"\\\x00\xff\u2028<é", "0f7e6d5c-1b2a-4c3d-8e9f-001122334455")
	f.Add(strings.Repeat("\x01", 500), strings.Repeat("<", 500))
	f.Fuzz(func(t *testing.T, tenant, request string) {
		body := AppendBody(nil, tenant, request, limiter.ClientLimit)
		var v struct{ Error, Reason, Tenant, Request string }
		if err := json.Unmarshal(body, &v); err != nil || len(body) > 1280 || v.Reason != "client_limit" {
			t.Fatalf("%q: %v", body, err)
		}
		if utf8.ValidString(tenant) && !strings.HasPrefix(tenant, v.Tenant) {
			t.Fatalf("%q became %q", tenant, v.Tenant)
		}
		if utf8.ValidString(request) && !strings.HasPrefix(request, strings.TrimRight(v.Request, "\ufffd")) {
			t.Fatalf("%q became %q", request, v.Request)
		}
	})
}
