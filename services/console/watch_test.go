package console

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience is the time that a test waits for what happens at once.
const patience = 10 * time.Second

// fakeAPI answers /v1alpha1/n with a number that tests change, and knows one token if it wants any.
type fakeAPI struct {
	n     atomic.Int64
	token string
	size  int
	gone  atomic.Bool   // the token was withdrawn
	slow  chan struct{} // /v1alpha1/slow answers once this is closed
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case f.gone.Load() || f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintln(w, `{"status":401,"message":"who are you"}`)
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.URL.Path == "/v1alpha1:access":
		fmt.Fprintf(w, `{"caller":%q,"credential":"token"}`+"\n", r.Header.Get("Authorization"))
	default:
		if f.slow != nil && r.URL.Path == "/v1alpha1/slow" {
			<-f.slow
		}
		fmt.Fprintf(w, "{\n\n"+`"n":%d,"path":%q,"pad":%q}`+"\n", f.n.Load(), r.URL.RequestURI(), strings.Repeat("x", f.size))
	}
}

// serve returns the address of a console with fast rounds.
func serve(t *testing.T, api *fakeAPI) (*Console, string) {
	t.Helper()
	c, err := New(api)
	if err != nil {
		t.Fatal(err)
	}
	c.period, c.writeTime = 10*time.Millisecond, 300*time.Millisecond
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	t.Cleanup(c.Close) // before the server, which waits for its streams
	return c, s.URL
}

// events asks for a stream and returns its answer; read it with next.
func events(t *testing.T, url, body string, header ...string) (*http.Response, *bufio.Reader) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/events", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return a, bufio.NewReader(a.Body)
}

// event is one event of a stream.
type event struct {
	ID     string
	Path   string
	Status int
	Body   struct{ N int64 }
}

func next(t *testing.T, from *bufio.Reader) (e event) {
	t.Helper()
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if id, is := strings.CutPrefix(line, "id: "); is {
			e.ID = strings.TrimSpace(id)
		}
		if data, is := strings.CutPrefix(line, "data: "); is {
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
			return e
		}
	}
}

// A stream has an answer for each path, and another one when it differs. Begun again with the ID of an event it has
// only what the reader does not know.
func TestStreamAndResume(t *testing.T) {
	api := &fakeAPI{token: "secret"}
	_, url := serve(t, api)
	question := `{"paths":["/v1alpha1/a?x=1","/v1alpha1/b"]}`
	a, from := events(t, url, question, "Authorization", "Bearer secret")
	if a.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	first, second := next(t, from), next(t, from)
	if first.Path != "/v1alpha1/a?x=1" || second.Path != "/v1alpha1/b" || first.Status != 200 {
		t.Errorf("%+v, %+v", first, second)
	}
	api.n.Store(7)
	for i := range 2 {
		if e := next(t, from); e.Body.N != 7 {
			t.Errorf("event %d after the change: %+v", i, e)
		} else {
			second = e
		}
	}
	a.Body.Close()
	_, again := events(t, url, question, "Authorization", "Bearer secret", "Last-Event-ID", second.ID)
	time.Sleep(50 * time.Millisecond) // some rounds without a change
	api.n.Store(8)
	if e := next(t, again); e.Body.N != 8 {
		t.Errorf("after the resume the reader got what it knew: %+v", e)
	}
}

// A stream needs what its paths need; a token that is withdrawn meanwhile ends the answers.
func TestStreamNeedsTheToken(t *testing.T) {
	api := &fakeAPI{token: "secret"}
	_, url := serve(t, api)
	if a, _ := events(t, url, `{"paths":["/v1alpha1/a"]}`); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", a.StatusCode)
	}
	_, from := events(t, url, `{"paths":["/v1alpha1/a"]}`, "Authorization", "Bearer secret")
	next(t, from)
	api.gone.Store(true)
	if rest, err := io.ReadAll(from); err != nil || strings.Contains(string(rest), "data:") {
		t.Errorf("after the token was withdrawn: %v, %s", err, rest)
	}
}

