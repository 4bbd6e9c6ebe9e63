package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const chart = "../../../charts/titrate"

// The chart's schema and README agree with its values.yaml.
func TestUpToDate(t *testing.T) {
	dir := t.TempDir()
	before := map[string]string{}
	for _, name := range []string{"values.yaml", "values.schema.json", "README.md"} {
		text, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = string(text)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		after, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(after) != text {
			t.Errorf("%s is not what values.yaml says: `make generate` and commit (%v)", name, err)
		}
	}
}

const example = `# About this file.

# First section.
a:
  # A number.
  # @schema {minimum: 1}
  n: 2
  # A | list.
  l: []
  # Below.
  deep:
    # Free.
    free: {}

# Alone.
b: true
`

func TestParse(t *testing.T) {
	v, err := parse([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := v.schemaFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"minimum": 1`, `"type": "integer"`, `"additionalProperties": false`,
		`"description": "First section."`} {
		if !strings.Contains(string(schema), want) {
			t.Errorf("%s is not in %s", want, schema)
		}
	}
	if strings.Count(string(schema), `"additionalProperties": false`) != 3 {
		t.Errorf("sections refuse other keys, and nothing else does: %s", schema)
	}
	readme := v.readme()
	for _, want := range []string{"### a\n\nFirst section.\n", "| `a.n` | `2` | A number. |", `A \| list.`,
		"| `a.deep.free` | `{}` | Free. |", "### Others\n", "| `b` | `true` | Alone. |"} {
		if !strings.Contains(readme, want) {
			t.Errorf("%q is not in\n%s", want, readme)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\n":                    "line 1: a: no comment",
		"# A.\na:\n":                "!!null",
		"# A.\n# @schema {\na: 1":   "@schema",
		"[]":                        "",
		"# A.\na:\n  b: 1\n":        "line 3: b: no comment",
		"# A.\na: 2020-01-01\n":     "!!timestamp",
		"# A.\n# @schema 1\na: 1\n": "@schema",
	} {
		_, err := parse([]byte(text))
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
