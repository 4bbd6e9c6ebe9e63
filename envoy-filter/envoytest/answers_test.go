package envoytest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// reply is a step with the required headers of its response: pairs of a header (or "body") and a regular
// expression; "" is absent.
type reply struct {
	step
	pairs []string
}

// startLimited starts an example's Envoy with one limit per client.
func startLimited(t *testing.T, file string, burst float64) *envoy {
	t.Helper()
	e, _ := launch{example: file, concurrency: 1}.linked(t, setup(1, config.Queue{}, limited("acme", 0.01, burst)))
	return e
}

func (e *envoy) expect(steps []reply) {
	e.t.Helper()
	for i, s := range steps {
		header := s.header
		if !slices.Contains(header, "x-tenant") {
			header = append(headers("x-tenant", "acme"), header...)
		}
		a := e.get(s.ask, header...)
		if a.status != s.status {
			e.t.Errorf("step %d, %s: status %d, want %d\n%+v", i, s.what, a.status, s.status, a)
		}
		for j := 0; j+1 < len(s.pairs); j += 2 {
			got := a.header.Get(s.pairs[j])
			if s.pairs[j] == "body" {
				got = a.body
			}
			if !regexp.MustCompile("(?s)^(" + s.pairs[j+1] + ")$").MatchString(got) {
				e.t.Errorf("step %d, %s: %s is %q, want %s", i, s.what, s.pairs[j], got, s.pairs[j+1])
			}
		}
	}
	e.alive()
}

func ask(what, path string, status int, header []string, pairs ...string) reply {
	return reply{step{what, path, header, status, ""}, pairs}
}

func TestAnswersRateLimitHeaders(t *testing.T) {
	t.Parallel()
	const policy = `"per-client";q=2;w=200`
	startLimited(t, "answers-ratelimit-headers.yaml", 2).expect([]reply{
		ask("the first", "/", 200, nil, "ratelimit-policy", policy, "ratelimit", `"per-client";r=1;t=100`,
			"retry-after", ""),
		ask("the last", "/", 200, nil, "ratelimit", `"per-client";r=0;t=100`, "x-titrate-reason", "",
			"x-envoy-ratelimited", ""),
		ask("one too many", "/", 429, nil, "ratelimit-policy", policy, "ratelimit", `"per-client";r=0;t=100`,
			"retry-after", "100", "x-titrate-reason", "client_limit", "x-envoy-ratelimited", "true", "content-type", "application/json", "body",
			`\{.*"reason":"client_limit".*\}\n`),
		ask("by who wants text", "/", 429, headers("accept", "text/plain, */*"), "content-type", "text/plain", "body",
			"rate limited: client_limit\n"),
		ask("by who would take JSON", "/", 429, headers("accept", "application/json, text/plain"), "content-type",
			"application/json"),
		ask("in gRPC", "/", 200, headers("content-type", "application/grpc"), "grpc-status", "8",
			"x-envoy-ratelimited", "true",
			"grpc-message", "rate limited: client_limit", "grpc-retry-pushback-ms", `9\d{4}|100000`, "body", ""),
		ask("no gRPC", "/", 429, headers("content-type", "application/grpcx"), "grpc-status", ""),
		ask("a partner", "/partner", 503, nil, "ratelimit", "", "x-titrate-reason", "", "retry-after", "100", "body",
			"rate limited: client_limit\n"),
		ask("a partner admitted", "/partner", 200, headers("x-client", "p"), "ratelimit", ""),
	})
}

// A congestion header of the client does not reach the upstream if Titrate sets marks.
func TestForgedMark(t *testing.T) {
	t.Parallel()
	e := startLimited(t, "answers-ratelimit-headers.yaml", 100)
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "mark %q", r.Header.Get("x-titrate-congestion"))
	})
	e.expect([]reply{ask("forged", "/", 200, headers("x-titrate-congestion", "1"), "body", `mark ""`)})
}

