package document

import (
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
)

// parser reads one file.
type parser struct{ *File }

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
	parts := p.parts(n, "")
	version := p.heading(n, parts, "", "apiVersion", APIVersion)
	kind := p.heading(n, parts, "", "kind", kindList(""))
	if p.Mistakes() > before {
		return
	}
	if version.Value != APIVersion {
		p.Wrong(version.Line, "apiVersion", "%q should be %q", version.Value, APIVersion)
	}
	if kind.Value == Scenario || kind.Value == Demand {
		p.extra(n, parts, kind.Value)
	} else if d := p.resource(n, parts, kind, ""); d != nil {
		p.Documents = append(p.Documents, d)
	}
}

// parts returns the fields of a document that stands at a path.
func (p *parser) parts(n *yaml.Node, path string) []tree.Entry {
	parts := p.Entries(n, path)
	for _, e := range parts {
		switch e.Key.Value {
		case "apiVersion", "kind", "name", "spec", "etag", "status":
		case "metadata":
			p.Wrong(e.Key.Line, tree.Join(path, "metadata"), "unknown field; name stands at the top, beside kind")
		default:
			p.Wrong(e.Key.Line, tree.Join(path, e.Key.Value),
				"unknown field; a document has apiVersion, kind, name, spec and, if wanted, etag")
		}
	}
	return parts
}

// heading returns a text that a document must have.
func (p *parser) heading(n *yaml.Node, parts []tree.Entry, path, key, want string) *yaml.Node {
	v := find(parts, key)
	switch {
	case v == nil:
		p.Wrong(n.Line, tree.Join(path, key), "missing; want %s", want)
	case !tree.IsText(v):
		p.Wrong(v.Line, tree.Join(path, key), "want text such as %s, found %s", want, tree.What(v))
	}
	return v
}

// extra keeps a document that is no resource. Its name is a title, and may be absent.
func (p *parser) extra(n *yaml.Node, parts []tree.Entry, kind string) {
	e := &Extra{Reader: p.Reader, Kind: kind, Line: n.Line, Spec: find(parts, "spec")}
	if name := find(parts, "name"); name != nil {
		e.Name = p.Text(name, n.Line, "name")
	}
	if e.Spec != nil && tree.IsNull(e.Spec) {
		e.Spec = nil
	}
	p.Extras = append(p.Extras, e)
}

// Embedded reads and checks a resource that stands in a field of the spec: kind, name and
// spec. It is nil if it has no kind or no name.
func (e *Extra) Embedded(n *yaml.Node, path string) *Document {
	path = tree.Join("spec", path)
	if n.Kind != yaml.MappingNode {
		e.Wrong(n.Line, path, "want a resource with kind, name and spec, found %s", tree.What(n))
		return nil
	}
	p := &parser{&File{Reader: e.Reader}}
	before := p.Mistakes()
	parts := p.parts(n, path)
	kind := p.heading(n, parts, path, "kind", kindList(path))
	if p.Mistakes() > before {
		return nil
	}
	d := p.resource(n, parts, kind, path)
	if p.Mistakes() == before {
		check(d)
	}
	return d
}

// identity returns an empty resource of the kind, under the name.
func (p *parser) identity(kind, name *yaml.Node, path string) resource.Message {
	for _, k := range resource.Kinds {
		if k.String() != kind.Value {
			continue
		}
		ref, err := resource.Parse(name.Value)
		switch {
		case err != nil:
			p.Wrong(name.Line, tree.Join(path, "name"), "%v", err)
		case ref.Kind != k:
			p.Wrong(name.Line, tree.Join(path, "name"), "%q names a %s, but kind is %s", name.Value, ref.Kind, k)
		default:
			m := k.New()
			setText(m, "name", name.Value)
			return m
		}
		return nil
	}
	p.Wrong(kind.Line, tree.Join(path, "kind"), "%q should be %s", kind.Value, kindList(path))
	return nil
}

// resource reads a resource that stands at a path; nil if it has no name of its kind.
func (p *parser) resource(n *yaml.Node, parts []tree.Entry, kind *yaml.Node, path string) *Document {
	name := p.heading(n, parts, path, "name", "pools/api")
	if name == nil || !tree.IsText(name) {
		return nil
	}
	m := p.identity(kind, name, path)
	if m == nil {
		return nil
	}
	before := p.Mistakes()
	d := &Document{Resource: m, File: p.Reader.File(), Line: n.Line, reader: p.Reader, prefix: path,
		places: map[string]place{"": {n.Line, path}, "name": {name.Line, tree.Join(path, "name")}}}
	p.etag(parts, m, d)
	if spec := find(parts, "spec"); spec != nil && !tree.IsNull(spec) {
		shown := tree.Join(path, "spec")
		d.places[""] = place{spec.Line, shown}
		f := &fields{parser: p, places: d.places}
		f.message(spec, m.ProtoReflect(), "", shown)
		f.zeros(m)
	}
	d.wrong = p.Mistakes() > before
	return d
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

// kindList names the kinds that may stand at a path: at the top, resources and the others.
func kindList(path string) string {
	var names []string
	for _, k := range resource.Kinds {
		names = append(names, k.String())
	}
	if path == "" {
		names = append(names, Scenario, Demand)
	}
	return "one of " + strings.Join(names, ", ")
}
