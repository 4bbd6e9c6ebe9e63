package tree

import (
	"errors"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Reader takes one file's tree apart and collects what is wrong with it.
type Reader struct {
	file  string
	errs  []error
	count int
	wrong map[string]bool // fields
}

// New returns a reader; file is what errors call the input.
func New(file string) *Reader { return &Reader{file: file, wrong: map[string]bool{}} }

// Input is what Root is to find.
type Input struct {
	MaxBytes int    // the longest that is read
	Want     string // what a file holds, such as "a problem with pools and tenants"
	First    string // the field that an empty file lacks first
}

// Root reads the only document of the input, which must be a mapping; nil if there
// is none to be had.
func (r *Reader) Root(in io.Reader, of Input) *yaml.Node {
	data, err := io.ReadAll(io.LimitReader(in, int64(of.MaxBytes)+1))
	switch {
	case err != nil:
		r.Wrong(0, "", "cannot read: %v", err)
		return nil
	case len(data) > of.MaxBytes:
		r.Wrong(0, "", "longer than %d MiB", of.MaxBytes>>20)
		return nil
	}
	decoder := Decoder(data)
	var first, second yaml.Node
	err = decoder.Decode(&first)
	if err == nil {
		err = decoder.Decode(&second)
	}
	switch {
	case err == nil:
		r.Wrong(second.Line, "", "a second document; one file holds %s", of.Want)
	case !errors.Is(err, io.EOF):
		line, message := Syntax(err)
		r.Wrong(line, "", "%s", message)
	case len(first.Content) != 1 || IsNull(first.Content[0]):
		r.Wrong(1, of.First, "the file is empty; want %s", of.Want)
	case first.Content[0].Kind != yaml.MappingNode:
		r.Wrong(first.Content[0].Line, of.First, "want %s, found %s", of.Want, What(first.Content[0]))
	default:
		return first.Content[0]
	}
	return nil
}

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

// Fields returns the values of a mapping by name; null counts as absent. It refuses
// names that are not known.
func (r *Reader) Fields(n *yaml.Node, path string, known ...string) map[string]*yaml.Node {
	values := make(map[string]*yaml.Node, len(known))
	for _, e := range r.Entries(n, path) {
		if !slices.Contains(known, e.Key.Value) {
			r.Wrong(e.Key.Line, Join(path, e.Key.Value), "unknown field; known are %s", strings.Join(known, ", "))
		} else if !IsNull(e.Value) {
			values[e.Key.Value] = e.Value
		}
	}
	return values
}

// List returns the items of a list that must have one at least; line is where to
// point at if it is absent.
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
