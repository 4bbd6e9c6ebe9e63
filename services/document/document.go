// Package document reads and writes resources as people do: in YAML or JSON.
//
// # Model
//
// A document is one resource:
//
//	apiVersion: titrate.dev/v1alpha1
//	kind: Pool                # Pool, Plan, Tenant, Quota, Limit, Override
//	name: pools/api
//	spec:
//	  capacity: 300
//	  queue: {delayTarget: 50ms, maxWait: 1s}
//
// A file holds any number of them, parted by --- lines or as one list, which may be a List of Kubernetes. JSON is read
// by the same reader, being YAML. Fields have the names of the .proto in lowerCamelCase (snake_case is read too),
// durations are written 50ms or 1.5s, enumerations by name. An etag next to spec makes an apply conditional. A written
// document has a status next to spec; on reading, status is passed over, so that what get prints can be edited and
// applied.
//
// A file may also have documents of two more kinds: a Scenario says what is played with the resources (titrate-lab
// simulate), a Demand what is asked of them (titrate-lab solve). [Open] returns them unread, as an [Extra]; [Read] and
// [Parse], which only want resources, pass them over.
//
// # Strictness
//
// What is not understood is refused, never passed over: unknown fields, fields given twice, a number where text
// belongs, anchors and aliases (package tree says it all). An object of Kubernetes is called one. Every error has file,
// line and the field's path, and all errors of a file are reported at once, up to tree.MostErrors. The rules of package
// valid are checked too, on what could be read, so that most mistakes are found without a server.
//
// # Invariants
//
// Parse(Write(m)) == m but for what only the server writes. Parse never panics and
// takes time and memory linear in its input, of which it takes MaxBytes at most.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store/resource"
)

// APIVersion is the only version of documents so far.
const APIVersion = tree.APIVersion

// MaxBytes is the longest file that is read: 500,000 documents of 250 bytes.
const MaxBytes = 128 << 20

// The kinds of documents that are no resources.
const (
	Scenario = "Scenario"
	Demand   = "Demand"
)

// Extra is a document that is no resource.
type Extra struct {
	*tree.Reader // of its file: takes the mistakes in Spec
	Kind, Name   string
	Line         int
	Spec         *yaml.Node // nil: absent
}

// File is the content of a file. Its reader takes what is wrong with it, also later.
type File struct {
	*tree.Reader
	Documents []*Document
	Extras    []*Extra
}

// Error is something wrong at a place in a file.
type Error = tree.Error

// Document is a resource and where it was read.
type Document struct {
	Resource resource.Message
	File     string
	Line     int

	reader *tree.Reader
	wrong  bool             // a mistake in it has been noted
	unread map[string]bool  // paths of fields whose values could not be read
	partly map[string]bool  // paths of all that an unread field is in
	prefix string           // where the document is in another, "" for a separate one
	places map[string]place // by path in proto spelling, below the resource
}

type place struct {
	line  int
	shown string
	null  bool // the field stands there without a value, which counts as absent
}

// Name of the resource.
func (d *Document) Name() string { return d.Resource.GetName() }

// Wrong returns an error at a field of the resource, given as its path in proto spelling such as queue.max_wait. It
// points at the nearest field above if that one is not in the file.
func (d *Document) Wrong(field, message string) *Error {
	e := &Error{File: d.File, Line: d.Line, Field: tree.Join(d.prefix, shown(field)),
		Message: d.spelled(message)}
	if p, ok := d.places[field]; ok {
		e.Line, e.Field = p.line, p.shown
		return e
	}
	for up := field; up != ""; {
		up = above(up)
		if p, ok := d.places[up]; ok {
			e.Line = p.line
			return e
		}
	}
	return e
}

