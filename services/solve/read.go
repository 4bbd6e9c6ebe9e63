package solve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/titrate/titrate/services/document"
)

// MaxBytes is the longest problem that is read.
const MaxBytes = 64 << 20

// mostErrors is how many mistakes of a file are told; more help nobody.
const mostErrors = 20

// reader takes a YAML tree apart and collects what is wrong with it.
type reader struct {
	file    string
	errs    []error
	omitted int
}

func (r *reader) wrong(line int, field, format string, args ...any) {
	if len(r.errs) == mostErrors {
		r.omitted++
		return
	}
	r.errs = append(r.errs, &document.Error{File: r.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
}

// err is all that was wrong, nil if nothing was.
func (r *reader) err() error {
	if r.omitted > 0 {
		return errors.Join(append(r.errs, &document.Error{File: r.file, Message: fmt.Sprintf("and %d more mistakes", r.omitted)})...)
	}
	return errors.Join(r.errs...)
}

// root reads the only document of the input; nil if there is none to be had.
func (r *reader) root(in io.Reader) *yaml.Node {
	data, err := io.ReadAll(io.LimitReader(in, MaxBytes+1))
	switch {
	case err != nil:
		r.wrong(0, "", "cannot read: %v", err)
		return nil
	case len(data) > MaxBytes:
		r.wrong(0, "", "longer than %d MiB", MaxBytes>>20)
		return nil
	}
	if json.Valid(data) { // a tab in JSON is always white space; YAML refuses some
		data = bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '})
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	err = decoder.Decode(&first)
	if err == nil {
		err = decoder.Decode(&second)
	}
	switch {
	case err == nil:
		r.wrong(second.Line, "", "a second document; one file holds one problem")
	case !errors.Is(err, io.EOF):
		line, message := syntax(err)
		r.wrong(line, "", "%s", message)
	case len(first.Content) != 1 || isNull(first.Content[0]):
		r.wrong(1, "pools", "the file is empty; want a problem with pools and tenants")
	default:
		return first.Content[0]
	}
	return nil
}

// entry is a field of a mapping.
type entry struct{ key, value *yaml.Node }

// entries returns the fields of a mapping in order. It refuses names given twice.
func (r *reader) entries(n *yaml.Node, path string) []entry {
	if n.Kind != yaml.MappingNode {
		r.wrong(n.Line, path, "want a mapping of fields, found %s", what(n))
		return nil
	}
	given := make([]entry, 0, len(n.Content)/2)
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			r.wrong(key.Line, path, "want a field's name, found %s", what(key))
		case seen[key.Value]:
			r.wrong(key.Line, join(path, key.Value), "given twice")
		default:
			seen[key.Value] = true
			given = append(given, entry{key, value})
		}
	}
	return given
}

// fields returns the values of a mapping by name; null counts as absent. It refuses
// names that are not known.
func (r *reader) fields(n *yaml.Node, path string, known ...string) map[string]*yaml.Node {
	values := make(map[string]*yaml.Node, len(known))
	for _, e := range r.entries(n, path) {
		if !slices.Contains(known, e.key.Value) {
			r.wrong(e.key.Line, join(path, e.key.Value), "unknown field; known are %s", strings.Join(known, ", "))
		} else if !isNull(e.value) {
			values[e.key.Value] = e.value
		}
	}
	return values
}

// list returns the items of a list that must have one at least; line is where to
// point at if it is absent.
func (r *reader) list(n *yaml.Node, line int, path string) []*yaml.Node {
	switch {
	case n == nil:
		r.wrong(line, path, "missing; want a list")
	case n.Kind != yaml.SequenceNode:
		r.wrong(n.Line, path, "want a list, found %s", what(n))
	case len(n.Content) == 0:
		r.wrong(n.Line, path, "want one at least, found none")
	default:
		return n.Content
	}
	return nil
}

// name reads a name that must be there and may not repeat; it returns "" if it is
// wrong. numbers maps the names so far to their places in the list.
func (r *reader) name(n *yaml.Node, line int, path string, numbers map[string]int) string {
	switch {
	case n == nil:
		r.wrong(line, path, "missing; want text")
		return ""
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str":
		r.wrong(n.Line, path, "want text, in quotes if it looks like a number, found %s", what(n))
		return ""
	case n.Value == "" || strings.ContainsFunc(n.Value, func(c rune) bool { return !unicode.IsPrint(c) }):
		r.wrong(n.Line, path, "want a name of printable characters, found %s", what(n))
		return ""
	}
	if first, twice := numbers[n.Value]; twice {
		r.wrong(n.Line, path, "%q is taken by number %d of the list; want another name", n.Value, first)
		return ""
	}
	return n.Value
}

// choice reads one of the options; the first is the default.
func (r *reader) choice(n *yaml.Node, path string, options ...string) string {
	if n == nil {
		return options[0]
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || !slices.Contains(options, n.Value) {
		r.wrong(n.Line, path, "want %s, found %s", strings.Join(options, " or "), what(n))
	}
	return n.Value
}

// span is a range of numbers, both ends within.
type span struct {
	least, most float64
	zero        bool   // 0 is allowed too
	or          string // what else could be done, for the error
}

var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)

// number reads a number within the span; absent, it is the fallback.
func (r *reader) number(n *yaml.Node, path string, fallback float64, in span) float64 {
	if n == nil {
		return fallback
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		r.wrong(n.Line, path, "want a number, found %s", what(n))
		return fallback
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || !decimal.MatchString(n.Value) {
		r.wrong(n.Line, path, "want a finite decimal number%s, found %s", in.or, what(n))
		return fallback
	}
	if !(v >= in.least && v <= in.most || in.zero && v == 0) {
		r.wrong(n.Line, path, "want %s%s, found %s", in, in.or, what(n))
		return fallback
	}
	return math.Abs(v) // -0 is 0
}

func (s span) String() string {
	if s.zero && s.least > 0 {
		return fmt.Sprintf("0 or %g to %g", s.least, s.most)
	}
	return fmt.Sprintf("%g to %g", s.least, s.most)
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// what names a node in an error.
func what(n *yaml.Node) string {
	const most = 40
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias (anchors and aliases are not read: write the value out)"
	case isNull(n):
		return "nothing"
	case len(n.Value) > most:
		return strconv.Quote(n.Value[:most]) + "…"
	case n.ShortTag() == "!!int" || n.ShortTag() == "!!float":
		return n.Value
	}
	return strconv.Quote(n.Value)
}

var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// syntax takes the line out of what the YAML reader says.
func syntax(err error) (line int, message string) {
	found := syntaxLine.FindStringSubmatch(err.Error())
	if found == nil {
		return 0, err.Error()
	}
	line, _ = strconv.Atoi(found[1])
	return max(line, 1), found[2]
}
