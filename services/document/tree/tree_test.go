package tree_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/document/tree"
)

// one reads the value of field x of a file.
func one(t *testing.T, text string) (*tree.Reader, *yaml.Node) {
	t.Helper()
	r := tree.New("f")
	all := r.Roots([]byte(text))
	if len(all) != 1 {
		t.Fatal(len(all), r.Err())
	}
	return r, r.Fields(all[0], "", "x")["x"]
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]string{
		"x: 50ms":    "50ms",
		"x: 1m30s":   "1m30s",
		`x: "2s"`:    "2s",
		"x: 0":       "0s",
		"x: 0s":      "0s",
		"x: 5":       "f:1: x: want a time with its unit, such as 50ms, 2s or 1m30s, found 5",
		"x: 2 s":     `f:1: x: want a time with its unit, such as 50ms, 2s or 1m30s, found "2 s"`,
		"x: -1s":     "f:1: x: want 0s to 1h0m0s, found -1s",
		"x: 2h":      "f:1: x: want 0s to 1h0m0s, found 2h",
		"x: [1s]":    "f:1: x: want a time with its unit, such as 50ms, 2s or 1m30s, found a list",
		"x: &a 1s":   "1s",
		"x: .nan":    "f:1: x: want a time with its unit, such as 50ms, 2s or 1m30s, found .nan",
		"x: 1e400s ": `f:1: x: want a time with its unit, such as 50ms, 2s or 1m30s, found "1e400s"`,
	} {
		r, n := one(t, text)
		d := r.Duration(n, "x", time.Second, 0, time.Hour)
		got := d.String()
		if err := r.Err(); err != nil {
			got = err.Error()
			if d != time.Second {
				t.Errorf("%s: wrong, but %v and not the fallback", text, d)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestNumbersCountsAndFlags(t *testing.T) {
	for text, want := range map[string]float64{"x: 3": 3, "x: 1e1": 10, "x: -0": 0, "x:": 2, "x: .5": 2, "x: 0x10": 2,
		"x: 1_0": 2, "x: 11": 2, "x: .inf": 2} {
		r, n := one(t, text)
		got := r.Count(n, "x", 2, 0, 10)
		if float64(got) != want || math.Signbit(float64(got)) {
			t.Errorf("%s: %d, want %g", text, got, want)
		}
		if wrong := strings.Contains(".5 0x10 1_0 11 .inf", strings.TrimPrefix(text, "x: ")); wrong != r.IsWrong("x") &&
			text != "x:" {
			t.Errorf("%s: %v", text, r.Err())
		}
	}
	for text, want := range map[string]bool{"x: true": true, "x: false": false, "x:": false} {
		if r, n := one(t, text); r.Flag(n, "x") != want || r.Err() != nil {
			t.Errorf("%s: %v", text, r.Err())
		}
	}
	if r, n := one(t, "x: yes"); r.Flag(n, "x") || r.Err() == nil {
		t.Error(`"yes" is text in YAML 1.2`)
	}
}

// JSON that plain YAML refuses or reads otherwise.
func TestJSON(t *testing.T) {
	r, n := one(t, "{\n\t\"x\":\t\"\\ud83d\\ude00 \\\\ud83d\"}")
	if got := r.Text(n, 1, "x"); got != "\U0001f600 \\ud83d" {
		t.Errorf("%q: %v", got, r.Err())
	}
}

func TestOnlyTwentyMistakesAreReported(t *testing.T) {
	r := tree.New("f")
	for range 33 {
		r.Wrong(1, "x", "no")
	}
	lines := strings.Split(r.Err().Error(), "\n")
	if len(lines) != tree.MostErrors+1 || lines[tree.MostErrors] != "f: and 13 more mistakes" || r.Mistakes() != 33 {
		t.Errorf("%d lines, last %q", len(lines), lines[len(lines)-1])
	}
}

func FuzzReader(f *testing.F) {
	f.Add("x: {a: 1, b: [2s, true]}")
	f.Add("{\"x\": {\"a\": \"\\ud83d\\ude00\"}}")
	f.Add("x: &x {<<: *x}")
	f.Fuzz(func(_ *testing.T, text string) {
		r := tree.New("f")
		for _, n := range r.Roots([]byte(text)) {
			for _, e := range r.Entries(n, "") {
				r.Text(e.Value, 1, "x")
				r.Choice(e.Value, "x", "a", "b")
				r.Flag(e.Value, "x")
				r.Count(e.Value, "x", 1, 0, 5)
				r.Duration(e.Value, "x", 0, 0, 1)
				for _, item := range r.List(e.Value, 1, "x") {
					r.Fields(item, "x[0]", "a")
				}
			}
		}
		_ = r.Err()
	})
}

// A line of blanks, or of blanks and a comment, says nothing, whatever the blanks are. Within text it does.
func TestTabsThatSayNothing(t *testing.T) {
	for _, text := range []string{"a: 1\n\t\nb: 2\n", "\t\na: 1\n  \t \nb: 2\n\t", "a:\n\t# one\n  - 1\nb: 2\n",
		"a: [1,\n\t\n2]\nb: 2\n", "a: 1\r\n\t\r\nb: 2\r\n", "a: \"1\n\t\n2\"\nb: 2\n", "a: 1\t# one\nb:\t2\n"} {
		r := tree.New("f")
		all := r.Roots([]byte(text))
		if r.Err() != nil || len(all) != 1 || r.Fields(all[0], "", "a", "b")["b"].Value != "2" {
			t.Errorf("%q: %v", text, r.Err())
		}
	}
	r, n := one(t, "x: |\n  a\n  \t\n  \t# b\n")
	if n.Value != "a\n\t\n\t# b\n" || r.Err() != nil {
		t.Errorf("in text: %q", n.Value)
	}
}

// A number that YAML 1.1 and 1.2 read differently is refused by name.
func TestAmbiguousNumbers(t *testing.T) {
	for _, text := range []string{"010", "-010", "+08", "00"} {
		r, n := one(t, "x: "+text)
		r.Number(n, "x", 1, tree.Span{Most: 100})
		want := "f:1: x: want a number without a 0 in front (010 is 8 in YAML 1.1 and 10 in YAML 1.2), found " + text
		if err := r.Err(); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A tab is called a tab, at its line, whatever the YAML reader makes of it; and other faults are not called one.
func TestTabs(t *testing.T) {
	for text, want := range map[string]string{
		"a:\n\tb: 1\n":              "f:2: the line begins with a tab: YAML takes spaces only",
		"a:\n  b: 1\n\tc: 2\n":      "f:3: the line begins with a tab: YAML takes spaces only",
		"a:\n  b: 1\n  \tc: 2\n":    "f:3: the line begins with a tab: YAML takes spaces only",
		"a:\n  b:\n  \t- c: 2\n":    "f:3: the line begins with a tab: YAML takes spaces only",
		"\ta: 1\n":                  "f:1: the line begins with a tab: YAML takes spaces only",
		"a: 1\n\t\n\tb: 2\n":        "f:3: the line begins with a tab: YAML takes spaces only",
		"a: 1\n\t\nb: @c\n":         "f:3: found character that cannot start any token",
		"a: |\n  x\n  \ty\nb: [1\n": "f:3: did not find expected ',' or ']'",
	} {
		r := tree.New("f")
		r.Roots([]byte(text))
		if err := r.Err(); err == nil || err.Error() != want {
			t.Errorf("%q\n got %v\nwant %s", text, err, want)
		}
	}
}
