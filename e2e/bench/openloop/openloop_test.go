package openloop

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve is a server whose header names are as Envoy writes them.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["content-length"] = []string{"2"}
		handler(w, r)
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestEveryShotHasItsResult(t *testing.T) {
	var seen atomic.Int64
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		w.Header()["x-at"] = []string{"1234567"}
		if r.Header.Get(TenantHeader) != "acme" || r.Header.Get(ClientHeader) == "client-3" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	g := Generator{Targets: []string{target}, Requests: Requests("acme", 4), Connections: 3}
	results, err := g.Run(context.Background(), Steady(2000, 200*time.Millisecond, 4, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 400 || seen.Load() != 400 {
		t.Fatalf("%d results, %d seen, want 400", len(results), seen.Load())
	}
	for i, r := range results {
		want := http.StatusOK
		if i%4 == 2 {
			want = http.StatusTooManyRequests
		}
		if r.Status != want || r.Stamp != 1234567 || r.Sent < r.Due || r.Done < r.Sent {
			t.Fatalf("result %d: %+v, want status %d", i, r, want)
		}
	}
}

// A shot that finds no connection free is charged its wait: of two that are due
// at once on one connection, the second is sent after the first has ended.
func TestWaitingInLineCounts(t *testing.T) {
	target := serve(t, func(http.ResponseWriter, *http.Request) {})
	g := Generator{Targets: []string{target}, Requests: Requests("acme", 1), Connections: 1}
	results, err := g.Run(context.Background(), []Shot{{}, {}})
	if err != nil {
		t.Fatal(err)
	}
	if results[1].Sent < results[0].Done || results[1].Done <= results[0].Done {
		t.Errorf("the second was sent before the first had ended: %+v", results)
	}
}

func TestABrokenConnectionFailsItsShotOnly(t *testing.T) {
	var n atomic.Int64
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
	})
	g := Generator{Targets: []string{target}, Requests: Requests("acme", 1), Connections: 1}
	results, err := g.Run(context.Background(), []Shot{{}, {}})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Status != 0 || results[1].Status != http.StatusOK {
		t.Errorf("statuses %d and %d, want 0 and 200", results[0].Status, results[1].Status)
	}
}

func TestATargetThatIsGoneFailsItsShots(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	there := serve(t, func(http.ResponseWriter, *http.Request) {})
	g := Generator{Targets: []string{l.Addr().String(), there}, Requests: Requests("acme", 1), Connections: 1}
	results, err := g.Run(context.Background(), []Shot{{}, {}, {Target: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Status != 0 || results[1].Status != 0 || results[2].Status != http.StatusOK {
		t.Errorf("%+v", results)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-at: 5\r\n\r\nok"))
	f.Add([]byte("HTTP/1.1 \r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, whole, err := parse(b)
		if whole && (err != nil || a.status < 0 || a.status > 999) {
			t.Fatalf("%q: %+v, %v", b, a, err)
		}
	})
}
