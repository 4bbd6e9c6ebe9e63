package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/rest"
	"github.com/titrate/titrate/services/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

func bytes1000(string) intake.Bounds { return intake.Bounds{Bytes: 1000, Entries: 100} }
func bytes1M(string) intake.Bounds   { return intake.Bounds{Bytes: 1 << 20, Entries: 10_000} }

// served is the API on a separate store.
type served struct {
	t    *testing.T
	base string
}

func serve(t *testing.T, of rest.Options) served {
	t.Helper()
	s := rest.New(of)
	quota.New(storetest.Open(t), nil).Register(s)
	quotav1.RegisterAccessServiceServer(s, access.NewServer(nil))
	handler, err := s.Handler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return served{t, server.URL}
}

// ask returns the status and the body of an answer. A body that begins with @ has no length.
func (s served) ask(method, path, body string, headers ...string) (int, string) {
	s.t.Helper()
	var in io.Reader = strings.NewReader(body)
	if rest, is := strings.CutPrefix(body, "@"); is {
		in = io.MultiReader(strings.NewReader(rest))
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, in)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := answer.Header.Get("Content-Type"); got != "application/json" {
		s.t.Errorf("%s %s: content type %s", method, path, got)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		s.t.Errorf("%s %s: %v: %s", method, path, err, text)
	}
	return answer.StatusCode, compact.String()
}

