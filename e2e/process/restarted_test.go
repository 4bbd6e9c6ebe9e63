package process

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/dev/load"
)

// The load of restarted's clients. A restart adds the tokens that refill in the 250 ms for which a key is not
// reported. It adds the cost that a killed Envoy admitted in its last 250 ms, which is nothing here
// (docs/guarantees.md).
const (
	restartedRate  = 6. / 60
	restartedBurst = 20
	restartedSlack = 1
	restarts       = 3
	// enough refusals, one each 5 ms or slower, that the agent has the reports of requests that were admitted
	// before them: they come within 250 ms.
	enough = 100
)

// restarted: an Envoy that is started again while its agent runs, without a hot restart, gives no client its
// burst again and opens no window without limits.
func (w *system) restarted(t *testing.T) {
	for client, signal := range map[string]syscall.Signal{"terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		began := time.Now()
		load := w.ask(t, client)
		for range restarts {
			was := load.refused.Load()
			eventually(t, client+" is refused", patience, func() string {
				return unless(load.refused.Load() > was+enough, load.String())
			})
			if err := syscall.Kill(w.Gateways[0].Process().PID(), signal); err != nil {
				t.Fatal(err)
			}
			exited(t, w.Gateways[0].Process(), patience)
			w.start(w.Gateways[0].Proxy.Server)
			w.linked(t, patience, 0)
			if n := w.metric(w.admins[0]+"/stats/prometheus", "titrate_requests_total", `outcome="booted"`); n != 0 {
				t.Errorf("%v requests were admitted before the first configuration", n)
			}
		}
		admitted, took := load.end(), time.Since(began).Seconds()
		most := restartedBurst + restartedRate*took + restartedSlack
		t.Logf("%s: %d admitted in %.1f s with %d restarts, at most %.1f are due", client, admitted, took, restarts,
			most)
		if float64(admitted) > most || admitted < restartedBurst {
			t.Errorf("%s got %d requests, want %d to %.1f", client, admitted, restartedBurst, most)
		}
	}
}

// asking is a client that asks the first gateway all the time.
type asking struct {
	admitted, refused, others atomic.Int64
	stop                      chan struct{}
	ended                     sync.WaitGroup
}

func (w *system) ask(t *testing.T, client string) *asking {
	a := &asking{stop: make(chan struct{})}
	a.ended.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-a.stop:
				return
			case <-tick.C:
			}
			r, err := http.NewRequest(http.MethodGet, w.fronts[0], nil)
			if err != nil {
				return
			}
			r.Header.Set(load.TenantHeader, "fed")
			r.Header.Set(load.ClientHeader, client)
			resp, err := w.client.Do(r)
			if err != nil {
				continue // no Envoy is there
			}
			resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				a.admitted.Add(1)
			case http.StatusTooManyRequests:
				a.refused.Add(1)
			default:
				a.others.Add(1)
			}
		}
	})
	return a
}

func (a *asking) end() int64 {
	close(a.stop)
	a.ended.Wait()
	return a.admitted.Load()
}

func (a *asking) String() string {
	return fmt.Sprintf("%d admitted, %d refused, %d answered otherwise", a.admitted.Load(), a.refused.Load(),
		a.others.Load())
}
