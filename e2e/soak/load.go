package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// kind of a connection's requests.
type kind struct {
	name        string
	connections int // to each gateway
	path        string
	leaves      bool // goes away before the answer
	// client names the n-th request's client.
	client func(n int64) string
	// may reports whether a status is right.
	may func(status int) bool
}

func always(name string) func(int64) string { return func(int64) string { return name } }

func passed(status int) bool          { return status == http.StatusOK }
func passedOrLimited(status int) bool { return passed(status) || status == http.StatusTooManyRequests }

// kinds are the load. The names are the tenants of the documents.
var kinds = []kind{
	{name: "invented", connections: 8, path: "/", may: passedOrLimited,
		client: func(n int64) string { return fmt.Sprintf("nobody-%d", n) }},
	{name: "steady", connections: 4, path: "/through", client: always("steady"), may: passed},
	{name: "limited", connections: 2, path: "/", may: passedOrLimited,
		client: func(n int64) string { return fmt.Sprintf("client-%d", n%20) }},
	{name: "held", connections: 16, path: "/through", client: always("patient"), may: passedOrLimited},
	{name: "held", connections: 8, path: "/", client: always("hasty"), leaves: true, may: passedOrLimited},
}

// load is the connections at work.
type load struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	pause  time.Duration
	next   atomic.Int64 // request of all
	tallies
}

// tallies are counted by all connections.
type tallies struct {
	answered, limited, left, failed, invented atomic.Int64
	first                                     atomic.Pointer[string] // failure
}

// tally is the outcome of the load.
type tally struct {
	Answered int64  `json:"answered"` // including limited ones
	Limited  int64  `json:"limited"`
	Left     int64  `json:"left"` // clients that did not wait
	Invented int64  `json:"invented"`
	Failed   int64  `json:"failed"`
	Failure  string `json:"failure,omitempty"` // the first
}

// burst is the number of invented clients that start at once: a ticker of the runtime is too coarse for one at
// a time.
const burst = 100

func (w *system) load(ctx context.Context, inventedPerMinute int, pause time.Duration) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, pause: pause}
	tickets := make(chan struct{}, burst)
	ticker := time.NewTicker(time.Minute * burst / time.Duration(inventedPerMinute))
	go func() {
		defer ticker.Stop()
		for ctx.Err() == nil {
			<-ticker.C
			for len(tickets) < burst {
				tickets <- struct{}{}
			}
		}
	}()
	for _, g := range w.gateways {
		for i := range kinds {
			for range kinds[i].connections {
				l.all.Go(func() { l.talk(ctx, g.Address(), &kinds[i], tickets) })
			}
		}
	}
	return l
}

// stop ends the load; each connection has its last answer first.
func (l *load) stop() {
	l.cancel()
	l.all.Wait()
}

func (l *load) tally() tally {
	t := tally{Answered: l.answered.Load(), Limited: l.limited.Load(), Left: l.left.Load(), Invented: l.invented.Load(),
		Failed: l.failed.Load()}
	if f := l.first.Load(); f != nil {
		t.Failure = *f
	}
	return t
}

// talk keeps one connection busy; it is opened again after it was left or broke.
func (l *load) talk(ctx context.Context, target string, k *kind, tickets <-chan struct{}) {
	for ctx.Err() == nil {
		if err := l.converse(ctx, target, k, tickets); err != nil {
			l.failed.Add(1)
			text := fmt.Sprintf("%s at %s: %v", k.name, target, err)
			l.first.CompareAndSwap(nil, &text)
			time.Sleep(100 * time.Millisecond) // not to count one fault a thousand times
		}
	}
}

// longest is the longest time of an answer.
const longest = 30 * time.Second

func (l *load) converse(ctx context.Context, target string, k *kind, tickets <-chan struct{}) error {
	conn, err := net.DialTimeout("tcp", target, longest)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for ctx.Err() == nil {
		if l.pause > 0 {
			time.Sleep(rand.N(2 * l.pause))
		}
		n := l.next.Add(1)
		if k.name == "invented" {
			select {
			case <-tickets:
				l.invented.Add(1)
			case <-ctx.Done():
				return nil
			}
		}
		if err := conn.SetDeadline(time.Now().Add(longest)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nhost: soak\r\nx-tenant: %s\r\nx-client: %s\r\n\r\n", k.path,
			k.name, k.client(n)); err != nil {
			return err
		}
		if k.leaves {
			time.Sleep(rand.N(50 * time.Millisecond))
			l.left.Add(1)
			return nil
		}
		if err := l.answer(in, k); err != nil {
			return err
		}
	}
	return nil
}

// answer reads one and counts it.
func (l *load) answer(in *bufio.Reader, k *kind) error {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return err
	}
	if !k.may(resp.StatusCode) {
		return fmt.Errorf("status %d: %.200s", resp.StatusCode, body)
	}
	l.answered.Add(1)
	if resp.StatusCode == http.StatusTooManyRequests {
		l.limited.Add(1)
		if k.name == "held" {
			time.Sleep(10 * time.Millisecond) // obey a little, or refusals are all there is
		}
	}
	return nil
}