// Between two rounds a stream has no deadline, also over HTTP/2, which would reset it.
func TestStreamOverHTTP2(t *testing.T) {
	api := &fakeAPI{}
	c, err := New(api)
	if err != nil {
		t.Fatal(err)
	}
	c.period, c.writeTime = 300*time.Millisecond, 100*time.Millisecond
	s := httptest.NewUnstartedServer(c)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(c.Close)
	a, err := s.Client().Post(s.URL+"/events", "application/json", strings.NewReader(`{"paths":["/v1alpha1/a"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if a.ProtoMajor != 2 {
		t.Fatal(a.Proto)
	}
	from := bufio.NewReader(a.Body)
	for n := range int64(4) {
		if e := next(t, from); e.Body.N != n {
			t.Errorf("%+v, want %d", e, n)
		}
		api.n.Store(n + 1)
	}
}

// One caller's slow answers delay no other caller, and its streams that wait show that they live.
func TestOneCallerAsksOneAtATime(t *testing.T) {
	api := &fakeAPI{slow: make(chan struct{})}
	_, url := serve(t, api)
	defer close(api.slow)
	var waiting []*bufio.Reader
	for range mostAsking + 1 {
		_, from := events(t, url, `{"paths":["/v1alpha1/slow"]}`, "Authorization", "a")
		waiting = append(waiting, from)
	}
	_, other := events(t, url, `{"paths":["/v1alpha1/a"]}`, "Authorization", "b")
	next(t, other)
	signs := make(chan error, len(waiting))
	for _, from := range waiting {
		go func() {
			var err error
			for range 4 { // lines: the first sign comes before the first turn
				_, err = from.ReadString('\n')
			}
			signs <- err
		}()
	}
	for range mostAsking { // all streams but the first, which asks
		if err := <-signs; err != nil {
			t.Error(err)
		}
	}
}

func TestPause(t *testing.T) {
	w := newWatchers(nil)
	for took, want := range map[time.Duration]time.Duration{0: period, 400 * time.Millisecond: 1600 * time.Millisecond,
		time.Minute: mostPause} {
		if got := w.pause(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}

func TestWrongQuestions(t *testing.T) {
	_, url := serve(t, &fakeAPI{})
	for _, body := range []string{``, `{}`, `{"paths":[]}`, `{"paths":["/app.js"]}`, `{"paths":["http://x/v1alpha1/a"]}`,
		`{"paths":["//x/v1alpha1/a"]}`, `{"paths":["v1alpha1"]}`, `{"paths":[1]}`, `{"more":1}`,
		`{"paths":["/v1alpha1/` + strings.Repeat("a", mostPath) + `"]}`,
		`{"paths":[` + strings.Repeat(`"/v1alpha1/a",`, mostPaths) + `"/v1alpha1/a"]}`,
		`{"paths":["` + strings.Repeat("a", mostQuestion) + `"]}`} {
		if a, _ := events(t, url, body); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%.60s: %d", body, a.StatusCode)
		}
	}
	a, _ := events(t, url, `{"paths":["/v1alpha1/a"]}`, "Origin", "http://elsewhere.example", "Sec-Fetch-Site", "cross-site")
	if a.StatusCode != http.StatusForbidden {
		t.Errorf("a page of elsewhere: %d", a.StatusCode)
	}
}

// Of one caller no more streams are open than mostOfCaller; a stream that ends makes room.
func TestWatchersAreBounded(t *testing.T) {
	c, url := serve(t, &fakeAPI{})
	var open []*http.Response
	for range mostOfCaller {
		a, from := events(t, url, `{"paths":["/v1alpha1/a"]}`)
		next(t, from)
		open = append(open, a)
	}
	a, _ := events(t, url, `{"paths":["/v1alpha1/a"]}`)
	if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" || c.Refused() != 1 {
		t.Errorf("one more: %d, %d refused", a.StatusCode, c.Refused())
	}
	open[0].Body.Close()
	eventually(t, "the place of a reader that left", func() bool { return c.Watchers() < mostOfCaller })
	if a, _ := events(t, url, `{"paths":["/v1alpha1/a"]}`); a.StatusCode != http.StatusOK {
		t.Errorf("after one has left: %d", a.StatusCode)
	}
	c.Close()
	eventually(t, "the end of all streams", func() bool { return c.Watchers() == 0 })
}

// A reader that takes nothing is dropped and counted, and another one gets its events meanwhile.
func TestSlowWatcherIsDropped(t *testing.T) {
	api := &fakeAPI{size: 1 << 20}
	c, url := serve(t, api)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"paths":["/v1alpha1/a","/v1alpha1/b","/v1alpha1/c","/v1alpha1/d"]}`
	fmt.Fprintf(conn, "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	_, from := events(t, url, `{"paths":["/v1alpha1/a"]}`)
	eventually(t, "the drop of the slow reader", func() bool {
		api.n.Add(1)
		began := time.Now()
		next(t, from)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the other reader waited for %v", took)
		}
		return c.Dropped() == 1
	})
	if c.Watchers() != 1 {
		t.Errorf("%d watchers", c.Watchers())
	}
}

// An answer that is larger than the bound is said to be so.
func TestLargeAnswer(t *testing.T) {
	_, url := serve(t, &fakeAPI{size: mostAnswer})
	_, from := events(t, url, `{"paths":["/v1alpha1/a"]}`)
	if e := next(t, from); e.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("%+v", e)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add(`{"paths":["/v1alpha1/pools"]}`, "00112233445566778899aabbccddeeff")
	f.Add(`{"paths":["/v1alpha1:top?a=%zz","\u0000"]}`, "x")
	f.Fuzz(func(t *testing.T, body, id string) {
		paths, err := readQuestion(strings.NewReader(body))
		if err != nil {
			return
		}
		if len(paths) == 0 || len(paths) > mostPaths || len(readDigests(id, len(paths))) != len(paths) {
			t.Errorf("%d paths", len(paths))
		}
		for _, p := range paths {
			if !strings.HasPrefix(p.Path, apiPrefix) || p.Host != "" {
				t.Errorf("%q is asked", p.text)
			}
		}
	})
}