// The client and the upstream get the same marks.
func TestMarkUpstream(t *testing.T) {
	t.Parallel()
	e, _ := launch{example: "answers-ratelimit-headers.yaml", concurrency: 2}.linked(t, setup(1,
		config.Queue{Law: config.VariableStructure, DelayTarget: 50 * time.Millisecond}, capped("acme", 300)))
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-seen", r.Header.Get("x-titrate-congestion"))
	})
	marked := 0
	e.eventually("a mark", func() bool {
		for a := range many(t.Context(), e, 60, "x-tenant", "acme") {
			if a.status != 200 {
				continue
			}
			if answer, seen := a.header.Get("x-titrate-congestion"), a.header.Get("x-seen"); answer != seen {
				t.Errorf("the client sees %q, the upstream %q", answer, seen)
			} else if answer == "1" {
				marked++
			}
		}
		return marked > 0
	})
	e.alive()
}

func TestShadow(t *testing.T) {
	t.Parallel()
	e := startLimited(t, "shadow.yaml", 2)
	e.expect([]reply{
		ask("not decided", "/static/1", 200, nil), ask("not decided", "/static/2", 200, nil),
		ask("not decided", "/static/3", 200, nil),
		ask("within the limit", "/1", 200, nil), ask("enforced, within", "/checkout/2", 200, nil),
		ask("would be refused", "/3", 200, nil, "retry-after", "", "x-titrate-reason", "", "body", "upstream 0"),
		ask("enforced", "/checkout/4", 429, nil, "x-titrate-reason", "client_limit"),
	})
	e.eventually("the counters", func() bool {
		return e.metric(outcome("api", "client_limit")) == 1 && e.metric(`titrate_shadowed_total{pool="api"}`) == 1
	})
	lines := e.lines("access ")
	for _, want := range []string{"/static/1 200 - - -", "/1 200 - - -", "/3 200 shadow client_limit per-client",
		"/checkout/4 429 rejected client_limit per-client"} {
		if !strings.Contains(lines, want+"\n") {
			t.Errorf("the access log has no %q:\n%s", want, lines)
		}
	}
}

// lines ends Envoy, which flushes its logs, and returns the lines with a prefix.
func (e *envoy) lines(prefix string) string {
	e.t.Helper()
	e.cmd.Process.Signal(syscall.SIGTERM)
	<-e.exited
	var b strings.Builder
	for line := range strings.Lines(e.log.String()) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			b.WriteString(rest)
		}
	}
	return b.String()
}

func TestPeek(t *testing.T) {
	t.Parallel()
	e := startLimited(t, "peek.yaml", 2)
	peek := headers("x-titrate-peek", "1")
	full := `"per-client";r=2`
	e.expect([]reply{
		ask("unused", "/", 200, peek, "ratelimit", full, "ratelimit-policy", ".+", "body",
			`\{"verdict":"admit","limit":"per-client",.*"remaining":2,.*\n`),
		ask("a look changes nothing", "/", 200, peek, "ratelimit", full),
		ask("a request", "/", 200, nil, "body", "upstream 0", "ratelimit", ""),
		ask("one left", "/", 200, peek, "ratelimit", `"per-client";r=1;t=100`),
		ask("a request", "/", 200, nil),
		ask("none left", "/", 429, peek, "ratelimit", `"per-client";r=0;t=100`, "retry-after", "100",
			"x-titrate-reason", "client_limit"),
		ask("another client", "/", 200, headers("x-titrate-peek", "1", "x-client", "bob"), "ratelimit", full),
	})
	e.eventually("the counters", func() bool { return e.metric(outcome("api", "admitted")) == 2 })
	if n := e.metric(outcome("api", "client_limit")); n != 0 {
		t.Errorf("%v looks were counted as refused requests", n)
	}
}

// costUpstream sends the cost in the request's header x-send, in the place that the path names.
func costUpstream(w http.ResponseWriter, r *http.Request) {
	cost := r.Header.Get("x-send")
	switch {
	case r.URL.Path == "/hang":
		<-r.Context().Done()
		return
	case r.URL.Path == "/empty":
		w.Header().Set("x-tokens", "")
		fmt.Fprint(w, "no cost")
		return
	case cost == "":
	case r.URL.Path == "/metadata":
		w.Header().Set("x-lua-tokens", cost)
	case r.URL.Path == "/trailer":
		w.Header().Set("Trailer", "x-tokens")
		fmt.Fprint(w, "body")
		w.Header().Set("x-tokens", cost)
		return
	case r.URL.Path == "/login":
		w.Header().Set("x-failures", cost)
	default:
		w.Header().Set("x-tokens", cost)
	}
	fmt.Fprint(w, "cost ", cost)
}

