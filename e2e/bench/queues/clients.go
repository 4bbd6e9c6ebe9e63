package queues

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/titrate/titrate/services/client"
)

// cell is one law with one kind of clients.
type cell struct {
	law, kind string
	url       string
	http      http.RoundTripper

	mu    sync.Mutex
	seen  Figures
	waits []float64 // ms, of served requests
}

// Figures are the measurements of a cell's clients.
type Figures struct {
	Law     string  `json:"law"`
	Kind    string  `json:"clients"`
	Asked   int     `json:"asked"`   // requests that reached the gateway
	Served  int     `json:"served"`  // answered 200
	Good    int     `json:"good"`    // served within the useful time
	Refused int     `json:"refused"` // answered 429
	Marked  int     `json:"marked"`
	Failed  int     `json:"failed"` // neither, or given up
	MeanMs  float64 `json:"waitMeanMs"`
	P99Ms   float64 `json:"waitP99Ms"`
}

// tenant is the cell's: of one pool, and alone in it.
func (c *cell) tenant() string { return c.law + "-" + c.kind }

// RoundTrip sends a request and counts its outcome. Middleware is above it: each attempt counts.
func (c *cell) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := c.http.RoundTrip(r)
	c.note(response, err, time.Since(began))
	return response, err
}

func (c *cell) note(r *http.Response, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Asked++
	switch {
	case err != nil:
		c.seen.Failed++
	case r.StatusCode == http.StatusOK:
		c.seen.Served++
		if took <= useful {
			c.seen.Good++
		}
		wait, _ := strconv.ParseFloat(r.Header.Get("x-titrate-wait-ms"), 64)
		c.waits = append(c.waits, wait)
	case r.StatusCode == http.StatusTooManyRequests:
		c.seen.Refused++
	default:
		c.seen.Failed++
	}
	if err == nil && r.Header.Get("x-titrate-congestion") != "" {
		c.seen.Marked++
	}
}

// ask sends one request of a client through a transport; the status is 0 without an
// answer.
func (c *cell) ask(ctx context.Context, through http.RoundTripper, name int) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return 0
	}
	r.Header.Set("x-tenant", c.tenant())
	r.Header.Set("x-client", strconv.Itoa(name))
	response, err := through.RoundTrip(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response.StatusCode
}

// run loads the cell until the context ends.
func (c *cell) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	switch c.kind {
	case cooperative:
		for name := range clients {
			through := client.New(client.Options{}).Transport(c)
			for range 4 {
				all.Go(func() {
					for ctx.Err() == nil {
						c.ask(ctx, through, name)
					}
				})
			}
		}
	case openLoop:
		c.arrive(ctx, 2*capacity, &all, func(name int) { c.ask(ctx, c, name) })
	default:
		c.arrive(ctx, 1.3*capacity, &all, func(name int) { c.insist(ctx, name) })
	}
}

// insist asks until it is served, five times at most, each for the useful time.
func (c *cell) insist(ctx context.Context, name int) {
	for range 5 {
		within, end := context.WithTimeout(ctx, useful)
		status := c.ask(within, c, name)
		end()
		if status == http.StatusOK || ctx.Err() != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// arrive calls do at random times, with a mean of rate calls per second, each in its own goroutine.
func (c *cell) arrive(ctx context.Context, rate float64, all *sync.WaitGroup, do func(name int)) {
	random := rand.New(rand.NewPCG(1, 2)) // the same arrivals for every law
	at := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		at = at.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		time.Sleep(time.Until(at))
		all.Go(func() { do(i % clients) })
	}
}
