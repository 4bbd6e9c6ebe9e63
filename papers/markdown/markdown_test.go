package markdown

import (
	"os"
	"path/filepath"
	"reflect"
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
	if got := Rows("Text.\n\n" + want + "\nMore.\n"); !reflect.DeepEqual(got, [][]string{{"a", "b|c"}}) {
		t.Errorf("rows %q", got)
	}
	if got := Rows("no table\n"); got != nil {
		t.Errorf("rows %q of no table", got)
	}
}

func TestSection(t *testing.T) {
	s := Section{Title: "Waits", Head: []string{"name", "ms"}, Notes: []string{"A note."}}
	s.Add("a|b", 12.5)
	s.Add("µ", 100)
	const want = "### Waits\n\n| name | ms |\n|---|---|\n| a\\|b | 12.5 |\n| µ | 100 |\n\nA note.\n"
	if got := s.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	const aligned = "### Waits\n\n| name | ms   |\n|------|------|\n| a\\|b | 12.5 |\n| µ    | 100  |\n\nA note.\n"
	if got := s.Aligned(); got != aligned {
		t.Errorf("%q, want %q", got, aligned)
	}
}
