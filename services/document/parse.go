package document

import (
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
)

// parser collects documents and mistakes of one file.
type parser struct {
	*tree.Reader
	file      string
	documents []*Document
}

func (p *parser) stream(data []byte) {
	decoder := tree.Decoder(data)
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			line, message := tree.Syntax(err)
			p.Wrong(line, "", "%s", message)
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
	case tree.IsNull(n):
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
		p.Wrong(n.Line, "", "want a document with apiVersion, kind, name and spec, found %s", tree.What(n))
		return
	}
	before := p.Mistakes()
	parts := p.Entries(n, "")
	for _, e := range parts {
		switch e.Key.Value {
		case "apiVersion", "kind", "name", "spec", "etag", "status":
		case "metadata":
			p.Wrong(e.Key.Line, "metadata", "unknown field; name stands at the top, beside kind")
		default:
			p.Wrong(e.Key.Line, e.Key.Value,
				"unknown field; a document has apiVersion, kind, name, spec and, if wanted, etag")
		}
	}
	version, kind, name := p.heading(n, parts)
	if p.Mistakes() > before {
		return
	}
	if version.Value != APIVersion {
		p.Wrong(version.Line, "apiVersion", "%q should be %q", version.Value, APIVersion)
	}
	if m := p.identity(kind, name); m != nil {
		p.resource(n, parts, m, name)
	}
}

// heading returns the three parts that every document has.
func (p *parser) heading(n *yaml.Node, parts []tree.Entry) (version, kind, name *yaml.Node) {
	required := func(key, want string) *yaml.Node {
		v := find(parts, key)
		switch {
		case v == nil:
			p.Wrong(n.Line, key, "missing; want %s", want)
		case !tree.IsText(v):
			p.Wrong(v.Line, key, "want text such as %s, found %s", want, tree.What(v))
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
			p.Wrong(name.Line, "name", "%v", err)
		case ref.Kind != k:
			p.Wrong(name.Line, "name", "%q names a %s, but kind is %s", name.Value, ref.Kind, k)
		default:
			m := k.New()
			setText(m, "name", name.Value)
			return m
		}
		return nil
	}
	p.Wrong(kind.Line, "kind", "%q should be %s", kind.Value, kindList())
	return nil
}

func (p *parser) resource(n *yaml.Node, parts []tree.Entry, m resource.Message, name *yaml.Node) {
	d := &Document{Resource: m, File: p.file, Line: n.Line, places: map[string]place{
		"": {n.Line, ""}, "name": {name.Line, "name"}}}
	p.etag(parts, m, d)
	if spec := find(parts, "spec"); spec != nil && !tree.IsNull(spec) {
		d.places[""] = place{spec.Line, "spec"}
		f := &fields{parser: p, places: d.places}
		f.message(spec, m.ProtoReflect(), "", "spec")
		f.zeros(m)
	}
	p.documents = append(p.documents, d)
}

// etag reads the etag beside spec; without one, the etag that an exported document
// has in its status, so that what was read, edited and given back is refused when
// somebody else changed it meanwhile.
func (p *parser) etag(parts []tree.Entry, m resource.Message, d *Document) {
	shown, etag := "etag", find(parts, "etag")
	if status := find(parts, "status"); etag == nil && status != nil && status.Kind == yaml.MappingNode {
		shown, etag = "status.etag", find(p.Entries(status, "status"), "etag")
	}
	if etag == nil || tree.IsNull(etag) {
		return
	}
	if !tree.IsText(etag) {
		p.Wrong(etag.Line, shown, "want text, found %s: put it in quotes", tree.What(etag))
	}
	setText(m, "etag", etag.Value)
	d.places["etag"] = place{etag.Line, shown}
}

// zeros refuses a 0 that was written where an absent field means a default: it would
// silently become that.
func (f *fields) zeros(m resource.Message) {
	r := m.ProtoReflect()
	for _, name := range []string{"weight", "alpha"} {
		d := r.Descriptor().Fields().ByName(protoreflect.Name(name))
		at, given := f.places[name]
		if d != nil && given && !d.HasPresence() && !r.Has(d) {
			f.Wrong(at.line, at.shown, "want a number above 0, found 0; leave it out for the default, 1")
		}
	}
}

func find(entries []tree.Entry, key string) *yaml.Node {
	for _, e := range entries {
		if e.Key.Value == key {
			return e.Value
		}
	}
	return nil
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
