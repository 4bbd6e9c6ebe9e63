package document

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// parser reads one file.
type parser struct{ *File }

// top reads what stands between two --- lines: a document, a list of them, or nothing.
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
	if isRatelimit(n) {
		p.Wrong(n.Line, "", "this is a configuration of envoyproxy/ratelimit: titrate import ratelimit %s turns "+
			"it into documents", p.Reader.File())
		return
	}
	switch of, v := kubernetes(n); {
	case v == nil:
	case v.Value == "List":
		p.list(n)
		return
	case v.Value == "ConfigMap" || v.Value == "Secret":
		p.Wrong(v.Line, "kind", "a %s of Kubernetes is no document; give each file that stands under its data", v.Value)
		return
	default:
		p.Wrong(v.Line, "kind", "a %s of Kubernetes (%s) is no document: a document has apiVersion %s",
			wording.Cut(v.Value), wording.Cut(of), APIVersion)
		return
	}
	parts := p.parts(n, "")
	version := p.heading(n, parts, "", "apiVersion", APIVersion)
	kind := p.heading(n, parts, "", "kind", "one of "+kindList(""))
	if kind == nil || !tree.IsText(kind) {
		return
	}
	if version != nil && tree.IsText(version) && version.Value != APIVersion {
		p.Wrong(version.Line, "apiVersion", "%s should be %q", wording.Quote(version.Value), APIVersion)
	}
	if kind.Value == Scenario || kind.Value == Demand {
		p.extra(n, parts, kind.Value)
	} else if d := p.resource(n, parts, kind, ""); d != nil {
		p.Documents = append(p.Documents, d)
	}
}

// isRatelimit reports whether a mapping is a configuration of envoyproxy/ratelimit.
func isRatelimit(n *yaml.Node) bool {
	fields := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fields[n.Content[i].Value] = true
	}
	return fields["domain"] && fields["descriptors"] && !fields["kind"] && !fields["apiVersion"]
}

// kubernetes returns apiVersion and kind of an object of Kubernetes; nil: n is none. Every object of a kind that
// documents do not have, nor nearly, is one if its apiVersion is not theirs.
func kubernetes(n *yaml.Node) (version string, kind *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch n.Content[i].Value {
		case "apiVersion":
			version = n.Content[i+1].Value
		case "kind":
			kind = n.Content[i+1]
		}
	}
	switch {
	case kind == nil || !tree.IsText(kind):
		return "", nil
	case slices.Contains([]string{"List", "ConfigMap", "Secret"}, kind.Value):
		return version, kind
	case version == "" || version == APIVersion || slices.Contains(kindNames(""), kind.Value) ||
		wording.Near(kind.Value, kindNames("")) != "":
		return "", nil
	}
	return version, kind
}

// list reads the documents of a List of Kubernetes.
func (p *parser) list(n *yaml.Node) {
	for _, e := range p.Entries(n, "") {
		switch e.Key.Value {
		case "apiVersion", "kind", "metadata":
		case "items":
			for _, item := range p.Items(e.Value, "items") {
				p.document(item)
			}
		default:
			p.Wrong(e.Key.Line, e.Key.Value, "unknown field; a List has apiVersion, kind, metadata and items")
		}
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
				"unknown field; a document has apiVersion, kind, name, spec and, if wanted, etag%s",
				wording.Meant(e.Key.Value, []string{"apiVersion", "kind", "name", "spec", "etag"}))
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

// Embedded reads and checks a resource in a field of the spec: kind, name and spec. It is nil if it has no kind or no
// name.
func (e *Extra) Embedded(n *yaml.Node, path string) *Document {
	path = tree.Join("spec", path)
	if n.Kind != yaml.MappingNode {
		e.Wrong(n.Line, path, "want a resource with kind, name and spec, found %s", tree.What(n))
		return nil
	}
	p := &parser{&File{Reader: e.Reader}}
	parts := p.parts(n, path)
	kind := p.heading(n, parts, path, "kind", "one of "+kindList(path))
	if kind == nil || !tree.IsText(kind) {
		return nil
	}
	d := p.resource(n, parts, kind, path)
	if d == nil {
		return nil
	}
	check(d)
	if d.Name() == "" {
		return nil
	}
	return d
}

// kindOf is the kind that a document says.
func (p *parser) kindOf(kind *yaml.Node, path string) (resource.Kind, bool) {
	for _, k := range resource.Kinds {
		if k.String() == kind.Value {
			return k, true
		}
	}
	p.Wrong(kind.Line, tree.Join(path, "kind"), "%s should be one of %s%s", wording.Quote(kind.Value), kindList(path),
		wording.Meant(kind.Value, kindNames(path)))
	return 0, false
}

// name returns the name of a document of a kind; "" if it is wrong.
func (p *parser) name(n *yaml.Node, parts []tree.Entry, k resource.Kind, path string) string {
	name := p.heading(n, parts, path, "name", nameOf[k])
	if name == nil || !tree.IsText(name) {
		return ""
	}
	switch ref, err := resource.Parse(name.Value); {
	case err != nil && !strings.Contains(name.Value, "/"):
		p.Wrong(name.Line, tree.Join(path, "name"), "%s lacks what it is a name of: want such as %s",
			wording.Quote(name.Value), nameOf[k])
	case err != nil:
		p.Wrong(name.Line, tree.Join(path, "name"), "%v", err)
	case ref.Kind != k:
		p.Wrong(name.Line, tree.Join(path, "name"), "%q names a %s, but kind is %s", name.Value, ref.Kind, k)
	default:
		return name.Value
	}
	return ""
}

// nameOf is an example of each kind's names.
var nameOf = map[resource.Kind]string{resource.Pool: "pools/api", resource.Plan: "plans/gold",
	resource.Tenant: "tenants/acme", resource.Quota: "tenants/acme/quotas/api",
	resource.Limit:    "tenants/acme/limits/per-client",
	resource.Override: "tenants/acme/limits/per-client/overrides/alice"}

// resource reads a resource that stands at a path; nil if its kind is not known. Its name is "" if that is wrong.
func (p *parser) resource(n *yaml.Node, parts []tree.Entry, kind *yaml.Node, path string) *Document {
	k, is := p.kindOf(kind, path)
	if !is {
		return nil
	}
	before := p.Mistakes()
	m := k.New()
	d := &Document{Resource: m, File: p.Reader.File(), Line: n.Line, reader: p.Reader, prefix: path,
		places: map[string]place{"": {line: n.Line, shown: path}}}
	if name := find(parts, "name"); name != nil {
		d.places["name"] = place{line: name.Line, shown: tree.Join(path, "name")}
	}
	if name := p.name(n, parts, k, path); name != "" {
		setText(m, "name", name)
	} else {
		d.misread("name")
	}
	p.etag(parts, m, d)
	if spec := find(parts, "spec"); spec != nil && !tree.IsNull(spec) {
		shown := tree.Join(path, "spec")
		d.places[""] = place{line: spec.Line, shown: shown}
		f := &fields{parser: p, of: d}
		f.message(spec, m.ProtoReflect(), "", shown)
	}
	d.wrong = p.Mistakes() > before
	return d
}

// etag reads the etag next to spec. Without one, the etag that an exported document has in its status, so that what
// was read, edited and given back is refused when somebody else changed it meanwhile.
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
	d.places["etag"] = place{line: etag.Line, shown: shown}
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
func kindList(path string) string { return strings.Join(kindNames(path), ", ") }

func kindNames(path string) (names []string) {
	for _, k := range resource.Kinds {
		names = append(names, k.String())
	}
	if path == "" {
		names = append(names, Scenario, Demand)
	}
	return names
}
