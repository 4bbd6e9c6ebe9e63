package agent

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Gossip keys that change in the file are in force without a restart; a file that cannot be used is an alarm.
func TestGossipKeysAreReplaced(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := base64.StdEncoding.EncodeToString(make([]byte, 32)),
		base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 16))
	put(first + "\n")
	a := run(t, Config{Name: "agent-1", GossipKeyFile: file, Gossip: "127.0.0.1:0"})
	metric := func(keys string) bool {
		_, metrics := a.http("GET", "/metrics")
		return strings.Contains(metrics, "\ntitrate_agent_gossip_keys "+keys+"\n")
	}
	a.eventually("has one key", func(Status) bool { return metric("1") })
	put(first + "\n" + second + "\n")
	a.eventually("has both", func(Status) bool { return metric("2") })
	put(second + "\n\nshort\n")
	a.eventually("tells", func(Status) bool {
		err := a.keysUnusable()
		return err != nil && strings.Contains(err.Error(), "line 3") && metric("2")
	})
	put(second)
	a.eventually("has the second alone", func(Status) bool {
		return metric("1") && a.keysUnusable() == nil
	})
}
