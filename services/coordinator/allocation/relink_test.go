package allocation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

// An agent that starts anew names no gateway until its gateways have found it. They live
// on meanwhile: if they were no members, the others would take their parts as well.
func TestAnAgentThatStartsAnewKeepsItsGateways(t *testing.T) {
	r := fleet()
	now := time.Unix(1_700_000_000, 0)
	members := func() (names []string) {
		for _, m := range r.Step(now).Members {
			names = append(names, m.Name)
		}
		return names
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if got := members(); !slices.Equal(got, want) {
			t.Errorf("%s: members %v, want %v", what, got, want)
		}
	}
	empty := &allocation.Report{Interval: 250 * time.Millisecond}
	r.Observe(now, "agent-0", honest(0))
	r.Observe(now, "agent-1", honest(1))
	expect("before", "gw-0", "gw-1")
	r.Connect(now, "agent-1", nil)
	expect("started anew", "gw-0", "gw-1")
	now = now.Add(time.Second)
	r.Observe(now, "agent-1", empty)
	expect("its gateway has not come back yet", "gw-0", "gw-1")
	r.Observe(now, "agent-1", honest(1))
	expect("it has", "gw-0", "gw-1")
	r.Observe(now, "agent-1", empty)
	expect("and has gone", "gw-0")
	r.Observe(now, "agent-1", honest(1))
	r.Connect(now, "agent-1", nil)
	now = now.Add(6 * time.Second)
	r.Observe(now, "agent-1", empty)
	expect("it never came back", "gw-0")
}
