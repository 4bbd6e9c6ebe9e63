package repository

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	generatedTitle = "| generated reference |" // in the index: the table of pages that programs write
	mostWords      = 45_000                    // of all other pages in docs
)

var (
	word          = regexp.MustCompile(`\S*[\pL\pN]\S*`)
	generatedPart = regexp.MustCompile(`(?s)<!-- written by [^>]*: begin -->.*?<!-- written by [^>]*: end -->`)
	pageLink      = regexp.MustCompile(`\]\(([\w./-]+\.md)\)`)
)

// Documents stay readable: all pages together, besides generated reference, and two of them have a bound in
// words. A word has a letter or a digit, so the lines of tables are none; commands and configurations count.
func TestDocumentsStayShort(t *testing.T) {
	docs := filepath.Join(root(t), "docs")
	aside, words := generatedPages(t, docs), map[string]int{}
	all := 0
	for _, pattern := range []string{"*.md", "*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(docs, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			name, err := filepath.Rel(docs, page)
			if err != nil {
				t.Fatal(err)
			}
			if !aside[filepath.ToSlash(name)] {
				words[name] = len(word.FindAllString(generatedPart.ReplaceAllString(readPage(t, page), ""), -1))
				all += words[name]
			}
		}
	}
	for name, most := range map[string]int{"guarantees.md": 4000, "measurements.md": 6000} {
		if n := words[name]; n == 0 || n > most {
			t.Errorf("docs/%s has %d words, at most %d are allowed: remove history and repetition", name, n, most)
		}
	}
	if all > mostWords {
		t.Errorf("docs has %d words besides generated reference, at most %d are allowed", all, mostWords)
	}
	t.Logf("%d words besides generated reference, %d pages", all, len(words))
}

// generatedPages returns the pages that the index names as generated reference.
func generatedPages(t *testing.T, docs string) map[string]bool {
	t.Helper()
	_, table, found := strings.Cut(readPage(t, filepath.Join(docs, "README.md")), generatedTitle)
	if !found {
		t.Fatalf("docs/README.md has no table %q", generatedTitle)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	pages := map[string]bool{}
	for _, m := range pageLink.FindAllStringSubmatch(table, -1) {
		pages[m[1]] = true
	}
	if len(pages) < 5 {
		t.Fatalf("docs/README.md names %d pages of generated reference", len(pages))
	}
	return pages
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
