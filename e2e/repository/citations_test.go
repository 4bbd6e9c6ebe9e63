package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// written are the endings of files in which people write sentences.
var written = []string{".go", ".md", ".sh", ".yaml", ".yml", ".proto", "Makefile"}

var (
	// document is a Markdown file that a sentence names; of an address it is a part.
	document = regexp.MustCompile(`[\w./:-]*\w\.md\b`)
	// source is a file of the repository that a document names, from the top on.
	source = regexp.MustCompile("`([a-z][\\w-]*/[\\w./-]+\\.(?:go|c|h|proto|sh|yaml|json))`")
	// elsewhere are things that a reader of this repository cannot look up.
	elsewhere = regexp.MustCompile(`(?i)\b(control|design)` + ` notes\b|\bthe notes` + ` (have|give|say)\b|` +
		`\bissue` + ` #?\d|\bof the issue` + `\b|\.\./sha` + `red\b|[^\w.]/wo` + `rk/`)
)

// Nothing cites a document that is not in the repository: a reader could not look it up.
func TestCitationsAreHere(t *testing.T) {
	for _, suffix := range written {
		files(t, suffix, func(path string, content []byte) {
			for _, name := range document.FindAllString(string(content), -1) {
				if !strings.Contains(name, "://") && !here(root(t), filepath.Dir(path), name) {
					t.Errorf("%s cites %s, which is not in the repository; write the reason itself", path, name)
				}
			}
			for _, words := range elsewhere.FindAllString(string(content), -1) {
				t.Errorf("%s cites %q, which a reader cannot look up; write the reason itself", path, words)
			}
		})
	}
}

// A file that a document names from the top on is there, also after it was renamed.
func TestNamedSourcesAreHere(t *testing.T) {
	top := root(t)
	files(t, ".md", func(path string, content []byte) {
		for _, found := range source.FindAllStringSubmatch(string(content), -1) {
			if !here(top, filepath.Dir(path), found[1]) {
				t.Errorf("%s names %s, which is not in the repository", path, found[1])
			}
		}
	})
}

// here reports whether a file exists that is named relative to the top, to the file that
// names it, or to docs.
func here(top, dir, name string) bool {
	for _, from := range []string{"", dir, "docs"} {
		if _, err := os.Stat(filepath.Join(top, from, name)); err == nil {
			return true
		}
	}
	return false
}

// Comments have at most 120 columns. (In Markdown a paragraph or a row of a table is a line.)
func TestCommentsFitTheScreen(t *testing.T) {
	files(t, ".go", func(path string, content []byte) {
		for i, line := range strings.Split(string(content), "\n") {
			comment := strings.HasPrefix(strings.TrimSpace(line), "//")
			if n := utf8.RuneCountInString(line); comment && n > 120 {
				t.Errorf("%s:%d: a comment of %d columns; wrap it at 120", path, i+1, n)
			}
		}
	})
}