func (s served) must(method, path, body string) string {
	s.t.Helper()
	status, text := s.ask(method, path, body)
	if status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// failed is the body of an error.
type failed struct {
	Status  int
	Code    string
	Message string
	Fields  []struct{ Field, Message string }
}

// A request that is wrong is refused, with a status, a code and a sentence that says where.
func TestWhatIsWrongIsSaid(t *testing.T) {
	in := intake.New(intake.Options{Log: slog.New(slog.DiscardHandler)})
	s := serve(t, rest.Options{Bounds: bytes1000, Room: in})
	s.must("POST", "/v1alpha1/pools", `{"name":"pools/api","capacity":300}`)
	s.must("POST", "/v1alpha1/tenants", `{"name":"tenants/acme"}`)
	s.must("POST", "/v1alpha1/tenants/acme/quotas?quota_id=api", `{}`)
	large := `{"name":"pools/b` + strings.Repeat("x", 1000) + `"}`
	many := `{"resources":[{}` + strings.Repeat(",{}", 100) + `]}`
	for _, c := range []struct {
		method, path, body string
		status             int
		code, want         string
	}{
		{"POST", "/pools", "{\"name\":\"pools/b\",\n \"capactiy\":1}", 400, "INVALID_ARGUMENT",
			"body:2: capactiy: unknown field; known are name, capacity, sharing, alpha, guarantee, queue, onLoss, " +
				"hardExpiry, adaptive, cost, etag; did you mean capacity?"},
		{"POST", "/tenants/acme/limits?limit_id=l", "{\"rate\":100,\n\"mode\":\"shadow\"}", 400, "INVALID_ARGUMENT",
			"body:1: rate: want a rate with its unit, such as 100/s, 100/min or 100/h, found 100; " +
				`body:2: mode: want one of ENFORCE, SHADOW, OFF, found "shadow"; did you mean SHADOW?`},
		{"POST", ":apply", `{"resources":[{"pool":{"name":"pools/b","alpha":"many"}}],"expectedRevision":"1"}`, 400,
			"INVALID_ARGUMENT", `body:1: resources[0].pool.alpha: want a number, found "many"`},
		{"POST", "/pools", `{"name":"pools/b","capacity":"300","queue":{"maxWait":"50ms"}}`, 400, "INVALID_ARGUMENT",
			`body:1: queue.maxWait: want a duration in seconds, such as 0.05s or 60s, found "50ms"`},
		{"DELETE", "/pools/api?force=yes", "", 400, "INVALID_ARGUMENT",
			`query parameter "force": want true or false, found "yes"`},
		{"POST", "/pools", "{\"name\":\"pools/b\",\n oops}", 400, "INVALID_ARGUMENT", "body: line 2: invalid character"},
		{"POST", "/pools", "{} {}", 400, "INVALID_ARGUMENT", "body: line 1"},
		{"POST", "/pools", "", 400, "INVALID_ARGUMENT", "pool"},
		{"POST", "/pools", `{"name":"pools/b","capacity":-1}`, 400, "INVALID_ARGUMENT", "pool.capacity: must be greater"},
		{"POST", ":apply", `{"resources":[{"pool":{"name":"pools/b"}}]}`, 400, "INVALID_ARGUMENT",
			"resources[0].pool.capacity: "},
		{"POST", "/pools", `{"name":"pools/api","capacity":1}`, 409, "ALREADY_EXISTS", "pools/api"},
		{"POST", "/tenants/x/quotas?quota_id=api", `{}`, 400, "FAILED_PRECONDITION", "tenants/x"},
		{"DELETE", "/tenants/acme", "", 400, "FAILED_PRECONDITION", "tenants/acme"},
		{"GET", "/pools/none", "", 404, "NOT_FOUND", "pools/none"},
		{"PUT", "/pools/api", `{"capacity":1,"etag":"1"}`, 409, "ABORTED", "etag does not match"},
		{"PATCH", "/pools/api", `{"capacity":1,"etag":"1"}`, 409, "ABORTED", "etag does not match"},
		{"DELETE", "/pools/api?etag=1&force=true", "", 409, "ABORTED", "etag does not match"},
		{"PATCH", "/pools/api", `{}`, 400, "INVALID_ARGUMENT", "no field to change; PUT"},
		{"PATCH", "/tenants/acme", `{"etag":"1","name":"tenants/acme"}`, 400, "INVALID_ARGUMENT", "no field to change"},
		{"PATCH", "/pools/api", ``, 400, "INVALID_ARGUMENT", "no field to change"},
		{"PATCH", "/pools/api?pool.capacity=5", `{"alpha":1}`, 400, "INVALID_ARGUMENT",
			`query parameter "pool.capacity": want one of updateMask, allowMissing, validateOnly`},
		{"GET", "/pools?pagesize=1", "", 400, "INVALID_ARGUMENT", `"pagesize": want one of pageSize, pageToken`},
		{"GET", "/pools?page_size=many", "", 400, "INVALID_ARGUMENT",
			`query parameter "page_size": want a whole number, found "many"`},
		{"GET", "/pools?page_token=x", "", 400, "INVALID_ARGUMENT", "page_token"},
		{"POST", ":apply?validate_only=true", `{"resources":[]}`, 400, "INVALID_ARGUMENT", "say it in the body"},
		{"GET", "/revisions/last", "", 400, "INVALID_ARGUMENT", "revision"},
		{"GET", "/revisions/1", "", 404, "NOT_FOUND", "1"},
		{"GET", "/tenants/acme:why", "", 503, "UNAVAILABLE", ""},
		{"GET", "/nothing", "", 404, "NOT_FOUND", "nothing is at /v1alpha1/nothing; /openapi.json"},
		{"POST", "/tenants/acme/limits?limit_id=l", `{"rate":"5/s","burst":0}`, 400, "INVALID_ARGUMENT",
			"body:1: burst: 0 must be at least 1"},
		{"POST", "/tenants/acme/limits?limit_id=l", `{"rate":"5/s","overrides":[{"client":"c","rate":"1/s","burst":"0"}]}`,
			400, "INVALID_ARGUMENT", "body:1: overrides[0].burst: 0 must be at least 1"},
		{"POST", ":apply", `{"resources":[{"limit":{"name":"tenants/acme/limits/l","rate":"1/s","burst":0.0}}]}`, 400,
			"INVALID_ARGUMENT", "body:1: resources[0].limit.burst: 0 must be at least 1"},
		{"POST", "/tenants", `{"name":"tenants/b","weight":0}`, 400, "INVALID_ARGUMENT", "body:1: weight: 0 must be above 0"},
		{"POST", "/tenants", `{"name":"tenants/b","w\u0065ight":0}`, 400, "INVALID_ARGUMENT",
			"body:1: weight: 0 must be above 0"},
		{"POST", "/tenants/acme/limits?limit_id=l", "{\"rate\":\"5/s\",\n\"burst\":0}", 400, "INVALID_ARGUMENT",
			"body:2: burst: 0 must be at least 1"},
		{"POST", "/pools", `{"name":"pools/b","capacity":5,"queue":{"maxRequests":0}}`, 400, "INVALID_ARGUMENT",
			"body:1: queue.maxRequests: 0 must be at least 1; left out it is 1024"},
		{"POST", "/pools", `{"name":"pools/b","capacity":5,"alpha":0}`, 400, "INVALID_ARGUMENT",
			"body:1: alpha: 0 must be 0.1 to 10; left out it is 1"},
		{"POST", "/tenants/acme/limits?limit_id=l", `{"rate":"5/s","burst":-1}`, 400, "INVALID_ARGUMENT",
			"limit.burst: -1 must be at least 1, or no request ever passes"},
		{"POST", "/tenants/acme/limits?limit_id=l", `{"rate":"5/s","mode":2}`, 400, "INVALID_ARGUMENT",
			"body:1: mode: want one of ENFORCE, SHADOW, OFF, found 2"},
		{"POST", ":apply", `{"resources":[{"limit":{"name":"tenants/acme/limits/l","rate":"1/s","queue":{"aqm":9}}}]}`, 400,
			"INVALID_ARGUMENT", "body:1: resources[0].limit.queue.aqm: want one of VARIABLE_STRUCTURE, "},
		{"GET", ":top?selection.by=9", "", 400, "INVALID_ARGUMENT", `query parameter "selection.by": want one of TENANT, `},
		{"POST", ":apply", `{"resources":[{"tenant":{"name":"tenants/b"}}],"set":"A b"}`, 400, "INVALID_ARGUMENT",
			`set: "A b" is not a name: want 1 to 63 of a-z 0-9 . _ -, with a letter or digit at both ends`},
		{"POST", ":apply", `{"resources":[{"tenant":{"name":"tenants/b"}}],"requestId":"ü"}`, 400, "INVALID_ARGUMENT",
			`request_id: "ü" is not an ID of a request: want at most 128 of `},
		{"GET", "/revisions/x", "", 400, "INVALID_ARGUMENT", `revision in the path: want a whole number, found "x"`},
		{"POST", "/revisions/x:rollback", "{}", 400, "INVALID_ARGUMENT", `revision in the path: want a whole number, found "x"`},
		{"POST", "/revisions/7:rollback", `{"revision":5}`, 400, "INVALID_ARGUMENT",
			`body: revision: "5" is not "7", which the URL names`},
		{"POST", "/revisions/7:rollback", `{"revision":"7"}`, 404, "NOT_FOUND", "7"},
		{"PUT", "/pools/api", `{"name":"pools/b","capacity":5}`, 400, "INVALID_ARGUMENT",
			`body: name: "pools/b" is not "pools/api", which the URL names`},
		{"PATCH", "/pools/api", `{"queue":{"maxWait":"2s"},"n\u0061me":"pools\/b","capacity":5}`, 400, "INVALID_ARGUMENT",
			`body: name: "pools/b" is not "pools/api", which the URL names`},
		{"PUT", "/tenants/acme/quotas/api", `{"name":"tenants/acme/quotas/` + strings.Repeat("x", 500) + `"}`, 400,
			"INVALID_ARGUMENT", `xxx"… is not "tenants/acme/quotas/api", which the URL names`},
		{"POST", "/pools/api", "{}", 405, "UNIMPLEMENTED", "POST does nothing at /v1alpha1/pools/api"},
		{"POST", "/pools", large, 413, "INVALID_ARGUMENT", "larger than 1000 bytes"},
		{"POST", "/pools", "@" + large, 413, "INVALID_ARGUMENT", "larger than 1000 bytes"},
		{"PATCH", "/pools/api", large, 413, "INVALID_ARGUMENT", "larger than 1000 bytes"},
		{"POST", ":apply", many, 413, "INVALID_ARGUMENT", "more than 100 objects"},
		{"PATCH", "/pools/api", many, 413, "INVALID_ARGUMENT", "more than 100 objects"},
		{"PUT", "/pools/api", strings.Repeat("[", 33), 413, "INVALID_ARGUMENT", "more than 32 deep"},
	} {
		status, text := s.ask(c.method, "/v1alpha1"+c.path, c.body)
		var got failed
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != c.status || got.Status != c.status ||
			got.Code != c.code || !strings.Contains(got.Message, c.want) {
			t.Errorf("%s %s %.80s: %d %s; want %d, %s, %s (%v)", c.method, c.path, c.body, status, text, c.status,
				c.code, c.want, err)
		}
		if strings.Contains(c.want, "pool.capacity: ") &&
			(len(got.Fields) != 1 || !strings.HasPrefix(c.want, got.Fields[0].Field)) {
			t.Errorf("%s %s: fields %+v", c.method, c.path, got.Fields)
		}
	}
	if got := s.must("GET", "/v1alpha1/pools", ""); strings.Count(got, `"capacity"`) != 1 ||
		!strings.Contains(got, `300`) {
		t.Errorf("something was changed: %s", got)
	}
	if r := in.Refused(); r[intake.ByLength] != 3 || r[intake.ByEntries] != 3 || in.Trouble() == nil {
		t.Errorf("too large bodies: %v of %v, alarm %v", r, intake.Reasons, in.Trouble())
	}
}

// PATCH changes what its body has: a field that is null is unset, another one stays.
func TestPatchAndPut(t *testing.T) {
	s := serve(t, rest.Options{Bounds: bytes1000})
	s.must("POST", "/v1alpha1/pools", `{"name":"pools/api","capacity":300,"queue":{"maxWait":"2s","delayTarget":"0.1s"}}`)
	s.must("POST", "/v1alpha1/tenants", `{"name":"tenants/acme","weight":3,"displayName":"A"}`)
	s.must("POST", "/v1alpha1/tenants/acme/quotas", `{"name":"tenants/acme/quotas/api","max":9,"guaranteed":5}`)
	has := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if not, is := strings.CutPrefix(want, "!"); strings.Contains(text, not) == is {
				t.Errorf("want %s in %s", want, text)
			}
		}
	}
	has(s.must("PATCH", "/v1alpha1/pools/api", `{"queue":{"maxWait":"3s"}}`), `"maxWait":"3s"`,
		`"delayTarget":"0.100s"`, `"capacity":300`)
	read := s.must("GET", "/v1alpha1/tenants/acme/quotas/api", "")
	var etag struct{ Etag string }
	if err := json.Unmarshal([]byte(read), &etag); err != nil {
		t.Fatal(err)
	}
	has(s.must("PATCH", "/v1alpha1/tenants/acme/quotas/api", fmt.Sprintf(`{"max":null,"etag":%q}`, etag.Etag)),
		`!"max"`, `"guaranteed":5`)
	has(s.must("PATCH", "/v1alpha1/tenants/acme?update_mask=weight", `{"weight":4,"displayName":"B"}`), `"weight":4`,
		`"displayName":"A"`)
	has(s.must("PUT", "/v1alpha1/tenants/acme", `{"weight":5}`), `"weight":5`, `"displayName":""`)
	s.must("POST", "/v1alpha1/plans", `{"name":"plans/gold","weight":2}`)
	has(s.must("POST", "/v1alpha1/plans/gold/limits?limit_id=each", `{"rate":"5/s"}`), `"plans/gold/limits/each"`)
	has(s.must("PATCH", "/v1alpha1/plans/gold/limits/each", `{"burst":7}`), `"burst":7`, `"rate":"5/s"`)
	has(s.must("GET", "/v1alpha1/plans/gold/limits", ""), `"plans/gold/limits/each"`)
	has(s.must("PATCH", "/v1alpha1/tenants/acme", `{"plan":"gold"}`), `"plan":"gold"`)
	s.must("DELETE", "/v1alpha1/plans/gold/limits/each", "")
	again := s.must("GET", "/v1alpha1/pools/api", "")
	if got := s.must("PUT", "/v1alpha1/pools/api", again); !strings.Contains(got, `300`) {
		t.Errorf("what was read, given back: %s", got)
	}
	if status, text := s.ask("PUT", "/v1alpha1/pools/api?validate_only=true", `{"capacity":7}`); status != 200 ||
		strings.Contains(s.must("GET", "/v1alpha1/pools/api", ""), `"capacity":7`) {
		t.Errorf("validate_only: %d %s", status, text)
	}
}

