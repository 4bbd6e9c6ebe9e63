package agent

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestNamesAreChecked(t *testing.T) {
	c := Config{Name: "../x", Socket: "/nowhere/s"} // settings are read before anything is opened
	if _, err := c.Complete(t.Context()); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), `--name "../x"`) {
		t.Errorf("%v", err)
	}
}

// Two agents would replace each other's snapshot. An agent that stops gives the directory back.
func TestOneAgentHasASnapshotDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := run(t, Config{Name: "agent-1", SnapshotDir: dir})
	c := Config{Name: "agent-2", SnapshotDir: dir, Socket: filepath.Join(t.TempDir(), "b.sock"), Gossip: "127.0.0.1:0",
		Admin: "127.0.0.1:0"}
	want := "--snapshot-dir: " + dir + " is in use by agent agent-1, process "
	if _, err := c.Complete(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	a.stop()
	run(t, c).stop()
}
