package agent

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/titrate/titrate/services/telemetry"
)

func security(cert, key string) telemetry.Security { return telemetry.Security{Cert: cert, Key: key} }

func TestExited(t *testing.T) {
	if exited(os.Getpid()) {
		t.Error("this process is gone")
	}
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	for end := time.Now().Add(5 * time.Second); !exited(c.Process.Pid); { // a zombie first
		if time.Now().After(end) {
			t.Fatal("an ended process is not seen as gone")
		}
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if !exited(c.Process.Pid) {
		t.Error("a reaped process is not seen as gone")
	}
}