// Overrides are over REST as limits are. The path has a client's name escaped twice: a/b is a%252Fb.
func TestOverridesOverREST(t *testing.T) {
	s := serve(t, rest.Options{Bounds: bytes1M})
	has := func(text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%q is not in %s", w, text)
			}
		}
	}
	const limit = "/v1alpha1/tenants/acme/limits/l"
	s.must("POST", "/v1alpha1/tenants?tenant_id=acme", `{}`)
	s.must("POST", "/v1alpha1/tenants/acme/limits?limit_id=l", `{"rate":"5/s"}`)
	has(s.must("POST", limit+"/overrides?override_id=a%252Fb", `{"rate":"7/s"}`), `limits/l/overrides/a%2Fb"`, `"burst":7`)
	has(s.must("PATCH", limit+"/overrides/a%252Fb", `{"burst":9}`), `"burst":9`, `"rate":"7/s"`)
	has(s.must("PUT", limit+"/overrides/c?allow_missing=true", `{"rate":"0"}`), `overrides/c"`)
	for _, parent := range []string{limit, "/v1alpha1/tenants/acme", "/v1alpha1/tenants/*"} {
		has(s.must("GET", parent+"/overrides", ""), `overrides/a%2Fb"`, `overrides/c"`)
	}
	has(s.must("GET", limit+"/overrides/a%252Fb", ""), `"burst":9`)
	if status, text := s.ask("DELETE", limit, ""); status != 400 || !strings.Contains(text, "still in use") {
		t.Errorf("%d %s", status, text)
	}
	s.must("DELETE", limit+"/overrides/a%252Fb", "")
	s.must("DELETE", limit+"?force=true", "")
	if status, _ := s.ask("GET", limit+"/overrides/c", ""); status != 404 {
		t.Errorf("status %d of an override whose limit is gone", status)
	}
}

