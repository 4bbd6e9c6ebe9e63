package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/titrate/titrate/services/command"
)

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	args := []string{"secrets", "--dir", dir, "--certificate", "server=localhost,10.0.0.7", "--gossip-key", "gossip"}
	if said := must(t, "", "", args...); said != "made server\nmade gossip\n" {
		t.Errorf("%q", said)
	}
	if said := must(t, "", "", args...); said != "kept server\nkept gossip\n" {
		t.Errorf("%q", said)
	}
	info, err := os.Stat(filepath.Join(dir, "server", "tls.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	fails(t, "", command.ExitUsage, "", []string{"--dir", "--kubernetes"}, "secrets", "--gossip-key", "gossip")
	fails(t, "", command.ExitUsage, "", []string{`"server"`, "agent=agents.example.org"}, "secrets", "--dir", dir,
		"--certificate", "server")
	fails(t, "", command.ExitFailed, "", []string{"this is no pod"}, "secrets", "--kubernetes", "--gossip-key",
		"gossip")
}
