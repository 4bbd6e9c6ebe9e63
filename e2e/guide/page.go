package guide

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Block is a fenced block of a page.
type Block struct {
	Page string // file
	Line int    // of its first line
	// Section is the heading of the second level that it stands under.
	Section string
	// Language is the first word behind the fence, Word the second.
	Language, Word string
	Text           string
}

var fence = regexp.MustCompile("^( *)```(\\w*) ?(\\w*)$")

// Read returns all fenced blocks of a page.
func Read(t testing.TB, page string) (all []Block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var open *Block
	indent, section, number := "", "", 0
	for line := range strings.Lines(string(text)) {
		number++
		found := fence.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case open == nil && found != nil:
			indent = found[1]
			open = &Block{Page: page, Line: number + 1, Section: section, Language: found[2], Word: found[3]}
		case open != nil && found != nil && found[2] == "":
			all, open = append(all, *open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent)
		case strings.HasPrefix(line, "## "):
			section = strings.TrimSpace(line[len("## "):])
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", page, open.Line)
	}
	return all
}
