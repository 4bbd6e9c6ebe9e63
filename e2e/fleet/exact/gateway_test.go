package exact

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
)

// unlinked is a gateway with a limit of burst 2 and no agent, so that the ledger decides.
func unlinked(t *testing.T, split time.Duration) *Gateway {
	g := New(Options{Socket: filepath.Join(t.TempDir(), "none"), Name: "gw", Gateways: 1, Keys: 1, Split: split})
	t.Cleanup(g.Close)
	if err := g.engine.Apply(&config.Config{Revision: 1, Tenants: []config.Tenant{{Name: Tenants[0], Weight: 1,
		Limits: []config.Limit{{Name: "each", Rate: 1e-9, Burst: 2, Precision: config.Exact}}}}}); err != nil {
		t.Fatal(err)
	}
	return g
}

// Requests are counted, and refusals with their first request.
func TestCounts(t *testing.T) {
	g := unlinked(t, time.Hour)
	for range 3 {
		g.ask(0, request{cost: 1})
	}
	if c := g.Counts(); c != (Counts{Requests: 3, Refused: 1}) {
		t.Errorf("%+v", c)
	}
	if text := g.FirstRefusal(); !strings.Contains(text, `gw refused client c-0-0: client_limit, limit "each"`) {
		t.Error(text)
	}
	if text := g.FirstRefusal(); text != "" {
		t.Errorf("it was said before: %s", text)
	}
}

// A gateway may refuse requests beyond its part once it has had no agent for long, and only then.
func TestRefusalsWithoutAgent(t *testing.T) {
	g := unlinked(t, -1)
	refuse := func() uint64 {
		g.judge("c", &limiter.Outcome{Verdict: limiter.Reject})
		return g.Counts().Refused
	}
	if g.Alone(true); refuse() != 0 {
		t.Error("a refusal counts that may be")
	}
	if g.Alone(false); refuse() != 1 {
		t.Error("a refusal does not count, with an agent")
	}
}

// A request that waits ends once, with the outcome of its event.
func TestEndOfAWait(t *testing.T) {
	g := unlinked(t, 0)
	var got []limiter.Verdict
	g.waiting[7] = func(out *limiter.Outcome) { got = append(got, out.Verdict) }
	g.ended([]limiter.Event{{Ticket: 7, Outcome: limiter.Outcome{Verdict: limiter.Reject}}})
	if !slices.Equal(got, []limiter.Verdict{limiter.Reject}) || len(g.waiting) > 0 {
		t.Errorf("%v, %d wait", got, len(g.waiting))
	}
	g.Ask(&limiter.Request{Tenant: Tenants[0], Client: "other", Pool: Pool, Cost: 1}, func(out *limiter.Outcome) {
		got = append(got, out.Verdict)
	})
	if len(got) != 2 || got[1] != limiter.Admit || len(g.waiting) > 0 {
		t.Errorf("%v, %d wait", got, len(g.waiting))
	}
}

// A paused gateway takes in no answer, and its link does nothing, before the pause ends.
func TestPause(t *testing.T) {
	g := unlinked(t, 0)
	g.gate.Lock()
	var ended atomic.Bool
	var all sync.WaitGroup
	for name, f := range map[string]func(){"an answer": func() { g.answer(&exchange.TokenAnswers{}) },
		"the link": func() { g.now() }, "the ticker": g.pass} {
		all.Go(func() {
			if f(); !ended.Load() {
				t.Errorf("%s goes on in a pause", name)
			}
		})
	}
	runtime.Gosched()
	ended.Store(true)
	g.gate.Unlock()
	all.Wait()
}
