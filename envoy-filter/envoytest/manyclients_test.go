package envoytest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// A client invents names against a table of 1,024 keys: it gets as much as the table has
// room for. A client that is limited stays limited, and the counters show the overflow.
func TestInventedClients(t *testing.T) {
	t.Parallel()
	const invented, room = 5000, 1208 // the budget over the part of the slots that is used at it
	e, _ := linked(t, setup(1, config.Queue{}, limited("acme", 0.001, 1)), edit{"keys: 1000000", "keys: 1024"})
	known := []string{"x-tenant", "acme", "x-client", "known"}
	if a := e.get("/", known...); a.status != http.StatusOK {
		t.Fatalf("the known client's first request: %+v", a)
	}
	before := e.resident()
	var admitted, next atomic.Int64
	var attackers sync.WaitGroup
	for range 8 {
		attackers.Go(func() {
			for i := next.Add(1); i <= invented; i = next.Add(1) {
				a, err := e.do(context.Background(), http.MethodGet, "/", nil, "x-tenant", "acme", "x-client",
					fmt.Sprint("invented-", i))
				if err != nil {
					t.Error(err)
					return
				}
				if a.status == http.StatusOK {
					admitted.Add(1)
				}
			}
		})
	}
	attackers.Wait()
	if a := e.get("/", known...); a.status != http.StatusTooManyRequests {
		t.Errorf("the known client after the attack: %+v", a)
	}
	if n := admitted.Load(); n > room+1 || n < room/2 {
		t.Errorf("%d of %d invented clients admitted by a table of %d", n, invented, room)
	}
	e.eventually("the counters", func() bool {
		return e.metric("titrate_overflow_total{}") >= float64(invented-room) &&
			e.metric(outcome("api", "client_limit")) >= float64(invented-room)
	})
	if n := e.metric("titrate_keys{}"); n > room { // counted every ten seconds
		t.Errorf("%v keys in a table of %d", n, room)
	}
	if grown := e.resident() - before; grown > 64<<20 {
		t.Errorf("Envoy grew by %d MiB", grown>>20)
	} else {
		t.Logf("%d of %d admitted, %v by the shared key, Envoy grew by %d KiB", admitted.Load(), invented,
			e.metric("titrate_overflow_total{}"), grown>>10)
	}
	e.alive()
}

// resident is the memory that Envoy has now, in bytes.
func (e *envoy) resident() int64 {
	e.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.cmd.Process.Pid))
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(b)
	if err != nil || m == nil {
		e.t.Fatalf("Envoy's memory: %v\n%s", err, b)
	}
	kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kib << 10
}
