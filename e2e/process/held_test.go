package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/upstream"
)

// heldMax is the quota of the tenant whose requests wait, requests/s.
const heldMax = 50

// answer is the outcome of a request: a status and the time at which the upstream received it, or an error.
type answer struct {
	status  int
	arrived time.Time
	err     error
}

// ask sends one request of a tenant on its own connection.
func ask(ctx context.Context, client *http.Client, url, tenant string) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set(load.TenantHeader, tenant)
	req.Header.Set(load.ClientHeader, "any")
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	ns, _ := strconv.ParseInt(resp.Header.Get(upstream.ArrivalHeader), 10, 64)
	return answer{resp.StatusCode, time.Unix(0, ns), err}
}

// askAgain asks until the tenant's share lets the request in or wait, as clients do that are refused. The
// share in force when many requests come at once may be that of the little traffic before them, and what
// may wait is in proportion to it. A request that cannot be repeated was refused.
func askAgain(ctx context.Context, client *http.Client, url, tenant string) answer {
	a := ask(ctx, client, url, tenant)
	for a.err == nil && a.status == http.StatusTooManyRequests {
		time.Sleep(50 * time.Millisecond)
		again := ask(ctx, client, url, tenant)
		if again.err != nil {
			return a
		}
		a = again
	}
	return a
}

// flood sends n requests of a tenant to each gateway at once, and repeats refused requests. The channel is
// closed after the last request has ended.
func (w *system) flood(ctx context.Context, n int, tenant string, urls ...string) <-chan answer {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: 2 * patience}
	answers := make(chan answer, n*len(urls))
	var all sync.WaitGroup
	for _, url := range urls {
		for range n {
			all.Go(func() { answers <- askAgain(ctx, client, url, tenant) })
		}
	}
	go func() {
		all.Wait()
		client.CloseIdleConnections()
		close(answers)
	}()
	return answers
}

// holding waits until the gateways hold at least n requests each.
func (w *system) holding(t *testing.T, n float64, indexes ...int) {
	t.Helper()
	for _, i := range indexes {
		eventually(t, fmt.Sprintf("gateway %d holds %v requests", i+1, n), patience, func() string {
			if held := w.filter(i, "titrate_held"); held < n {
				return fmt.Sprintf("it holds %v", held)
			}
			return ""
		})
	}
}

// holdingNone waits until no gateway holds a request.
func (w *system) holdingNone(t *testing.T) {
	t.Helper()
	eventually(t, "nothing is held", patience, func() string {
		for i := range w.admins {
			if held := w.filter(i, "titrate_held"); held != 0 {
				return fmt.Sprintf("gateway %d holds %v", i+1, held)
			}
		}
		return ""
	})
}

// abortWhileHeld: clients leave by the hundred while their requests wait. Their
// places are given back, and what comes after gets the share that is due: no less,
// and no more for the backlog that went away.
func (w *system) abortWhileHeld(t *testing.T) {
	const flood, rounds, later = 200, 2, 60
	cancelled := 0.0
	for range rounds {
		ctx, abort := context.WithCancel(t.Context())
		answers := w.flood(ctx, flood, "held", w.fronts...)
		w.holding(t, flood/2, 0, 1)
		abort()
		for a := range answers {
			if a.err == nil && a.status/100 == 5 {
				t.Errorf("status %d while clients leave", a.status)
			}
		}
		w.holdingNone(t)
	}
	for i := range w.admins {
		cancelled += w.metric(w.admins[i]+"/stats/prometheus", "titrate_requests_total", `outcome="cancelled"`)
	}
	if least := float64(rounds * gateways * flood / 2); cancelled < least {
		t.Errorf("%v requests counted as cancelled, at least %v were held when their clients left", cancelled, least)
	}
	var times []float64
	for a := range w.flood(t.Context(), later, "held", w.fronts...) {
		if a.err != nil || a.status != http.StatusOK {
			t.Fatalf("a request after the aborts: status %d, %v", a.status, a.err)
		}
		times = append(times, float64(a.arrived.UnixNano())/1e9)
	}
	over := excess(times, heldMax, 0)
	took := times[len(times)-1] - times[0]
	t.Logf("%v cancelled while held; then %d requests took %.2f s at %d/s, %.1f over max·t in the worst window",
		cancelled, len(times), took, heldMax, over)
	if due := float64(len(times)) / heldMax; took > 3*due {
		t.Errorf("%d requests took %.2f s, at %d/s they take %.2f s", len(times), took, heldMax, due)
	}
	if over > .5*heldMax {
		t.Errorf("%.1f requests over max·t in some window, at most %.1f may be", over, .5*heldMax)
	}
}

// termWhileHeld: an Envoy that receives SIGTERM with held requests ends in time, and every held request gets an
// answer or a closed connection.
func (w *system) termWhileHeld(t *testing.T) {
	const flood = 150
	w.holdingNone(t) // what an earlier test left would count as held
	answers := w.flood(t.Context(), flood, "held", w.fronts[0])
	w.holding(t, flood/2, 0)
	began := time.Now()
	if err := syscall.Kill(w.Gateways[0].Process().PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := exited(t, w.Gateways[0].Process(), patience); status != 0 {
		t.Errorf("%v", w.Gateways[0].Process().Obituary())
	}
	took := time.Since(began)
	statuses, closed := map[int]int{}, 0
	for a := range answers {
		if a.err != nil && time.Since(began) > patience {
			t.Fatalf("a held request hung: %v", a.err)
		}
		if a.err != nil {
			closed++
		} else {
			statuses[a.status]++
		}
	}
	// Those still on their way in when Envoy stops accepting are not held.
	if closed > flood/10 {
		t.Errorf("%d of %d requests were closed without an answer; %v", closed, flood, w.Gateways[0].Process().Obituary())
	}
	t.Logf("Envoy ended %.2f s after SIGTERM with status 0; of %d requests: answered %v, closed %d", took.Seconds(),
		flood, statuses, closed)
	w.start(w.Gateways[0].Proxy.Server)
	w.linked(t, patience, 0)
	if a := ask(t.Context(), w.client, w.fronts[0], "fed"); a.err != nil || a.status != http.StatusOK {
		t.Errorf("the Envoy that came back: status %d, %v", a.status, a.err)
	}
}