func TestResponseCost(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		path string
		sent string
		cost string // the true one
	}{
		"dearer": {"/", "700", "700"}, "cheaper": {"/", "12.5", "12.5"}, "free": {"/", "0", "0"},
		"unsaid": {"/", "", "500"}, "nonsense": {"/", "many", "500"}, "negative": {"/", "-4", "500"},
		"empty": {"/empty", " ", "500"}, "infinite": {"/", "inf", "500"}, "no number": {"/", "nan", "500"},
		"trailer": {"/trailer", "40", "40"}, "metadata": {"/metadata", "60", "60"},
		"a login that is right": {"/login", "0", "0"}, "a login that is wrong": {"/login", "1", "1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := startLimited(t, "response-cost.yaml", 1000)
			e.upstream.Config.Handler = http.HandlerFunc(costUpstream)
			e.expect([]reply{ask("a request", c.path, 200, headers("x-send", c.sent))})
			want := e.left(c.cost)
			e.eventually("what is left", func() bool { return want("/", 1000) })
		})
	}
}

// left returns a check that a burst minus cost is left: a request that costs one unit more is refused, a
// request that costs exactly the rest passes. Refused requests charge nothing, so the check can be repeated.
func (e *envoy) left(cost string) func(path string, burst float64) bool {
	return func(path string, burst float64) bool {
		var gone float64
		fmt.Sscan(cost, &gone)
		a := e.get(path, "x-tenant", "acme", "x-max-tokens", fmt.Sprint(burst-gone+1))
		if a.status != 429 {
			e.t.Fatalf("more than %v of %v is left: %+v", burst-gone, burst, a)
		}
		a = e.get(path, "x-tenant", "acme", "x-max-tokens", fmt.Sprint(burst-gone))
		return a.status == 200
	}
}

// A client in debt is refused, but not forever. After an abort the estimate stands. A refusal costs nothing,
// whatever cost the response has.
func TestResponseCostDebtAndAborts(t *testing.T) {
	t.Parallel()
	e, _ := launch{example: "response-cost.yaml", concurrency: 1}.linked(t,
		setup(1, config.Queue{}, limited("acme", 1000, 1000), limited("other", 1000, 1000)))
	e.upstream.Config.Handler = http.HandlerFunc(costUpstream)
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.front, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /hang HTTP/1.1\r\nhost: x\r\nx-tenant: acme\r\nx-client: gone\r\n\r\n")
	e.eventually("the request upstream", func() bool { return e.metric(outcome("api", "admitted")) == 1 })
	conn.Close()
	e.expect([]reply{
		ask("a wrong number", "/", 200, headers("x-send", "1e9")),
		ask("in debt", "/", 429, headers("x-send", "1e9"), "retry-after", "2"),
		ask("another tenant", "/", 200, headers("x-tenant", "other", "x-send", "1")),
	})
	e.eventually("the end of the silence", func() bool { return e.get("/", "x-tenant", "acme").status == 200 })
	e.alive()
}

// A charge is corrected once per request, however often Envoy retries and wherever the
// request is redirected. A mirrored request is not charged.
func TestResponseCostOncePerRequest(t *testing.T) {
	t.Parallel()
	last := "              - match: { prefix: / }\n                route: { cluster: api }\n"
	routes := edit{last, `              - match: { prefix: / }
                route:
                  cluster: api
                  retry_policy: { retry_on: 5xx, num_retries: 3 }
                  internal_redirect_policy: {}
                  request_mirror_policies: [{ cluster: api, runtime_fraction: { default_value: { numerator: 100 } } }]
`}
	for what, c := range map[string]struct{ path, cost string }{
		"retried": {"/flaky", "7"}, "gives up": {"/broken", "30"}, "redirected": {"/moved", "7"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if what == "redirected" {
				needRedirects(t)
			}
			e, _ := launch{example: "response-cost.yaml", concurrency: 1, edits: []edit{routes}}.linked(t,
				setup(1, config.Queue{}, limited("acme", 0.01, 1000)))
			e.upstream.Config.Handler = failingUpstream()
			e.get(c.path, "x-tenant", "acme")
			want := e.left(c.cost)
			e.eventually("what is left", func() bool { return want("/", 1000) })
			e.alive()
		})
	}
}

