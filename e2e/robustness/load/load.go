// Package load is the clients and the upstream. It offers an open-loop load over all
// gateways that are in the load balancer. A server notes when each request arrived, which
// is the instant that counts as its admission.
package load

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Client asks at a constant rate, in turn at all gateways.
type Client struct {
	Tenant, Name string
	Pool         string  // "" is api
	Rate         float64 // requests per second
	// Everywhere: each turn asks once at every gateway, also while it is out of
	// the load balancer but reachable.
	Everywhere bool
	// Stays are the least and the most of the upstream's time for a request, drawn evenly by its logarithm. It is noted
	// as a Stay in the place of a Record. 0: service. Of a part of the requests, Leaves, the client goes away before.
	Stays  [2]time.Duration
	Leaves float64
}

// Stay is the time that a request was at the upstream, since the load's start. A client that goes away ends it: the
// upstream sees that later than the gateway.
type Stay struct{ From, To time.Duration }

// visit says how long one request stays, and when its client goes away; 0: it does not.
type visit struct{ stays, leaves time.Duration }

func (c *Client) visit(r *rand.Rand) (v visit) {
	if c.Stays[0] == 0 {
		return v
	}
	least, most := c.Stays[0].Seconds(), c.Stays[1].Seconds()
	v.stays = time.Duration(least * math.Pow(most/least, r.Float64()) * float64(time.Second))
	if r.Float64() < c.Leaves {
		v.leaves = time.Duration(1 + r.Float64()*float64(v.stays))
	}
	return v
}

// Record is the outcome of a request. Times are since the load's start.
type Record struct {
	Client  *Client
	Gateway string
	Sent    time.Duration
	Took    time.Duration // until the answer or the error
	Arrived time.Duration // at the upstream; 0: it did not
	Met     time.Duration // its gateway, by the header x-at; 0 without
	Status  int           // 0 without an answer
	Reason  string        // of a refusal
	Err     string
}

// Target is a gateway.
type Target struct{ Name, Address string }

// Load is a running load.
type Load struct {
	start   time.Time
	targets func() []Target
	all     sync.WaitGroup

	mu       sync.Mutex
	records  []Record
	arrivals map[string]time.Duration // by number
	stays    map[string][]Stay        // by client
	left     map[string]time.Duration // when the client of a request went away, by number
	next     int64
	clients  map[string]*http.Client // by target
}

// headers of a request.
const (
	tenantHeader = "x-tenant"
	clientHeader = "x-client"
	poolHeader   = "x-pool"
	numberHeader = "x-number"
	stampHeader  = "x-at" // µs of Unix time
	reasonHeader = "x-titrate-reason"
	staysHeader  = "x-stays" // time.Duration
)

// service is the upstream's time for a request.
const service = 5 * time.Millisecond

// Timeout is the timeout of a request: longer than every bound that is checked.
const Timeout = 12 * time.Second

// New makes a load whose upstream listens; targets gives the gateways that are in
// the load balancer now.
func New(upstream net.Listener, targets func() []Target) *Load {
	l := &Load{start: time.Now(), targets: targets,
		arrivals: map[string]time.Duration{}, stays: map[string][]Stay{},
		left: map[string]time.Duration{}, clients: map[string]*http.Client{}}
	server := &http.Server{Handler: http.HandlerFunc(l.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(upstream) }()
	return l
}

// Now is the time since the load's start.
func (l *Load) Now() time.Duration { return time.Since(l.start) }

func (l *Load) serve(w http.ResponseWriter, r *http.Request) {
	at := l.Now()
	l.mu.Lock()
	l.arrivals[r.Header.Get(numberHeader)] = at
	l.mu.Unlock()
	if stays, err := time.ParseDuration(r.Header.Get(staysHeader)); err == nil {
		select {
		case <-time.After(stays):
		case <-r.Context().Done():
		}
		l.note(r.Header.Get(clientHeader), r.Header.Get(numberHeader), Stay{at, l.Now()})
	} else {
		time.Sleep(service)
	}
	_, _ = io.WriteString(w, "ok\n")
}

// note notes a stay that has ended.
func (l *Load) note(client, number string, s Stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left, did := l.left[number]; did {
		s.To = max(s.From, min(s.To, left))
		delete(l.left, number)
	}
	l.stays[client] = append(l.stays[client], s)
}

// Run asks as a client until ctx ends. The phase is drawn, so that clients of the
// same rate do not ask at once.
func (l *Load) Run(ctx context.Context, c *Client, phase *rand.Rand) {
	gap := time.Duration(float64(time.Second) / c.Rate)
	due := time.Now().Add(time.Duration(phase.Float64() * float64(gap)))
	for turn := phase.IntN(100); ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		due = due.Add(gap)
		targets := l.targets()
		switch {
		case len(targets) == 0:
		case c.Everywhere:
			for _, t := range targets {
				l.ask(c, t, c.visit(phase))
			}
		default:
			l.ask(c, targets[turn%len(targets)], c.visit(phase))
		}
	}
}

