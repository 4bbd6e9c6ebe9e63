package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const secret = "correct horse battery staple"

func secretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// receiver takes requests whose signature is right, with the statuses in order, then 204.
type receiver struct {
	t        *testing.T
	statuses []int

	mu  sync.Mutex
	ids []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, _ := io.ReadAll(q.Body)
	id := q.Header.Get("webhook-id")
	if q.Header.Get("webhook-signature") != Sign([]byte(secret), id, q.Header.Get("webhook-timestamp"), body) {
		r.t.Errorf("the signature of %s is wrong", id)
	}
	r.ids = append(r.ids, id)
	if len(r.statuses) > 0 {
		if r.statuses[0] == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(r.statuses[0])
		r.statuses = r.statuses[1:]
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// queue has events until they are delivered.
type queue struct{ open []string }

func (q *queue) next(most int) (out []Event) {
	for _, id := range q.open[:min(most, len(q.open))] {
		out = append(out, Event{ID: id, Body: []byte(`{"id":"` + id + `"}`), Delivered: func() {
			for i, one := range q.open {
				if one == id {
					q.open = append(q.open[:i:i], q.open[i+1:]...)
					return
				}
			}
		}})
	}
	return out
}

func TestEventsAreSentOnceAndAgainUntilTaken(t *testing.T) {
	r := &receiver{t: t, statuses: []int{http.StatusInternalServerError, http.StatusOK, http.StatusFound}}
	server := httptest.NewServer(r)
	defer server.Close()
	q := &queue{open: []string{"a", "b", "c"}}
	of := Config{URL: server.URL, Secret: secretFile(t), Internal: true}
	if err := of.Check(); err != nil {
		t.Fatal(err)
	}
	s := New(of, q.next, slog.New(slog.DiscardHandler))
	now, all := time.Now(), retry{}
	for range 4 {
		all = s.round(t.Context(), now, all)
		now = now.Add(time.Second)
	}
	if got := strings.Join(r.ids, ""); got != "abcac" || len(q.open) != 0 {
		t.Errorf("sent %s, left %v", got, q.open)
	}
	if got := s.Stats(); got.Delivered != 3 || got.Failed != 2 || got.Waiting != 0 || got.Last != nil {
		t.Errorf("%+v", got)
	}
}

// More events are open than one round looks at, and the receiver takes none of them: an event keeps its wait while it
// is not looked at.
func TestEventsKeepTheirWaits(t *testing.T) {
	r := &receiver{t: t}
	for range 5000 {
		r.statuses = append(r.statuses, http.StatusInternalServerError)
	}
	server := httptest.NewServer(r)
	defer server.Close()
	q := &queue{}
	for n := range 2 * most {
		q.open = append(q.open, strconv.Itoa(n))
	}
	turn := 0
	next := func(n int) []Event { // by turns one half and the other
		turn++
		half := queue{open: q.open[turn%2*most:][:most]}
		return half.next(n)
	}
	s := New(Config{URL: server.URL, Secret: secretFile(t), Internal: true}, next, slog.New(slog.DiscardHandler))
	now, all := time.Now(), retry{}
	for range 14 {
		all = s.round(t.Context(), now, all)
		now = now.Add(time.Second)
	}
	// Within 14 s an event is tried at 0, 2, 4 and 8 s at most.
	if n := len(r.ids); n > 4*2*most || s.Stats().Waiting != 2*most {
		t.Errorf("%d requests, %+v", n, s.Stats())
	}
}

// A receiver that says that it is busy is not asked about other events at once.
func TestABusyReceiverIsTriedLess(t *testing.T) {
	r := &receiver{t: t, statuses: []int{http.StatusServiceUnavailable, http.StatusTooManyRequests}}
	server := httptest.NewServer(r)
	defer server.Close()
	q := &queue{open: []string{"a", "b", "c"}}
	s := New(Config{URL: server.URL, Secret: secretFile(t), Internal: true}, q.next, slog.New(slog.DiscardHandler))
	now, all := time.Now(), retry{}
	for range 2 {
		if all = s.round(t.Context(), now, all); all.after == 0 {
			t.Error("it does not wait")
		}
		now = all.at.Add(time.Millisecond)
	}
	s.round(t.Context(), now.Add(time.Minute), all)
	if got := len(r.ids); got != 5 || len(q.open) != 0 {
		t.Errorf("%d requests, %v are left", got, q.open)
	}
}

func TestAReceiverThatIsAwayIsTriedLess(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	var text bytes.Buffer
	q := &queue{open: []string{"a", "b"}}
	s := New(Config{URL: url + "/hook?key=in-the-url", Secret: secretFile(t), Internal: true}, q.next,
		slog.New(slog.NewTextHandler(&text, nil)))
	now, all := time.Now(), retry{}
	var waits []time.Duration
	for range 10 {
		all = s.round(t.Context(), now, all)
		waits = append(waits, all.after)
		now = all.at
	}
	if waits[0] != time.Second || waits[3] != 8*time.Second || waits[9] != lastRetry || s.Stats().Failed != 10 {
		t.Errorf("%v, %+v", waits, s.Stats())
	}
	if log := text.String() + s.Trouble().Error(); strings.Contains(log, "in-the-url") || strings.Contains(log, secret) {
		t.Errorf("a secret is logged: %s", log)
	}
}

// The addresses may all be of a name when the connection is made.
func TestWhereItConnectsTo(t *testing.T) {
	for address, want := range map[string]struct{ plain, internal bool }{
		"93.184.216.34:443":           {true, true},
		"[2606:2800:220:1::1]:443":    {true, true},
		"127.0.0.1:80":                {false, true},
		"[::1]:80":                    {false, true},
		"10.1.2.3:443":                {false, true},
		"172.16.0.1:443":              {false, true},
		"192.168.1.1:443":             {false, true},
		"100.64.1.1:443":              {false, true},
		"[fd00::1]:443":               {false, true},
		"[::ffff:10.0.0.1]:443":       {false, true},
		"[64:ff9b::a00:1]:443":        {false, true},
		"[2002:a00:1::]:443":          {false, true},
		"169.254.169.254:80":          {false, false},
		"[::ffff:169.254.169.254]:80": {false, false},
		"[fe80::1%eth0]:80":           {false, false},
		"[64:ff9b::a9fe:a9fe]:80":     {false, false},
		"[64:ff9b:1::a9fe:a9fe]:80":   {false, false},
		"[64:ff9b::e000:1]:80":        {false, false},
		"[2002:a9fe:a9fe::1]:80":      {false, false},
		"[64:ff9b::6464:64c8]:80":     {false, false},
		"[2002:a83f:8110::]:80":       {false, false},
		"[fd00:ec2::254]:80":          {false, false},
		"[fd20:ce::254]:80":           {false, false},
		"100.100.100.200:80":          {false, false},
		"168.63.129.16:80":            {false, false},
		"0.0.0.0:80":                  {false, false},
		"[::]:80":                     {false, false},
		"224.0.0.1:80":                {false, false},
		"255.255.255.255:80":          {false, false},
	} {
		for _, internal := range []bool{false, true} {
			s := New(Config{Internal: internal}, nil, slog.New(slog.DiscardHandler))
			err := s.control("tcp", address, nil)
			if may := map[bool]bool{false: want.plain, true: want.internal}[internal]; (err == nil) != may {
				t.Errorf("%s, internal %v: %v", address, internal, err)
			}
		}
	}
}

func TestALoopbackReceiverIsRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is asked") }))
	defer server.Close()
	s := New(Config{URL: server.URL, Secret: secretFile(t)}, nil, slog.New(slog.DiscardHandler))
	if _, err := s.post(context.Background(), Event{ID: "a"}); !errors.Is(err, errAddress) {
		t.Error(err)
	}
}

// A redirect is an answer like others: where it leads to is neither followed nor logged.
func TestALocationIsNotLogged(t *testing.T) {
	for _, location := range []string{"/in-the-location", "http://[in-the-location"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		}))
		defer server.Close()
		s := New(Config{URL: server.URL, Secret: secretFile(t), Internal: true}, nil, slog.New(slog.DiscardHandler))
		if alone, err := s.post(t.Context(), Event{ID: "a"}); !alone || err == nil ||
			err.Error() != "the webhook answers with status 302" {
			t.Errorf("%v, %v", alone, err)
		}
	}
}

func TestSettings(t *testing.T) {
	good := secretFile(t)
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("x-y-z"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of   Config
		want string // in the error; "" = none
	}{
		{Config{}, ""},
		{Config{URL: "https://billing.example.org/hook", Secret: good}, ""},
		{Config{URL: "http://127.0.0.1:1/hook", Secret: good, Internal: true}, ""},
		{Config{URL: "http://127.0.0.1:1/hook", Secret: good}, "want https"},
		{Config{URL: "http://billing.example.org", Secret: good, Internal: true}, "want https"},
		{Config{URL: "file:///etc/passwd", Secret: good}, "want a URL"},
		{Config{URL: "https://me:password@billing.example.org", Secret: good}, "without user and password"},
		{Config{URL: "https://billing.example.org"}, "needs --usage-webhook-secret"},
		{Config{URL: "https://billing.example.org", Secret: short}, "at least 16 bytes"},
		{Config{Secret: good}, "give that, too"},
	} {
		err := c.of.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.of, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "x-y-z") {
			t.Errorf("the error has the secret: %v", err)
		}
	}
}
