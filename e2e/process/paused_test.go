package process

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation"
)

// Deadlines of what is said of an agent that hangs.
const (
	behindWithin = 3 * time.Second  // a change is shown as missing at its gateway
	warnedWithin = 20 * time.Second // check names the gateway: 10 s after its last report
	caughtWithin = 10 * time.Second // after the agent goes on, its gateway has what it lacked
)

// agentPaused: an agent hangs, and a change does not arrive at its gateway. `check` names the gateway, the
// missing change, and since when it is missing; the gateway keeps its configuration. After the agent resumes,
// the change is in force everywhere. No request of clients below their limits is refused.
func (w *system) agentPaused(t *testing.T) {
	asked := w.keepAsking(t)
	upToDate := []string{`gw-1 +\S+ +\d+ +0 +- +up to date`, `gw-2 +\S+ +\d+ +0 +- +up to date`}
	// A filter has a change before its agent has said so: stopped in between, the gateway would lack two.
	w.says(t, patience, "get gateways", fmt.Sprintf(`gw-1 +\S+ +%.0f +0 `, w.revision), upToDate[0], upToDate[1])
	w.signal(t, w.Gateways[0].Agent, syscall.SIGSTOP)
	t.Cleanup(func() { w.signal(t, w.Gateways[0].Agent, syscall.SIGCONT) })
	w.apply(tenant("meanwhile", 3))
	missing := `gw-1 +\S+ +\d+ +1 +\d+s +(behind|agent unreachable for \d+s)`
	took := w.says(t, behindWithin, "get gateways", missing, upToDate[1])
	w.says(t, behindWithin, "get tenants/meanwhile", `tenants/meanwhile +3 +1/2`)
	t.Logf("the change was shown as missing %v after it was applied", took)
	took = w.says(t, warnedWithin, "check", `gateways +WARNING .*gw-1, agent gw-1 for \d+s, lacks 1 change`)
	t.Logf("check named the gateway %v later", took)
	w.says(t, behindWithin, "get gateways", missing, upToDate[1])
	w.says(t, behindWithin, "get tenants/meanwhile", `tenants/meanwhile +3 +1/2`)
	if status, body := w.get(w.fronts[0]); status != http.StatusOK {
		t.Errorf("the gateway of the agent that hangs answers %d: %s", status, body)
	}
	w.signal(t, w.Gateways[0].Agent, syscall.SIGCONT)
	took = w.says(t, caughtWithin, "get gateways", upToDate...)
	t.Logf("all was in force %v after the agent went on", took)
	w.says(t, behindWithin, "get tenants/meanwhile", `tenants/meanwhile +3 +2/2`)
	w.says(t, behindWithin, "check", `gateways +OK +2 agents, 2 gateways`)
	w.linked(t, patience, 0)
	asked()
}

// signal sends a signal to a server alone.
func (w *system) signal(t *testing.T, s *installation.Server, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.Process().PID(), sig); err != nil {
		t.Errorf("%v to %s: %v", sig, s.Name, err)
	}
}

// says waits until a command succeeds and says all of the patterns, and returns how long that took.
func (w *system) says(t *testing.T, within time.Duration, command string, patterns ...string) time.Duration {
	t.Helper()
	began := time.Now()
	eventually(t, "titrate "+command, within, func() string {
		status, out, complaint := w.bin.run(t, "", append(strings.Fields(command), "--server", w.API())...)
		for _, p := range patterns {
			if status != 0 || !regexp.MustCompile(`(?m)^`+p).MatchString(out) {
				return fmt.Sprintf("status %d, no %s in:\n%s%s", status, p, out, complaint)
			}
		}
		return ""
	})
	return time.Since(began).Round(10 * time.Millisecond)
}

// repeatable is a change with an ID. The function repeats the change, and wants the first answer again.
func (w *system) repeatable(t *testing.T) (again func()) {
	change := func() string {
		status, out, complaint := w.bin.run(t, tenant("repeated", 2), "apply", "--server", w.API(), "-f", "-",
			"--request-id", "made-once", "-m", "made once")
		if status != 0 {
			t.Errorf("titrate apply --request-id: status %d: %s", status, complaint)
		}
		return out
	}
	first := change()
	if !strings.Contains(first, "tenants/repeated created") {
		t.Errorf("the first time: %s", first)
	}
	return func() {
		t.Helper()
		if out := change(); out != first {
			t.Errorf("repeated: %s, want %s", out, first)
		}
		if _, out, _ := w.bin.run(t, "", "history", "--server", w.API()); strings.Count(out, "made once") != 1 {
			t.Errorf("want the change in the history once:\n%s", out)
		}
	}
}