// ask sends one request and does not wait for its answer.
func (l *Load) ask(c *Client, t Target, v visit) {
	l.mu.Lock()
	l.next++
	number := strconv.FormatInt(l.next, 10)
	client := l.clients[t.Address]
	if client == nil {
		client = &http.Client{Timeout: Timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64,
			DisableCompression: true}}
		l.clients[t.Address] = client
	}
	l.mu.Unlock()
	l.all.Go(func() {
		r := Record{Client: c, Gateway: t.Name, Sent: l.Now()}
		ctx, left := context.WithCancel(context.Background())
		defer left()
		if v.leaves != 0 {
			defer time.AfterFunc(v.leaves, func() { l.leave(number, left) }).Stop()
		}
		l.exchange(ctx, client, t, number, v.stays, &r)
		r.Took = l.Now() - r.Sent
		l.mu.Lock()
		defer l.mu.Unlock()
		r.Arrived = l.arrivals[number]
		delete(l.arrivals, number)
		if v.stays == 0 {
			l.records = append(l.records, r)
		} else if r.Arrived == 0 {
			delete(l.left, number)
		}
	})
}

// leave ends a request for its client.
func (l *Load) leave(number string, end context.CancelFunc) {
	l.mu.Lock()
	l.left[number] = l.Now()
	l.mu.Unlock()
	end()
}

func (l *Load) exchange(
	ctx context.Context, client *http.Client, t Target, number string, stays time.Duration, r *Record,
) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.Address+"/", nil)
	if err != nil {
		r.Err = err.Error()
		return
	}
	req.Header.Set(tenantHeader, r.Client.Tenant)
	req.Header.Set(clientHeader, r.Client.Name)
	req.Header.Set(poolHeader, cmp.Or(r.Client.Pool, "api"))
	req.Header.Set(numberHeader, number)
	if stays > 0 {
		req.Header.Set(staysHeader, stays.String())
	}
	resp, err := client.Do(req)
	if err != nil {
		r.Err = err.Error()
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	r.Status, r.Reason = resp.StatusCode, resp.Header.Get(reasonHeader)
	if at, err := strconv.ParseInt(resp.Header.Get(stampHeader), 10, 64); err == nil {
		r.Met = time.UnixMicro(at).Sub(l.start)
	}
	switch {
	case err != nil:
		r.Err = err.Error()
	case r.Status != http.StatusOK && r.Status != http.StatusTooManyRequests:
		r.Err = fmt.Sprintf("status %d: %.100s", r.Status, body)
	}
}

// Forget closes the idle connections to a target that has gone.
func (l *Load) Forget(t Target) {
	l.mu.Lock()
	client := l.clients[t.Address]
	l.mu.Unlock()
	if client != nil {
		client.CloseIdleConnections()
	}
}

// Records waits for all answers and returns what came of all requests, in the
// order of their ends. Run has returned.
func (l *Load) Records() []Record {
	l.all.Wait()
	return l.Sofar()
}

// Stays returns when requests of a client that have ended were at the upstream.
func (l *Load) Stays(client string) []Stay {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.stays[client])
}

// Sofar are the records of requests that have ended; later ones may be appended.
func (l *Load) Sofar() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[:len(l.records):len(l.records)]
}
