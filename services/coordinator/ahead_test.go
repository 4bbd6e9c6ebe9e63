package coordinator

import (
	"fmt"
	"testing"
	"time"
)

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("agent-", i))
	}
	return out
}

// One agent of ten that lies raises the revision once in ten minutes, and never far ahead.
func TestOneAgentCannotRaiseTheRevisionAgainAndAgain(t *testing.T) {
	var c claims
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	raised := 0
	for i := range 30 {
		at := now.Add(time.Duration(i) * 200 * time.Millisecond)
		if _, revision := c.add(at, "agent-3", 0, at.UnixMilli(), names(10)); revision > 0 {
			raised++
		}
	}
	if raised != 1 {
		t.Errorf("30 Hellos in 6 s raised the revision %d times, want once", raised)
	}
	later := now.Add(time.Hour)
	far := later.Add(29 * 24 * time.Hour).UnixMilli()
	if epoch, revision := c.add(later, "agent-3", far, far, names(10)); epoch != 0 || revision != 0 {
		t.Errorf("29 days ahead: epoch %d and revision %d are believed", epoch, revision)
	}
	if b, d := c.believed.Load(), c.doubted.Load(); b != 1 || d != 30 {
		t.Errorf("%d claims believed and %d doubted, want 1 and 30", b, d)
	}
}

// After a real loss the numbers of most agents count, however far one of them lies.
func TestMostAgentsAreBelieved(t *testing.T) {
	var c claims
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	c.add(now, "agent-0", 1<<60, 1<<60, names(5)) // the lie
	for i := 1; i < 5; i++ {
		epoch, revision := c.add(now, fmt.Sprint("agent-", i), 70, 700+int64(i), names(5))
		if want := i >= 2; (revision > 0) != want && i != 1 {
			t.Errorf("after %d claims of five agents: %d", i+1, revision)
		}
		if epoch > 70 || revision > 704 {
			t.Errorf("epoch %d and revision %d: a lie is believed", epoch, revision)
		}
	}
	var only claims
	if _, revision := only.add(now, "one", 0, now.Add(time.Hour).UnixMilli(), nil); revision == 0 {
		t.Error("the only agent is not believed")
	}
}
