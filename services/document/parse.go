package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"

	"google.golang.org/protobuf/reflect/protoreflect"
	"gopkg.in/yaml.v3"

	"github.com/titrate/titrate/services/store/resource"
)

// parser collects documents and mistakes of one file.
type parser struct {
	file      string
	documents []*Document
	errs      []error
}

func (p *parser) wrong(line int, field, format string, args ...any) {
	p.errs = append(p.errs, &Error{File: p.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (p *parser) stream(data []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(joinSurrogates(data)))
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			line, message := syntax(err)
			p.wrong(line, "", "%s", message)
			return
		}
		if len(root.Content) == 1 {
			p.top(root.Content[0])
		}
	}
}

// top reads what stands between two --- lines: a document, a list of them, or
// nothing.
func (p *parser) top(n *yaml.Node) {
	switch {
	case isNull(n):
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			p.document(item)
		}
	default:
		p.document(n)
	}
}

func (p *parser) document(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.wrong(n.Line, "", "want a document with apiVersion, kind, name and spec, found %s", what(n))
		return
	}
	before := len(p.errs)
	parts := p.mapping(n, "")
	for _, e := range parts {
		switch e.key.Value {
		case "apiVersion", "kind", "name", "spec", "etag", "status":
		case "metadata":
			p.wrong(e.key.Line, "metadata", "unknown field; name stands at the top, beside kind")
		default:
			p.wrong(e.key.Line, e.key.Value, "unknown field; a document has apiVersion, kind, name, spec and, if wanted, etag")
		}
	}
	version, kind, name := p.heading(n, parts)
	if len(p.errs) > before {
		return
	}
	if version.Value != APIVersion {
		p.wrong(version.Line, "apiVersion", "%q should be %q", version.Value, APIVersion)
	}
	if m := p.identity(kind, name); m != nil {
		p.resource(n, parts, m, name)
	}
}

// heading returns the three parts that every document has.
func (p *parser) heading(n *yaml.Node, parts []entry) (version, kind, name *yaml.Node) {
	required := func(key, want string) *yaml.Node {
		v := find(parts, key)
		switch {
		case v == nil:
			p.wrong(n.Line, key, "missing; want %s", want)
		case !isText(v):
			p.wrong(v.Line, key, "want text such as %s, found %s", want, what(v))
		}
		return v
	}
	return required("apiVersion", APIVersion), required("kind", kindList()), required("name", "pools/api")
}

// identity returns an empty resource of the kind, under the name.
func (p *parser) identity(kind, name *yaml.Node) resource.Message {
	for _, k := range resource.Kinds {
		if k.String() != kind.Value {
			continue
		}
		ref, err := resource.Parse(name.Value)
		switch {
		case err != nil:
			p.wrong(name.Line, "name", "%v", err)
		case ref.Kind != k:
			p.wrong(name.Line, "name", "%q names a %s, but kind is %s", name.Value, ref.Kind, k)
		default:
			m := k.New()
			setText(m, "name", name.Value)
			return m
		}
		return nil
	}
	p.wrong(kind.Line, "kind", "%q should be %s", kind.Value, kindList())
	return nil
}

func (p *parser) resource(n *yaml.Node, parts []entry, m resource.Message, name *yaml.Node) {
	d := &Document{Resource: m, File: p.file, Line: n.Line, places: map[string]place{
		"": {n.Line, ""}, "name": {name.Line, "name"}}}
	if etag := find(parts, "etag"); etag != nil && !isNull(etag) {
		if !isText(etag) {
			p.wrong(etag.Line, "etag", "want text, found %s: put it in quotes", what(etag))
		}
		setText(m, "etag", etag.Value)
		d.places["etag"] = place{etag.Line, "etag"}
	}
	if spec := find(parts, "spec"); spec != nil && !isNull(spec) {
		d.places[""] = place{spec.Line, "spec"}
		f := &fields{parser: p, places: d.places}
		f.message(spec, m.ProtoReflect(), "", "spec")
	}
	p.documents = append(p.documents, d)
}

// entry is a key of a mapping and its value.
type entry struct{ key, value *yaml.Node }

// mapping returns the entries of a mapping; it refuses keys given twice.
func (p *parser) mapping(n *yaml.Node, path string) []entry {
	entries := make([]entry, 0, len(n.Content)/2)
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			p.wrong(key.Line, path, "want a field's name, found %s", what(key))
			continue
		case seen[key.Value]:
			p.wrong(key.Line, join(path, key.Value), "given twice")
			continue
		}
		seen[key.Value] = true
		entries = append(entries, entry{key, value})
	}
	return entries
}

func find(entries []entry, key string) *yaml.Node {
	for _, e := range entries {
		if e.key.Value == key {
			return e.value
		}
	}
	return nil
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func setText(m resource.Message, field protoreflect.Name, value string) {
	r := m.ProtoReflect()
	r.Set(r.Descriptor().Fields().ByName(field), protoreflect.ValueOfString(value))
}

func kindList() string {
	names := make([]string, len(resource.Kinds))
	for i, k := range resource.Kinds {
		names[i] = k.String()
	}
	return "one of " + strings.Join(names, ", ")
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
func isText(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" }

// what names a node in an error.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias (anchors and aliases are not read: write the value out)"
	}
	if isNull(n) {
		return "nothing"
	}
	const most = 40
	if v := n.Value; len(v) > most {
		return strconv.Quote(v[:most]) + "…"
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
	return line, found[2]
}

var escaped = regexp.MustCompile(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

// joinSurrogates rewrites JSON's \ud83d\ude00, which YAML does not know, as YAML's
// \U0001f600. Lines stay where they are. Anything but JSON is left alone.
func joinSurrogates(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u`)) || !json.Valid(data) {
		return data
	}
	return escaped.ReplaceAllFunc(data, func(found []byte) []byte {
		if len(found) == 2 {
			return found
		}
		high, _ := strconv.ParseUint(string(found[2:6]), 16, 32)
		low, _ := strconv.ParseUint(string(found[8:12]), 16, 32)
		return fmt.Appendf(nil, `\U%08x`, utf16.DecodeRune(rune(high), rune(low)))
	})
}
