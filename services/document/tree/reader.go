package tree

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/wording"
)

// APIVersion is the apiVersion of Titrate's documents.
const APIVersion = "titrate.dev/v1alpha1"

// Reader takes one file's tree apart and collects what is wrong with it.
type Reader struct {
	*mistakes
	path string // what all fields are below
}

// mistakes are the mistakes in a file.
type mistakes struct {
	file  string
	errs  []error
	count int
	wrong map[string]bool // fields
	// before is the number of lines before the text, and broken says that it is no YAML: of a piece.
	before int
	broken bool
}

// New returns a reader; file is what errors call the input.
func New(file string) *Reader {
	return &Reader{mistakes: &mistakes{file: file, wrong: map[string]bool{}}}
}

// Below returns a reader of the same file for which all fields stand below a path.
func (r *Reader) Below(path string) *Reader { return &Reader{r.mistakes, Join(r.path, path)} }

// File returns the name of the input in errors.
func (r *Reader) File() string { return r.file }

// Entry is a field of a mapping.
type Entry struct{ Key, Value *yaml.Node }

// Entries returns the fields of a mapping in order. It refuses names given twice.
func (r *Reader) Entries(n *yaml.Node, path string) []Entry {
	if n.Kind != yaml.MappingNode {
		r.Wrong(n.Line, path, "want a mapping of fields, found %s", What(n))
		return nil
	}
	given := make([]Entry, 0, len(n.Content)/2)
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			r.Wrong(key.Line, path, "want a field's name, found %s", What(key))
		case seen[key.Value]:
			r.Wrong(key.Line, Join(path, key.Value), "given twice")
		default:
			seen[key.Value] = true
			given = append(given, Entry{key, value})
		}
	}
	return given
}

// Fields returns the values of a mapping by name; null counts as absent. It refuses names that are not known.
func (r *Reader) Fields(n *yaml.Node, path string, known ...string) map[string]*yaml.Node {
	values := make(map[string]*yaml.Node, len(known))
	for _, e := range r.Entries(n, path) {
		if !slices.Contains(known, e.Key.Value) {
			r.Wrong(e.Key.Line, Join(path, e.Key.Value), "unknown field; %s", Known(e.Key.Value, known))
		} else if !IsNull(e.Value) {
			values[e.Key.Value] = e.Value
		}
	}
	return values
}

// Known says which fields there are where one of another name was found, and which of them it may stand for.
func Known(found string, known []string) string {
	return "known are " + strings.Join(known, ", ") + wording.Meant(found, known)
}

// List returns the items of a list that must have one at least; line is where to point at if it is absent.
func (r *Reader) List(n *yaml.Node, line int, path string) []*yaml.Node {
	switch {
	case n == nil:
		r.Wrong(line, path, "missing; want a list")
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		r.Wrong(n.Line, path, "want one at least, found none")
	default:
		return r.Items(n, path)
	}
	return nil
}

// Items returns the items of a list that may be absent or empty.
func (r *Reader) Items(n *yaml.Node, path string) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		r.Wrong(n.Line, path, "want a list, found %s", What(n))
		return nil
	}
	return n.Content
}
