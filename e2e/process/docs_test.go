package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/e2e/guide"
)

const (
	tutorial = "../../docs/tutorial.md"
	tryIt    = "../../docs/how-to/README.md" // starts what the how-tos need
	machine  = "virtual-machine"             // the how-to that e2e/packages follows, where systemd runs
)

// followedAtOnce bounds how many how-tos are followed at a time: each starts its own installation.
const followedAtOnce = 3

// The tutorial, as a new user would go through it: its outputs are the outputs of its commands.
func TestTutorial(t *testing.T) {
	b := need(t)
	t.Parallel()
	guide.Follow(t, b.clone(t, map[string]string{"envoy": b.envoy}), tutorial)
}

// Each how-to works as written, in its own installation.
func TestHowTos(t *testing.T) {
	b := need(t)
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(filepath.Dir(tryIt), "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("how-tos %v, %v", pages, err)
	}
	slots := make(chan struct{}, followedAtOnce)
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if !runs(t, page) || page == tryIt || name == machine {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			follow := []string{tryIt, page}
			if !strings.Contains(string(text), "(README.md#to-try-it)") {
				follow = follow[1:] // it starts what it needs itself
			}
			guide.Follow(t, b.clone(t, map[string]string{"envoy": b.envoy}), follow...)
		})
	}
}

// runs reports whether a page has commands to run.
func runs(t *testing.T, page string) bool {
	t.Helper()
	for _, block := range guide.Read(t, page) {
		if block.Language == "sh" {
			return true
		}
	}
	return false
}
