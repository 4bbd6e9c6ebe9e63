package client

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
)

// gateway is the real engine with one pool, in front of an upstream that takes 10 ms.
type gateway struct {
	engine *limiter.Engine
	start  time.Time
	mu     sync.Mutex
	held   map[uint64]chan limiter.Outcome
	ticket uint64
}

const share = 200 // requests/s

func newGateway(t *testing.T) *gateway {
	g := &gateway{start: time.Now(), held: map[uint64]chan limiter.Outcome{}}
	g.engine = limiter.New(limiter.Options{Keys: 1024})
	err := g.engine.Apply(&config.Config{Revision: 1, Tenants: []config.Tenant{{Name: "acme"}},
		Pools: []config.Pool{{Name: "api", Capacity: share, Queue: config.Queue{DelayTarget: 100 * time.Millisecond}}}})
	if err != nil {
		t.Fatal(err)
	}
	g.engine.SetShares(&exchange.Shares{Epoch: 1, Revision: 1,
		Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: share}}})
	return g
}

func (g *gateway) now() int64 { return int64(time.Since(g.start)) + 1 }

// run ticks until the context ends.
func (g *gateway) run(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
		for _, e := range g.engine.Tick(g.now(), nil) {
			g.mu.Lock()
			done := g.held[e.Ticket]
			delete(g.held, e.Ticket)
			g.mu.Unlock()
			done <- e.Outcome
		}
	}
}

// RoundTrip is the gateway as a client sees it.
func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	request := limiter.Request{Tenant: "acme", Client: r.Header.Get("x-client"), Pool: "api", Cost: 1}
	out := g.engine.Decide(g.now(), &request)
	if out.Verdict == limiter.Wait {
		done := make(chan limiter.Outcome, 1)
		g.mu.Lock()
		g.ticket++
		g.held[g.ticket] = done
		out, _ = g.engine.Enqueue(g.now(), &request, g.ticket)
		g.mu.Unlock()
		if out.Verdict == limiter.Wait {
			out = <-done
		}
	}
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	if out.Mark {
		response.Header.Set(markField, "1")
	}
	if out.Verdict == limiter.Reject {
		response.StatusCode = http.StatusTooManyRequests
		response.Header.Set("Retry-After", strconv.Itoa(int(max(1, out.RetryAfter.Round(time.Second).Seconds()))))
		return response, nil
	}
	time.Sleep(10 * time.Millisecond)
	return response, nil
}

// tally counts the answers that clients got.
type tally struct {
	mu       sync.Mutex
	ok       int
	refused  int // answers at the gateway
	waits    []time.Duration
	attempts int
}

func (t *tally) add(status int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts++
	if status == http.StatusOK {
		t.ok++
		t.waits = append(t.waits, took)
	} else {
		t.refused++
	}
}

// counted counts what the gateway answers, below the middleware.
type counted struct {
	to http.RoundTripper
	*tally
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := c.to.RoundTrip(r)
	c.add(response.StatusCode, time.Since(began))
	return response, err
}

// play lets 60 workers ask as fast as they are answered for a virtual minute; wrap
// gives each of 10 clients its transport.
func play(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) (seen *tally) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		g := newGateway(t)
		ticking, end := context.WithCancel(t.Context())
		var ticker sync.WaitGroup
		defer ticker.Wait()
		defer end()
		ticker.Go(func() { g.run(ticking) })
		seen = &tally{}
		var workers sync.WaitGroup
		for c := range 10 {
			transport := wrap(counted{g, seen})
			for range 6 {
				workers.Go(func() {
					for ctx.Err() == nil {
						r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://gateway/", nil)
						r.Header.Set("x-client", strconv.Itoa(c))
						if response, err := transport.RoundTrip(r); err != nil || response.StatusCode != http.StatusOK {
							time.Sleep(10 * time.Millisecond) // an impatient retry
						}
					}
				})
			}
		}
		workers.Wait()
	})
	slices.Sort(seen.waits)
	return seen
}

// What obeying wins: the same work is done, nobody is refused, and the gateway's
// queue is at its target instead of at its end.
func TestWhatItWins(t *testing.T) {
	rude := play(t, func(to http.RoundTripper) http.RoundTripper { return to })
	kind := play(t, func(to http.RoundTripper) http.RoundTripper { return New(Options{}).Transport(to) })
	p99 := func(t *tally) time.Duration { return t.waits[len(t.waits)*99/100] }
	mean := func(t *tally) (sum time.Duration) {
		for _, w := range t.waits {
			sum += w / time.Duration(len(t.waits))
		}
		return sum
	}
	t.Logf("without: %5.1f/s served, %4.1f %% refused, mean %v, p99 %v", float64(rude.ok)/60,
		100*float64(rude.refused)/float64(rude.attempts), mean(rude).Round(time.Millisecond), p99(rude))
	t.Logf("with:    %5.1f/s served, %4.1f %% refused, mean %v, p99 %v", float64(kind.ok)/60,
		100*float64(kind.refused)/float64(kind.attempts), mean(kind).Round(time.Millisecond), p99(kind))
	if float64(kind.ok) < .95*60*share {
		t.Errorf("%d served in 60 s, want 95 %% of the share", kind.ok)
	}
	if kind.refused*50 > kind.attempts { // most of them while the windows find their size
		t.Errorf("%d of %d refused", kind.refused, kind.attempts)
	}
	if rude.refused < 10*max(1, kind.refused) {
		t.Errorf("refused %d without and %d with: nothing won", rude.refused, kind.refused)
	}
}

// A refused request comes again after the pause that was asked for, with its body.
func TestRefusedComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		var times []time.Duration
		began := time.Now()
		server := roundTripper(func(r *http.Request) *http.Response {
			body, _ := io.ReadAll(r.Body)
			bodies, times = append(bodies, string(body)), append(times, time.Since(began))
			response := &http.Response{StatusCode: 200, Header: http.Header{},
				Body: io.NopCloser(strings.NewReader("no"))}
			if len(bodies) < 3 {
				response.StatusCode = 429
				response.Header.Set("Retry-After", "2")
			}
			return response
		})
		hc := http.Client{Transport: New(Options{}).Transport(server)}
		response, err := hc.Post("http://gateway/", "text/plain", strings.NewReader("hello"))
		if err != nil || response.StatusCode != 200 {
			t.Fatal(response, err)
		}
		want := []time.Duration{0, 2 * time.Second, 4 * time.Second}
		if !slices.Equal(bodies, []string{"hello", "hello", "hello"}) || !slices.Equal(times, want) {
			t.Fatalf("%q at %v", bodies, times)
		}
	})
}

type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
