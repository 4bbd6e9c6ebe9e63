package inflight

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/titrate/titrate/lab/installation"
)

// Statuses of answers.
const (
	statusServed  = http.StatusOK
	statusRefused = http.StatusTooManyRequests
)

// headerPatience is the time in which a server here wants the headers of a request.
const headerPatience = 10 * time.Second

// upstream holds each request for its stay, and keeps when it had it.
type upstream struct {
	port   int
	server *http.Server

	mu     sync.Mutex
	start  time.Time
	visits []visit
}

func startUpstream(ctx context.Context) (*upstream, error) {
	u := &upstream{start: time.Now()}
	free, err := installation.Ports(1)
	if err != nil {
		return nil, err
	}
	u.port = free[0]
	u.server, err = serve(ctx, installation.Address(u.port), u)
	return u, err
}

// serve serves in the background at an address until the server is closed.
func serve(ctx context.Context, address string, h http.Handler) (*http.Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerPatience}
	go func() { _ = s.Serve(l) }() // its error is that it was closed
	return s, nil
}

// begin begins a run of so many requests, whose times count from start.
func (u *upstream) begin(start time.Time, requests int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.start, u.visits = start, make([]visit, requests)
}

// end returns the visits of the run, by request: the zero value if one did not come.
func (u *upstream) end() []visit {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.visits
}

// note notes that a request comes or leaves.
func (u *upstream) note(request int, leaves bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if request >= len(u.visits) {
		return
	}
	v := &u.visits[request]
	v.to = time.Since(u.start)
	if !leaves {
		v.from = v.to
	}
}

// ServeHTTP holds a request for its stay, unless its gateway leaves. The request has left when the answer does.
func (u *upstream) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	request, err := strconv.Atoi(r.Header.Get(numberHeader))
	if err != nil || request < 0 {
		return
	}
	u.note(request, false)
	defer u.note(request, true)
	stay, _ := strconv.ParseInt(r.Header.Get(stayHeader), 10, 64) // 0 without
	select {
	case <-time.After(time.Duration(stay) * time.Microsecond):
	case <-r.Context().Done():
	}
}
