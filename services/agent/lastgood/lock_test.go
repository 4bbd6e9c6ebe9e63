package lastgood

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestOneProcessHasADirectory(t *testing.T) {
	dir := t.TempDir()
	one, err := LockDir(dir, "agent-with-a-long-name")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s is in use by agent agent-with-a-long-name, process %d: ", dir, os.Getpid())
	if _, err := LockDir(dir, "two"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a second one: %v, want %s", err, want)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	two, err := LockDir(dir, "two")
	if err != nil {
		t.Fatalf("after the first one: %v", err)
	}
	defer two.Close()
	if _, err := LockDir(dir, "three"); err == nil || !strings.Contains(err.Error(), "in use by agent two, process") {
		t.Errorf("%v", err)
	}
}
