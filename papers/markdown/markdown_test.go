package markdown

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const page = "# A page\n\n<!-- written by us: begin -->\nold\n<!-- written by us: end -->\n\nkept\n"

func TestReplace(t *testing.T) {
	const want = "# A page\n\n<!-- written by us: begin -->\n\nnew\n\n<!-- written by us: end -->\n\nkept\n"
	if got, err := Replace(page, "us", "new\n"); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if part, err := Part(page, "us"); err != nil || part != "\nold\n" {
		t.Errorf("%q, %v", part, err)
	}
	for name, document := range map[string]string{"nothing": "", "begin": strings.Split(page, "old")[0],
		"end": strings.Split(page, "old")[1]} {
		if got, err := Replace(document, "us", "new"); err == nil || got != "" {
			t.Errorf("a document with %s: %q, %v", name, got, err)
		}
	}
}

func TestUpdate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Update(file, "them", "new"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want an error that names the file", err)
	}
	if err := Update(file, "us", "new"); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(file); !strings.Contains(string(raw), "\nnew\n") {
		t.Errorf("%s", raw)
	}
}

func TestTable(t *testing.T) {
	const want = "| name | value (ms) |\n|---|---|\n| a | b\\|c |\n"
	if got := Table([]string{"name", "value (ms)"}, [][]string{{"a", "b|c"}}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
