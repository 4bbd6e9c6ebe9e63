package repository

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tests are a folder and the tests in it that a document names: services/access: TestOne, TestTwo.
var (
	tests    = regexp.MustCompile(`\b((?:services|control|envoy-filter|e2e|lab)(?:/[\w-]+)+): ((?:(?:Test|Fuzz)\w+(?:, )?)+)`)
	testName = regexp.MustCompile(`(?:Test|Fuzz)\w+`)
)

// A test that a document names is in the folder that the document names.
func TestNamedTestsAreHere(t *testing.T) {
	files(t, ".md", func(path string, content []byte) {
		for _, found := range tests.FindAllSubmatch(content, -1) {
			for _, name := range testName.FindAllString(string(found[2]), -1) {
				if !hasTest(t, string(found[1]), name) {
					t.Errorf("%s names %s: %s, which is not there", path, found[1], name)
				}
			}
		}
	})
}

// Each row of the table of callers and their refusals names the tests that try the opposite.
func TestEachCallerHasATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Who stops whom\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| who ") {
			continue
		}
		if rows++; !tests.MatchString(line) {
			t.Errorf("no test is named: %.60s", line)
		}
	}
	if rows < 10 {
		t.Errorf("%d rows, want 10", rows)
	}
}

// hasTest reports whether a test is in a folder.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(root(t), folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("func "+name+"(")) {
			return true
		}
	}
	return false
}