// failingUpstream fails twice, or always, or redirects, and has a cost in each response.
// It ignores mirrored requests, which it finds by their host.
func failingUpstream() http.HandlerFunc {
	var tried atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Host, "-shadow") {
			w.Header().Set("x-tokens", "99")
			return
		}
		w.Header().Set("x-tokens", "7")
		switch r.URL.Path {
		case "/broken":
			w.Header().Set("x-tokens", "30")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/flaky":
			if tried.Add(1) < 3 {
				w.Header().Set("x-tokens", "100")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/moved":
			w.Header().Set("location", "http://"+r.Host+"/")
			w.WriteHeader(http.StatusFound)
		}
	}
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	queue := config.Queue{Law: config.DropTail, MaxWait: 2 * time.Second, MaxRequests: 10}
	state := setup(1, config.Queue{}, config.Tenant{Name: "acme", Weight: 1,
		Limits: []config.Limit{{Name: "patient", Rate: 1, Burst: 1, Queue: queue}}},
		limited("other", 0.001, 1))
	e, _ := launch{example: "access-log.yaml", concurrency: 1}.linked(t, state)
	for i, header := range [][]string{
		{"x-tenant", "acme", "x-client", "alice"}, {"x-tenant", "acme", "x-client", "alice"},
		{"x-tenant", "other"}, {"x-tenant", "other"}, {"x-tenant", "\xff\x80é"},
	} {
		e.get(fmt.Sprintf("/%d", i), header...)
	}
	entries := e.accessLog()
	const alice = "2bd806c97f0e00af" // echo -n alice | sha256sum | head -c 16
	for path, want := range map[string]map[string]any{
		"/0": {"outcome": "admitted", "reason": nil, "tenant": "acme", "client": alice, "pool": "api", "wait_ms": 0.0,
			"status": 200.0},
		"/1": {"outcome": "admitted", "tenant": "acme", "client": alice},
		"/3": {"outcome": "rejected", "reason": "client_limit", "limit": "per-client", "client": nil, "status": 429.0,
			"details": "titrate_client_limit"},
		"/4": {"outcome": "rejected", "reason": "unknown_tenant", "tenant": "????",
			"details": "titrate_unknown_tenant"},
	} {
		for key, value := range want {
			if got := entries[path][key]; got != value {
				t.Errorf("%s: %s is %v, want %v in %v", path, key, got, value, entries[path])
			}
		}
	}
	if ms, _ := entries["/1"]["wait_ms"].(float64); ms < 20 || ms > 2000 {
		t.Errorf("a request held for its limit of 1/s: %v", entries["/1"])
	}
}

// Requests that are sent without waiting for answers. Envoy closes the connection soon after a local reply,
// from the filter or from a direct_response: the filter loses no more answers than a direct_response.
func TestPipelining(t *testing.T) {
	t.Parallel()
	direct := edit{"              - match: { prefix: /partner }\n                route: { cluster: api }\n",
		"              - match: { prefix: /direct }\n                direct_response: { status: 429 }\n" +
			"              - match: { prefix: /partner }\n                route: { cluster: api }\n"}
	e, _ := launch{example: "answers-ratelimit-headers.yaml", concurrency: 1, edits: []edit{direct}}.linked(t,
		setup(1, config.Queue{}, limited("acme", 0.001, 1), limited("free", 1000, 1000)))
	answered := map[string]int{}
	e.get("/", "x-tenant", "acme") // the burst
	for path, tenant := range map[string]string{"/direct": "free", "/": "acme"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(e.front, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(conn, strings.Repeat("GET "+path+" HTTP/1.1\r\nhost: x\r\nx-tenant: "+tenant+"\r\n\r\n", 5))
		r := bufio.NewReader(conn)
		for answered[path] < 5 {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				break
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			answered[path]++
		}
	}
	if answered["/"] < answered["/direct"] || answered["/"] == 0 {
		t.Errorf("answers to five pipelined requests: %v", answered)
	}
}
