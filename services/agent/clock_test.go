package agent

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// A host's clock that is an hour slow does not matter: neither while a coordinator says the time, nor after a restart
// of the agent without one. Gateways are sent the coordinator's time.
func TestTheHostsClockMayBeWrong(t *testing.T) {
	t.Parallel()
	right := func(at config.Instant) bool {
		off := time.Until(at.Time()) - time.Hour
		return off > -time.Minute && off < time.Minute
	}
	dir := filepath.Join(t.TempDir(), "state")
	c := lead(t, pools(3, true, 100), 5, 40)
	c.set(func() { c.ahead = time.Hour })
	a := run(t, Config{Name: "agent-1", Coordinators: []string{c.address}, SnapshotDir: dir})
	a.eventually("has its orders", func(s Status) bool { return s.ConfigRevision == 3 && right(a.clock()) })
	f := connect(a, "gw-1", 1)
	f.eventually("has the time", func() bool { return f.beat != nil && right(f.beat.Clock) })
	a.stop()
	c.stop()

	again := run(t, Config{Name: "agent-1", Coordinators: []string{c.address}, SnapshotDir: dir})
	if at := again.clock(); !right(at) {
		t.Errorf("after a restart it is %v", at)
	}
	f = connect(again, "gw-1", 2)
	f.eventually("has the time", func() bool { return f.beat != nil && right(f.beat.Clock) })
}

// Without a snapshot and a coordinator that says the time, the host's clock counts.
func TestTheHostsClockIsTheLastResort(t *testing.T) {
	t.Parallel()
	a := run(t, Config{Name: "agent-1"})
	if off := time.Until(a.clock().Time()); off < -time.Minute || off > time.Minute {
		t.Errorf("off by %v", off)
	}
}

// clock is the time of day that the coordinator sends.
func (c *coordinator) clock() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead == 0 {
		return 0
	}
	return time.Now().Add(c.ahead).UnixMilli()
}
