package envoytest

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/proto/link"
)

// at starts an Envoy that uses an agent's socket, without waiting for Envoy.
func at(t *testing.T, socket, bootWait string) *envoy {
	t.Helper()
	return launch{example: quickstart, concurrency: 2, bootWait: bootWait,
		edits: []edit{{"agent_socket: ", "agent_socket: " + socket + " # instead of "}}}.spawn(t)
}

// Envoy takes no traffic before its first configuration, and then limits the first request like any other.
// Without an agent it waits for boot_wait.
func TestNoTrafficBeforeTheConfiguration(t *testing.T) {
	t.Parallel()
	needEnvoy(t)
	socket := filepath.Join(t.TempDir(), "a.sock")
	e := at(t, socket, "60s")
	e.logged("no link to the agent")
	if strings.Contains(e.log.String(), "starting workers") {
		t.Errorf("workers run without a configuration:\n%s", e.log)
	}
	startAgent(t, socket, setup(1, config.Queue{}, limited("acme", 0.001, 2))...)
	e.serve()
	if n := spend(e, "acme"); n != 2 {
		t.Errorf("%d admitted at a burst of 2", n)
	}
	if n := e.metric(outcome("-", "booted")); n != 0 {
		t.Errorf("%v requests were admitted before a configuration", n)
	}
	e.alive()

	lonely := at(t, filepath.Join(t.TempDir(), "nobody.sock"), "300ms")
	lonely.serve()
	if !strings.Contains(lonely.log.String(), "no configuration within boot_wait") {
		t.Errorf("the missing configuration is not logged:\n%s", lonely.log)
	}
	if a := lonely.get("/", "x-tenant", "acme"); a.status != http.StatusOK {
		t.Errorf("boot_policy OPEN: %d", a.status)
	}
}

// A client that has spent its burst gets nothing more from an Envoy that is started again while its agent runs,
// whether the Envoy before was stopped or killed. No other gateway exists that could know what the client has
// spent.
func TestPlainRestart(t *testing.T) {
	t.Parallel()
	needEnvoy(t)
	const burst = 10
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "a.sock")
			state := setup(1, config.Queue{}, limited("acme", 0.001, burst))
			a := startAgent(t, socket, state...)
			admitted := 0
			for life := range 3 {
				e := at(t, socket, "60s")
				e.serve()
				n := spend(e, "acme")
				t.Logf("life %d: %d admitted", life+1, n)
				admitted += n
				if signal == syscall.SIGKILL {
					e.eventually("word of the key", func() bool { return len(a.spentKeys().Keys) > 0 })
				}
				e.cmd.Process.Signal(signal)
				<-e.exited
				until(t, "word of the key", func() bool { return len(a.spentKeys().Keys) > 0 })
				a.setState(append([]link.Message{a.spentKeys()}, state...)...)
			}
			if admitted != burst {
				t.Errorf("%d admitted over three lives at a burst of %d", admitted, burst)
			}
		})
	}
}
