package coordinator

import (
	"fmt"
	"testing"
	"time"
)

// claimant plays agents and a coordinator that raises what is believed.
type claimant struct {
	claims
	now             time.Time
	epoch, revision int64 // of the coordinator
	connected       []string
	raised          int
}

func newClaimant(agents int) *claimant {
	c := &claimant{now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	for i := range agents {
		c.connected = append(c.connected, fmt.Sprint("agent-", i))
	}
	return c
}

// second lets a second pass.
func (c *claimant) second() {
	c.now = c.now.Add(time.Second)
	epoch, revision, _ := c.decide(c.now, c.connected,
		func(epoch, revision int64) bool { return epoch <= c.epoch && revision <= c.revision })
	if revision > c.revision || epoch > c.epoch {
		c.raised++
		c.epoch, c.revision = max(c.epoch, epoch), max(c.revision, revision)
	}
}

// One lying agent of ten raises the revision once in ten minutes, and never far ahead.
func TestOneAgentCannotRaiseTheRevisionAgainAndAgain(t *testing.T) {
	c := newClaimant(10)
	for range 540 {
		c.add(c.now, "agent-3", 0, c.now.UnixMilli())
		c.second()
	}
	if c.raised != 1 {
		t.Errorf("540 Hellos in nine minutes raised the revision %d times, want once", c.raised)
	}
	c.now = c.now.Add(time.Hour)
	for range 60 {
		far := c.now.Add(29 * 24 * time.Hour).UnixMilli()
		c.add(c.now, "agent-3", far, far)
		c.second()
	}
	if c.raised != 1 || c.doubted.Load() == 0 {
		t.Errorf("29 days ahead: raised %d times, %d doubted", c.raised, c.doubted.Load())
	}
}

// An agent with many names, more than there are agents, raises the revision once in a minute, and not
// far ahead.
func TestManyNamesAreBounded(t *testing.T) {
	c := newClaimant(10)
	for i := range 120 {
		for name := range 50 {
			ahead := c.now.Add(time.Duration(i%2) * 29 * 24 * time.Hour).UnixMilli()
			c.add(c.now, fmt.Sprint("invented-", name), 0, ahead)
		}
		c.second()
	}
	if limit := c.now.Add(farAhead).UnixMilli(); c.raised > 3 || c.revision > limit {
		t.Errorf("raised %d times in two minutes, to %d ms ahead", c.raised, c.revision-c.now.UnixMilli())
	}
}

// If a lying agent reaches a new leader first, the leader decides after the others have come, too.
func TestTheFirstHelloIsNotAlone(t *testing.T) {
	c := newClaimant(0)
	far := c.now.Add(time.Hour).UnixMilli()
	c.add(c.now, "liar", far, far)
	c.second()
	c.connected = newClaimant(5).connected
	for range 20 {
		c.second()
	}
	if c.raised != 0 {
		t.Error("the first agent of a new leader is believed")
	}
}

// After a real loss the numbers of most agents count, however wrong one agent's are.
func TestMostAgentsAreBelieved(t *testing.T) {
	for _, agents := range []int{1, 2, 3, 100} {
		c := newClaimant(agents)
		if agents > 2 {
			c.add(c.now, "agent-0", 1<<60, 1<<60) // the lie
		} else {
			c.add(c.now, "agent-0", 70, 700)
		}
		for i := 1; i < agents; i++ {
			c.add(c.now, fmt.Sprint("agent-", i), 70, 700)
		}
		for range 4 {
			c.second()
		}
		if c.epoch != 70 || c.revision != 700 {
			t.Errorf("%d agents: epoch %d and revision %d, want 70 and 700", agents, c.epoch, c.revision)
		}
	}
}

// What is believed and not carried out, since etcd is away, is tried until it is.
func TestWhatIsBelievedIsTriedAgain(t *testing.T) {
	c := newClaimant(1)
	never := func(int64, int64) bool { return false }
	c.add(c.now, "agent-0", 0, 700)
	tried := 0
	for range 25 {
		c.now = c.now.Add(time.Second)
		if _, revision, _ := c.decide(c.now, c.connected, never); revision == 700 {
			tried++
		}
	}
	if tried < 20 {
		t.Errorf("tried %d times in 25 s", tried)
	}
}
