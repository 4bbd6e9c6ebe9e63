package process

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/titrate/titrate/lab/dev/load"
)

// callersSpan is the span that the callers of traced requests say that they are in.
const callersSpan = "00f067aa0ba902b7"

// traceOfHeldRequests sends requests that wait, once for their tenant's share and once for the owner of an
// EXACT limit's key. Each trace goes on through the wait. It has the caller's span, Envoy's span of the
// request with the decision, and its span of the call of the upstream, which begins after the wait.
func (w *system) traceOfHeldRequests(t *testing.T) {
	w.apply(exactLimits)
	w.inForce(t, patience)
	for _, of := range []struct {
		wait, tenant string
		requests     int
		client       func(i int) string
		leastMs      int // the least wait of one of them
	}{
		{"its share", "held", 40, func(int) string { return "traced" }, 50},
		{"its owner", "exact", 20, func(i int) string { return fmt.Sprint("traced-", i) }, 0},
	} {
		var all sync.WaitGroup
		traces := make([]string, of.requests)
		for i := range traces {
			traces[i] = fmt.Sprintf("%s%08x", hex.EncodeToString([]byte(of.tenant + "-requests")[:12]), i)
			all.Go(func() { w.traced(t, w.fronts[i%gateways], traces[i], of.tenant, of.client(i)) })
		}
		all.Wait()
		eventually(t, "spans of requests that waited for "+of.wait, patience, func() string {
			held, longest := 0, 0
			for _, trace := range traces {
				request, upstream := w.receiver.request(trace)
				if request == nil || upstream == nil {
					return "a request lacks a span, in trace " + trace
				}
				ms, waited := heldFor(t, request, upstream)
				if waited {
					held, longest = held+1, max(longest, ms)
				}
			}
			if held == 0 || longest < of.leastMs {
				return fmt.Sprintf("%d of %d waited, for %d ms at most", held, len(traces), longest)
			}
			return ""
		})
	}
}

// traced sends a request of a caller that has a trace.
func (w *system) traced(t *testing.T, front, trace, tenant, client string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front, nil)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set(load.TenantHeader, tenant)
	req.Header.Set(load.ClientHeader, client)
	req.Header.Set("traceparent", "00-"+trace+"-"+callersSpan+"-01")
	req.Header.Set("x-client-trace-id", trace) // without it Envoy does not trace the request
	resp, err := w.client.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a request of %s was answered with %s", tenant, resp.Status)
	}
}

// request has Envoy's two spans of a trace. They belong to the request, whose parent is the caller's, and to
// the call of the upstream, whose parent is that. They are nil if they have not come.
func (r *receiver) request(trace string) (request, upstream *tracev1.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if hex.EncodeToString(s.TraceId) == trace && hex.EncodeToString(s.ParentSpanId) == callersSpan {
			request = s
		}
	}
	for _, s := range r.spans {
		if request != nil && string(s.TraceId) == string(request.TraceId) &&
			string(s.ParentSpanId) == string(request.SpanId) {
			upstream = s
		}
	}
	return request, upstream
}

// heldFor returns how long a request waited, from its span; waited is false if it was admitted at once.
func heldFor(t *testing.T, request, upstream *tracev1.Span) (ms int, waited bool) {
	said := map[string]string{}
	for _, a := range request.Attributes {
		if said[a.Key] = a.Value.GetStringValue(); strings.HasPrefix(a.Key, "titrate.") &&
			strings.Contains(said[a.Key], "traced") {
			t.Errorf("%s has the name of a client: %q", a.Key, said[a.Key])
		}
	}
	outcome, waited := said["titrate.outcome"]
	if !waited {
		return 0, false
	}
	ms, err := strconv.Atoi(said["titrate.wait_ms"])
	if err != nil || outcome != "admitted" {
		t.Errorf("outcome %q, wait_ms %q: %v", outcome, said["titrate.wait_ms"], err)
	}
	before := time.Duration(upstream.StartTimeUnixNano - request.StartTimeUnixNano)
	if before < time.Duration(ms)*time.Millisecond {
		t.Errorf("the upstream was called after %v, the request waited for %d ms", before, ms)
	}
	return ms, true
}