// A PATCH of a list that lacks entries of the stored one changes nothing, unless it says that this is meant.
func TestPatchOfAListDropsNothing(t *testing.T) {
	s := serve(t, rest.Options{Bounds: bytes1000})
	const limit = "/v1alpha1/tenants/-/limits/all"
	s.must("POST", "/v1alpha1/tenants/-/limits?limit_id=all", `{"rate":"1/s","classes":["reads"],"overrides":[`+
		`{"client":"a","rate":"2/s"},{"client":"b","rate":"3/s"},{"client":"c","rate":"4/s"}]}`)
	for body, want := range map[string]string{
		`{"overrides":[{"client":"d","rate":"5/s"},{"client":"b","rate":"5/s"}]}`: `would drop 2 of its 3 entries, such as ` +
			`\"a\": give all that shall stay, or drop_entries if this is meant","fields":[{"field":"limit.overrides"`,
		`{"overrides":[]}`:       `would drop 3 of its 3 entries`,
		`{"overrides":null}`:     `would drop 3 of its 3 entries`,
		`{"classes":["writes"]}`: `would drop 1 of its 1 entry, such as \"reads\"`,
	} {
		if status, text := s.ask("PATCH", limit, body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if text := s.must("GET", limit, ""); strings.Count(text, `"client":`) != 3 || !strings.Contains(text, "reads") {
		t.Errorf("something was changed: %s", text)
	}
	if status, text := s.ask("PATCH", limit+"?update_mask=*", `{"rate":"7/s","overrides":[]}`); status != 400 ||
		!strings.Contains(text, `would drop 3 of its 3 entries`) {
		t.Errorf("all fields: %d %s", status, text)
	}
	more := `{"overrides":[{"client":"c","rate":"9/s"},{"client":"b","rate":"3/s"},{"client":"a","rate":"2/s"},` +
		`{"client":"d","rate":"5/s"}]}`
	if text := s.must("PATCH", limit, more); strings.Count(text, `"client":`) != 4 {
		t.Errorf("one more: %s", text)
	}
	if text := s.must("PATCH", limit+"?update_mask=*&drop_entries=true", `{"rate":"7/s","classes":["reads"],`+
		`"overrides":[{"client":"a","rate":"2/s"}]}`); strings.Count(text, `"client":`) != 1 ||
		!strings.Contains(text, `"rate":"7/s"`) {
		t.Errorf("all fields, as it was meant: %s", text)
	}
	if text := s.must("PATCH", limit+"?drop_entries=true", `{"overrides":[]}`); strings.Contains(text, `"client":`) {
		t.Errorf("as it was meant: %s", text)
	}
}

// A caller without the right to a method is refused before a body is read, which may be as large as it likes.
func TestNoBodyIsReadOfWhoMayNotCall(t *testing.T) {
	s := serve(t, rest.Options{Bounds: bytes1M, Admit: func(_ context.Context, method string) error {
		if method == quotav1.QuotaService_CreatePool_FullMethodName {
			return status.Error(codes.Unauthenticated, "who are you?")
		}
		return nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	endless, end := io.Pipe() // nothing comes
	defer end.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/v1alpha1/pools", endless)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusUnauthorized || !strings.Contains(string(text), "who are you?") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
	s.must("POST", "/v1alpha1/tenants", `{"name":"tenants/acme"}`)
}

// Lists come in pages, of at most 1000.
func TestPages(t *testing.T) {
	s := serve(t, rest.Options{Bounds: bytes1M})
	var all []string
	for i := range 1200 {
		all = append(all, fmt.Sprintf(`{"tenant":{"name":"tenants/t%04d"}}`, i))
	}
	s.must("POST", "/v1alpha1:apply", `{"resources":[`+strings.Join(all, ",")+`]}`)
	seen, pages := 0, 0
	for token := ""; pages == 0 || token != ""; pages++ {
		var page struct {
			Tenants       []struct{ Name string }
			NextPageToken string
		}
		if err := json.Unmarshal([]byte(s.must("GET", "/v1alpha1/tenants?page_size=5000&page_token="+token, "")),
			&page); err != nil {
			t.Fatal(err)
		}
		seen, token = seen+len(page.Tenants), page.NextPageToken
	}
	if seen != 1200 || pages != 2 {
		t.Errorf("%d tenants in %d pages", seen, pages)
	}
}

// A page of another origin changes nothing; where callers are not known it reads nothing either.
func TestPagesOfElsewhere(t *testing.T) {
	s := serve(t, rest.Options{Bounds: bytes1000, Anyone: true, Names: []string{"coordinator-0.titrate"}})
	const pool = `{"name":"pools/api","capacity":300}`
	for _, c := range []struct {
		method, header string
		want           int
	}{
		{"POST", "Origin: http://evil.example", 403},
		{"POST", "Sec-Fetch-Site: cross-site", 403},
		{"GET", "Host: evil.example:7403", 403},
		{"GET", "Host: localhost:7403", 200},
		{"GET", "Host: [::1]", 200},
		{"GET", "Host: 10.0.0.7:7403", 200},
		{"GET", "Host: Coordinator-0.titrate:7403", 200},
		{"GET", "Host: 10.0.0.7.evil.example", 403},
		{"POST", "Host: localhost", 200},
	} {
		if status, text := s.ask(c.method, "/v1alpha1/pools", pool, c.header); status != c.want {
			t.Errorf("%s with %s: %d %s, want %d", c.method, c.header, status, text, c.want)
		}
	}
}

// The document is served, and has each method of the API; a path that is not the API's is not
// in it.
func TestDocument(t *testing.T) {
	var document struct {
		Swagger     string
		Paths       map[string]map[string]struct{ OperationID string }
		Definitions map[string]any
	}
	if err := json.Unmarshal([]byte(serve(t, rest.Options{Bounds: bytes1M}).must("GET", "/openapi.json", "")), &document); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for path, methods := range document.Paths {
		if !strings.HasPrefix(path, "/v1alpha1") {
			t.Errorf("path %s", path)
		}
		for _, one := range methods {
			has[one.OperationID] = true
		}
	}
	for _, m := range quotav1.QuotaService_ServiceDesc.Methods {
		if !has["QuotaService_"+m.MethodName] {
			t.Errorf("no path does %s", m.MethodName)
		}
	}
	if document.Swagger != "2.0" || document.Definitions["Error"] == nil {
		t.Errorf("version %q, definition of errors %v", document.Swagger, document.Definitions["Error"])
	}
}
