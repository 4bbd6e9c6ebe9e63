package guide

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mark begins a line that names the block of the output after it.
const mark = "\x1e"

// Follow runs the shell blocks (sh) of pages one after the other, in one shell. The block of text that follows
// a shell block, if there is one, is its expected output:
//
//   - … stands for any words in a line, and for any lines if alone on a line;
//   - the number of blanks between two words does not matter, nor do empty lines;
//   - in a block "text about", a number stands for numbers near it: a third more or less, or 2.
//
// A page is followed once. Its output must not depend on the speed of the machine: its limits are slow enough,
// and its commands wait for what they need.
func Follow(t testing.TB, clone string, pages ...string) {
	t.Helper()
	FollowBy(t, func(script string) string { return Run(t, clone, script) }, pages...)
}

// FollowBy is [Follow] with a function that runs the script of all shell blocks and returns its output.
func FollowBy(t testing.TB, run func(script string) string, pages ...string) {
	t.Helper()
	if differences := follow(t, run, pages); len(differences) > 0 {
		t.Error(strings.Join(differences, "\n"))
	}
}

// follow returns the differences from the pages.
func follow(t testing.TB, run func(string) string, pages []string) (differences []string) {
	t.Helper()
	var blocks []Block
	var script strings.Builder
	for _, page := range pages {
		blocks = append(blocks, Read(t, page)...)
	}
	for i, b := range blocks {
		if b.Language == "sh" {
			fmt.Fprintf(&script, "printf '\\n%s%d\\n'\n%s", mark, i, b.Text)
		}
	}
	said := parts(run(script.String()))
	for i, b := range blocks {
		if b.Language != "text" || i == 0 || blocks[i-1].Language != "sh" {
			continue
		}
		if why := differs(b.Text, said[i-1], b.Word == "about"); why != "" {
			differences = append(differences, fmt.Sprintf(
				"%s:%d: the commands say otherwise: %s\nthe page:\n%s\nthe commands:\n%s", b.Page, b.Line, why,
				b.Text, said[i-1]))
		}
	}
	return differences
}

// parts returns the outputs of the blocks, by number.
func parts(said string) map[int]string {
	all := map[int]string{}
	for _, part := range strings.Split(said, mark)[1:] {
		number, text, _ := strings.Cut(part, "\n")
		if i, err := strconv.Atoi(number); err == nil {
			all[i] = text
		}
	}
	return all
}

// differs describes the first difference, "" without any.
func differs(want, got string, about bool) string {
	return differ(linesOf(want), linesOf(got), about)
}

// linesOf are the lines that are not empty, with one blank between words.
func linesOf(text string) (all []string) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

func differ(want, got []string, about bool) string {
	switch {
	case len(want) == 0 && len(got) == 0:
		return ""
	case len(want) == 0:
		return fmt.Sprintf("more than the page shows: %q", got[0])
	case want[0] == "…":
		for skip := range len(got) + 1 {
			if differ(want[1:], got[skip:], about) == "" {
				return ""
			}
		}
		return fmt.Sprintf("nothing that the lines after … on the page describe: %q", strings.Join(want[1:], " / "))
	case len(got) == 0:
		return fmt.Sprintf("nothing where the page has %q", want[0])
	case !alike(want[0], got[0], about):
		return fmt.Sprintf("%q where the page has %q", got[0], want[0])
	}
	return differ(want[1:], got[1:], about)
}

var number = regexp.MustCompile(`\d+(?:\.\d+)?`)

// alike reports whether a line is as the page's.
func alike(want, got string, about bool) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	var wanted []string
	if about {
		wanted = number.FindAllString(want, -1)
		pattern = number.ReplaceAllString(strings.ReplaceAll(pattern, `\.`, "."), `(\d+(?:\.\d+)?)`)
	}
	found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(got)
	if found == nil {
		return false
	}
	for i, text := range wanted {
		w, _ := strconv.ParseFloat(text, 64)
		g, err := strconv.ParseFloat(found[i+1], 64)
		if err != nil || math.Abs(g-w) > max(2, w/3) {
			return false
		}
	}
	return true
}