// quotedOrSnake is a text in quotes, or the name of a field of several words in proto spelling.
var quotedOrSnake = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\b[a-z]+(_[a-z]+)+\b`)

// spelled is a message in which fields have the names that the document gives them, or would give them. A text in
// quotes is a value of the document, and stays.
func (d *Document) spelled(message string) string {
	return quotedOrSnake.ReplaceAllStringFunc(message, func(name string) string {
		if name[0] == '"' {
			return name
		}
		for path, p := range d.places {
			if path == name || strings.HasSuffix(path, "."+name) {
				return p.shown[strings.LastIndex(p.shown, ".")+1:]
			}
		}
		return strings.TrimPrefix(shown(name), "spec.")
	})
}

// Note notes a mistake at a field of the resource, as Wrong says it, in its file. If the document could not be read, or
// is invalid alone, Note does nothing: the mistake has been reported.
func (d *Document) Note(field, message string) {
	if !d.wrong {
		d.note(field, message)
	}
}

func (d *Document) note(field, message string) {
	e := d.Wrong(field, message)
	d.reader.Wrong(e.Line, e.Field, "%s", e.Message)
}

// above returns the path of what holds a field, "" for the resource itself.
func above(field string) string {
	return field[:max(0, strings.LastIndexAny(field, ".["))]
}

// shown returns a path of the proto as a document spells it.
func shown(field string) string {
	switch field {
	case "", "name", "etag":
		return field
	}
	var b strings.Builder
	up := false
	for _, r := range field {
		if r == '_' {
			up = true
			continue
		}
		if up && 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		up = false
		b.WriteRune(r)
	}
	return "spec." + b.String()
}

// Open reads all documents of a reader and checks each resource alone; file names it in errors. The file's Err says
// whether anything is wrong.
func Open(file string, in io.Reader) *File {
	f := &File{Reader: tree.New(file)}
	data, err := io.ReadAll(io.LimitReader(in, MaxBytes+1))
	switch {
	case err != nil:
		f.Wrong(0, "", "cannot read: %v", err)
	case len(data) > MaxBytes:
		f.Wrong(0, "", "longer than %d bytes", MaxBytes)
	default:
		f.read(data)
	}
	return f
}

// read reads and checks the documents of a text, as many pieces of it at a time as there are cores.
func (f *File) read(data []byte) {
	pieces := f.Pieces(data)
	parts := make([]*File, len(pieces))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, piece := range pieces {
		group.Go(func() error {
			part := &File{Reader: piece.Reader}
			parts[i] = part
			p := &parser{part}
			for _, n := range part.Roots(piece.Data) {
				p.top(n)
			}
			for _, d := range part.Documents {
				check(d)
			}
			return nil
		})
	}
	_ = group.Wait() // no piece has an error
	for _, part := range parts[:f.Join(pieces)] {
		f.Documents = append(f.Documents, part.Documents...)
		f.Extras = append(f.Extras, part.Extras...)
	}
}

// Read reads the resources that a reader holds. On error, which joins one *Error per mistake, no document is returned.
func Read(file string, in io.Reader) ([]*Document, error) {
	f := Open(file, in)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return f.Documents, nil
}

// Parse is Read of bytes.
func Parse(file string, data []byte) ([]*Document, error) { return Read(file, bytes.NewReader(data)) }

// check checks one document: what of it could be read.
func check(d *Document) {
	err := valid.Resource(d.Resource)
	invalid := new(valid.Error)
	if err != nil && !errors.As(err, &invalid) {
		d.note("", err.Error())
	}
	for _, v := range invalid.Violations {
		if d.knows(v.Field) && !slices.ContainsFunc(v.Beside, func(field string) bool { return !d.knows(field) }) {
			d.note(v.Field, d.missing(v)+v.Message)
		}
	}
	d.wrong = d.wrong || err != nil
}

// misread notes that the value of a field could not be read.
func (d *Document) misread(field string) {
	if d.unread == nil {
		d.unread, d.partly = map[string]bool{}, map[string]bool{}
	}
	d.unread[field] = true
	for field != "" {
		field = above(field)
		d.partly[field] = true
	}
}

// knows reports whether a field, and all below it, has the value that its author meant. The whole has it if all
// fields have. The time does not grow with the number of unread fields: a list may have 100,000 of them.
func (d *Document) knows(field string) bool {
	if d.partly[field] || d.unread[""] {
		return false
	}
	for ; field != ""; field = above(field) {
		if d.unread[field] {
			return false
		}
	}
	return true
}

// missing begins the complaint about a field that must be there and is not.
func (d *Document) missing(v valid.Violation) string {
	if p, given := d.places[v.Field]; given && !p.null || v.Field == "" || !strings.HasPrefix(v.Message, "must be") {
		return ""
	}
	return "missing; "
}

// Mistakes joins the mistakes of all files, nil without any.
func Mistakes(files []*File) error {
	errs := make([]error, len(files))
	for i, f := range files {
		errs[i] = f.Err()
	}
	return errors.Join(errs...)
}

// Unique refuses two documents of one name, naming both places.
func Unique(documents []*Document) error {
	first := make(map[string]*Document, len(documents))
	var errs []error
	for _, d := range documents {
		if before, ok := first[d.Name()]; ok {
			errs = append(errs, d.Wrong("name", fmt.Sprintf("%s stands at %s:%d already", d.Name(), before.File,
				before.Line)))
			continue
		}
		first[d.Name()] = d
	}
	return errors.Join(errs...)
}
