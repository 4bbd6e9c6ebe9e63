package envoytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// generation is one of the Envoys of a hot restart: the same listener, agent and
// shared memory.
func generation(t *testing.T, epoch, base, port int, socket string) *envoy {
	t.Helper()
	edits := []edit{{"name: ingress\n    address:\n      socket_address: { address: 127.0.0.1, port_value: 0 }",
		fmt.Sprintf("name: ingress\n    address:\n      socket_address: { address: 127.0.0.1, port_value: %d }", port)}}
	if socket != "" {
		edits = append(edits, edit{"agent_socket: ", "agent_socket: " + socket + " # instead of "})
	}
	return launch{example: quickstart, concurrency: 2, edits: edits,
		arguments: []string{"--base-id", strconv.Itoa(base),
			"--restart-epoch", strconv.Itoa(epoch), "--drain-time-s", "2", "--parent-shutdown-time-s", "5"}}.spawn(t)
}

// hammer asks for a tenant over n connections until it is stopped, and returns how
// many were answered. Every other connection is new for each request.
func hammer(e *envoy, n int, tenant string) (stop func() int64) {
	ctx, cancel := context.WithCancel(context.Background())
	var answered atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		other := *e
		other.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}, Timeout: 30 * time.Second}
		all.Go(func() {
			defer other.client.CloseIdleConnections()
			for ctx.Err() == nil {
				a, err := other.do(context.Background(), http.MethodGet, "/", nil, "x-tenant", tenant)
				if err != nil || a.status != http.StatusOK {
					e.t.Errorf("a request of %s: %d %v", tenant, a.status, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	stop = func() int64 { cancel(); all.Wait(); return answered.Load() }
	e.t.Cleanup(func() { stop() })
	return stop
}

// spend asks for a client until it is refused, twenty times at most, and counts.
func spend(e *envoy, tenant string) (admitted int) {
	for range 20 {
		if e.get("/", "x-tenant", tenant).status == http.StatusOK {
			admitted++
		}
	}
	return admitted
}

// A hot restart under load: the child takes over, the parent answers the requests that it holds, and the agent
// sees one gateway in two generations.
func TestHotRestart(t *testing.T) {
	t.Parallel()
	needEnvoy(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	base := 1000 + rand.IntN(30000)
	parent := generation(t, 0, base, port, "")
	parent.serve()
	a := startAgent(t, parent.socket, setup(1, patient, limited("acme", 1e5, 1e5), capped("held", 20),
		limited("tight", 0.001, 10))...)
	parent.eventually("the configuration", func() bool { return parent.metric("titrate_config_revision{}") > 0 })

	if n := spend(parent, "tight"); n != 10 {
		t.Errorf("%d admitted at a burst of 10", n)
	}
	stop := hammer(parent, 8, "acme")
	stopHeld := hammer(parent, 24, "held")
	parent.eventually("held requests", func() bool { return parent.metric("titrate_held{}") > 10 })
	child := generation(t, 1, base, port, parent.socket)
	child.serve()
	child.eventually("the child's link", func() bool { return child.metric("titrate_config_revision{}") > 0 })
	select {
	case <-parent.exited:
	case <-time.After(60 * time.Second):
		t.Fatalf("the parent lives on:\n%s", parent.log)
	}
	if parent.err != nil {
		t.Errorf("the parent ended with %v", parent.err)
	}
	admitted := outcome("api", "admitted")
	if before140(t) { // these Envoys hand over metrics with their labels inside their names
		admitted = "titrate_requests_total_pool_api_outcome_admitted{}"
	}
	child.eventually("the child's requests", func() bool { return child.metric(admitted) > 100 })
	if n := spend(child, "tight"); n != 0 {
		t.Errorf("%d admitted by the child after the parent's burst of 10", n)
	}
	t.Logf("%d answered, and %d after a wait, none failed", stop(), stopHeld())
	child.eventually("nothing left", func() bool {
		return child.metric("titrate_held{}") == 0 &&
			child.metric(active) == 0
	})
	child.alive()
	a.mu.Lock()
	defer a.mu.Unlock()
	first, last := a.hellos[0], a.hellos[len(a.hellos)-1]
	if len(a.hellos) != 2 || first.Replica != last.Replica || first.Generation >= last.Generation ||
		last.PID != child.cmd.Process.Pid {
		t.Errorf("the agent met %+v first and %+v last, of %d", first, last, len(a.hellos))
	}
}
