package containers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/e2e/guide"
	"github.com/titrate/titrate/lab/installation"
)

// The guide for containers: an Envoy whose image is not ours, which gets the module from a
// volume and the agent over a socket that belongs to its group.
func TestGuideContainers(t *testing.T) {
	requireEngine(t)
	blocks := guide.Blocks(t, "../../docs/your-own-envoy.md", "Containers", "sh")
	if len(blocks) != 3 {
		t.Fatalf("the section has %d blocks, want one that starts, one that asks, one that removes", len(blocks))
	}
	ports, err := installation.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	// The port that is published may be somebody's on this machine.
	published := strings.NewReplacer("127.0.0.1:8000", "127.0.0.1:"+strconv.Itoa(ports[0]))
	clone := t.TempDir()
	deploy, err := filepath.Abs("../../deploy")
	if err == nil {
		err = os.Symlink(deploy, filepath.Join(clone, "deploy"))
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(script string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-euc", published.Replace(script))
		cmd.Dir = clone
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	t.Cleanup(func() {
		if said, err := run(blocks[2]); err != nil {
			t.Errorf("removing it: %v\n%s", err, said)
		}
	})
	said, err := run(blocks[0])
	if err == nil {
		said, err = run(blocks[1])
	}
	if err != nil {
		logs, _ := run("for c in envoy agent coordinator; do docker logs titrate-try-$c 2>&1 | tail -20; done")
		t.Fatalf("%v:\n%s\n%s", err, said, logs)
	}
	guide.CheckLimited(t, said)
}
