package ratelimitconfig

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/wording"
)

const (
	// MaxBytes is the longest file that is read.
	MaxBytes = 4 << 20
	// maxDepth is the most levels of descriptors.
	maxDepth = 32
)

// Options of reading.
type Options struct {
	// MergeDomains lets several files have one domain. Otherwise the second is an error.
	MergeDomains bool
}

// ReadDir reads the files of a directory that [List] finds. On an error, which has all mistakes of all files, there
// is no configuration.
func ReadDir(dir string, o Options) (*Config, error) {
	files, _, err := List(dir)
	if err != nil {
		return nil, err
	}
	return ReadFiles(files, o)
}

// ReadFiles reads files. On an error, which has all mistakes of all files, there is no
// configuration.
func ReadFiles(files []string, o Options) (*Config, error) {
	c := &Config{}
	var errs []error
	for _, name := range files {
		f, err := os.Open(name)
		if err == nil {
			err = c.Add(name, f, o)
			_ = f.Close()
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// Add reads one more file; its name is for errors. After an error the configuration must
// not be used.
func (c *Config) Add(name string, in io.Reader, o Options) error {
	r := &reader{Reader: tree.New(name), file: name}
	if n := r.root(in); n != nil {
		r.domain(c, n, o)
	}
	return r.Err()
}

type reader struct {
	*tree.Reader
	file string
}

// root returns the only document of a file, a mapping; nil if there is none to be had.
func (r *reader) root(in io.Reader) *yaml.Node {
	const want = "want one mapping with domain and descriptors"
	data, err := io.ReadAll(io.LimitReader(in, MaxBytes+1))
	if err != nil || len(data) > MaxBytes {
		r.Wrong(0, "", "cannot be read, or longer than %d MiB: %v", MaxBytes>>20, err)
		return nil
	}
	all := r.Roots(data)
	for _, n := range all {
		r.expand(n)
	}
	switch {
	case r.Mistakes() > 0: // Roots has reported them
	case len(all) > 0 && r.isForeign(all[0]):
	case len(all) == 0 || len(all) == 1 && tree.IsNull(all[0]):
		r.Wrong(1, "domain", "the file is empty; %s", want)
	case len(all) > 1:
		r.Wrong(all[1].Line, "", "a second document; %s", want)
	case all[0].Kind != yaml.MappingNode:
		r.Wrong(all[0].Line, "", "%s, found %s", want, tree.What(all[0]))
	default:
		return all[0]
	}
	return nil
}

// isForeign notes that a file is one of Titrate's documents, or an object of Kubernetes.
func (r *reader) isForeign(n *yaml.Node) bool {
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	kind, version := scalarAt(n, "kind"), scalarAt(n, "apiVersion")
	switch {
	case kind == "" || version == "":
		return false
	case version == tree.APIVersion:
		r.Wrong(n.Line, "kind", "this is a document of Titrate (%s), which needs no import: titrate apply -f %s",
			wording.Cut(kind), r.file)
	default:
		r.Wrong(n.Line, "kind", "this is an object of Kubernetes (%s); want the configuration of ratelimit itself, "+
			"which a ConfigMap has as a text below data", wording.Cut(kind))
	}
	return true
}

func (r *reader) domain(c *Config, n *yaml.Node, o Options) {
	f := r.Fields(n, "", "domain", "descriptors")
	name := r.word(f["domain"], "domain")
	if name == "" && !r.IsWrong("domain") {
		r.Wrong(n.Line, "domain", "missing; want the domain that Envoy's rate limit filter names")
	}
	d := c.domains[name]
	if d != nil && !o.MergeDomains {
		r.Wrong(f["domain"].Line, "domain", "%s has a file already, %s: put its descriptors there, or let several "+
			"files have one domain by --merge-domains (of an agent: --rls-merge-domains)", wording.Quote(name), d.File)
		return
	}
	if d == nil {
		d = &Node{Key: name, File: r.file, Line: n.Line}
	}
	at := place{domain: name, path: name, id: strconv.Quote(name)}
	r.descriptors(d, f["descriptors"], "descriptors", at)
	if name == "" {
		return // wrong; another file without a domain is not a second one of this
	}
	if c.domains == nil {
		c.domains = map[string]*Node{}
	}
	c.domains[name] = d
}

// place is the position of a list of descriptors in the tree.
type place struct {
	domain, path, id string
	depth            int
}

func (r *reader) descriptors(parent *Node, list *yaml.Node, field string, at place) {
	if at.depth++; at.depth > maxDepth {
		r.Wrong(list.Line, field, "want at most %d levels of descriptors", maxDepth)
		return
	}
	for i, item := range r.Items(list, field) {
		r.descriptor(parent, item, fmt.Sprintf("%s[%d]", field, i), at)
	}
}

func (r *reader) descriptor(parent *Node, n *yaml.Node, field string, at place) {
	f := r.Fields(n, field, "key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata")
	if n.Kind != yaml.MappingNode {
		return
	}
	node := &Node{
		Key: r.word(f["key"], field+".key"), Value: r.word(f["value"], field+".value"),
		Share:         r.flag(f["share_threshold"], field+".share_threshold"),
		ValueToMetric: r.flag(f["value_to_metric"], field+".value_to_metric"),
		File:          r.file, Line: n.Line,
	}
	at.path, at.id = at.path+"."+node.name(), at.id+"/"+strconv.Quote(node.name())
	switch {
	case node.Key == "":
		r.Wrong(n.Line, field+".key", "missing; want the key of a descriptor's entry")
		return
	case node.Share && !node.IsPattern():
		r.Wrong(f["share_threshold"].Line, field+".share_threshold", "want a value with a *, found %s",
			wording.Quote(node.Value))
	case !parent.add(node):
		r.Wrong(n.Line, field, "%s is there already, at %s:%d", wording.Cut(at.path), parent.byName[node.name()].File,
			parent.byName[node.name()].Line)
		return
	}
	shadow, quota := r.flag(f["shadow_mode"], field+".shadow_mode"), r.flag(f["quota_mode"], field+".quota_mode")
	detailed := r.flag(f["detailed_metric"], field+".detailed_metric")
	metadata := r.metadata(f["metadata"], field+".metadata")
	if l := r.limit(f["rate_limit"], field+".rate_limit"); l != nil {
		l.Domain, l.Path, l.ID, l.File, l.Line = at.domain, at.path, at.id, r.file, n.Line
		l.Shadow, l.Quota, l.Detailed, l.Metadata = shadow, quota, detailed, metadata
		node.Limit = l
	}
	if f["descriptors"] != nil {
		r.descriptors(node, f["descriptors"], field+".descriptors", at)
	}
}

// limit reads a rate_limit, nil if there is none.
func (r *reader) limit(n *yaml.Node, field string) *Limit {
	if n == nil {
		return nil
	}
	f := r.Fields(n, field, "unit", "requests_per_unit", "unlimited", "name", "replaces")
	l := &Limit{
		Requests:  r.requests(f["requests_per_unit"], field+".requests_per_unit"),
		Unlimited: r.flag(f["unlimited"], field+".unlimited"), Name: r.word(f["name"], field+".name"),
	}
	l.Unit = r.unit(f["unit"], n.Line, field+".unit", l.Unlimited)
	for i, item := range r.Items(f["replaces"], field+".replaces") {
		at := fmt.Sprintf("%s.replaces[%d]", field, i)
		switch name := r.word(r.Fields(item, at, "name")["name"], at+".name"); name {
		case "":
			r.Wrong(item.Line, at, "want {name: NAME} of another limit")
		case l.Name:
			r.Wrong(item.Line, at, "%s is this limit itself; want the name of another one", wording.Quote(name))
		default:
			l.Replaces = append(l.Replaces, name)
		}
	}
	return l
}

func (r *reader) unit(n *yaml.Node, line int, field string, unlimited bool) Unit {
	if n == nil {
		if !unlimited {
			r.Wrong(line, field, "missing; want second, minute, hour, day, week, month or year")
		}
		return NoUnit
	}
	word := strings.ToLower(r.word(n, field))
	for _, u := range Units() {
		switch {
		case word != u.String():
		case unlimited:
			r.Wrong(n.Line, field, "want no unit where unlimited is true, found %s", word)
			return NoUnit
		default:
			return u
		}
	}
	if !unlimited {
		r.Wrong(n.Line, field, "want second, minute, hour, day, week, month or year, found %s", tree.What(n))
	}
	return NoUnit
}
