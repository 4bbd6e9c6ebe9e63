package envoytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
)

// A client is found among few headers and among more than are fetched at once,
// and of several lines of one name the first counts.
func TestHeadersFewAndMany(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, limited("acme", 0.001, 1)))
	for _, many := range []int{0, 30, 90} {
		client := fmt.Sprintf("client-%d", many)
		headers := []string{"x-tenant", "acme"}
		for i := range many {
			headers = append(headers, fmt.Sprintf("x-other-%d", i), "something")
		}
		headers = append(headers, "x-client", client)
		for i, want := range []int{200, 429} {
			if a := e.get("/", headers...); a.status != want {
				t.Errorf("request %d of %s: status %d, want %d", i, client, a.status, want)
			}
		}
	}
}

// Envoy's own threads do not keep the timer slack of Go's monitor thread.
func TestOnlyTheRuntimeWakesLate(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, limited("acme", 10, 10)))
	const late = 1_000_000 // ns
	slack := func(thread string) int {
		text, err := os.ReadFile("/proc/" + thread + "/timerslack_ns")
		if err != nil {
			t.Skipf("other processes' timer slack cannot be read here: %v", err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	pid := strconv.Itoa(e.cmd.Process.Pid)
	threads, err := os.ReadDir(filepath.Join("/proc", pid, "task"))
	if err != nil {
		t.Fatal(err)
	}
	some := false
	for _, thread := range threads {
		name, err := os.ReadFile(filepath.Join("/proc", pid, "task", thread.Name(), "comm"))
		if err != nil {
			continue // it has ended
		}
		isLate := slack(thread.Name()) >= late
		some = some || isLate
		if isLate && (thread.Name() == pid || strings.HasPrefix(string(name), "wrk:")) {
			t.Errorf("Envoy's thread %s wakes up %d ns late", strings.TrimSpace(string(name)), slack(thread.Name()))
		}
	}
	if !some {
		t.Error("no thread wakes up late: the monitor was started before its slack was set")
	}
}
