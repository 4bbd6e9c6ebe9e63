// Package document reads and writes resources as people do: in YAML or JSON.
//
// # Model
//
// A document is one resource:
//
//	apiVersion: titrate.dev/v1alpha1
//	kind: Pool                # Pool, Tenant, Quota, Limit
//	name: pools/api
//	spec:
//	  capacity: 300
//	  queue: {delayTarget: 50ms, maxWait: 1s}
//
// A file holds any number of them, parted by --- lines or as one list. JSON is
// read by the same reader, being YAML. Fields are those of the .proto in
// lowerCamelCase (snake_case is read too), durations are written 50ms or 1.5s,
// enumerations by name. An etag beside spec makes an apply conditional. What is
// written out has a status beside spec; on reading, status is passed over, so that
// what get prints can be edited and applied.
//
// # Strictness
//
// What is not understood is refused, never passed over: unknown fields, fields
// given twice, a number where text belongs, anchors and aliases (package tree says
// it all). Every error has file, line and the field's path, and all errors of a
// file are reported at once, up to tree.MostErrors. The rules of package valid are
// checked too, so that most mistakes are found without a server.
//
// # Invariants
//
// Parse(Write(m)) == m but for what only the server writes. Parse never panics and
// takes time and memory linear in its input, of which it takes MaxBytes at most.
package document

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store/resource"
)

// APIVersion is the only version of documents so far.
const APIVersion = "titrate.dev/v1alpha1"

// MaxBytes is the longest file that is read.
const MaxBytes = 4 << 20

// Error is something wrong at a place in a file.
type Error = tree.Error

// Document is a resource and where it was read.
type Document struct {
	Resource resource.Message
	File     string
	Line     int

	places map[string]place // by path in proto spelling, below the resource
}

type place struct {
	line  int
	shown string
}

// Name of the resource.
func (d *Document) Name() string { return d.Resource.GetName() }

// Wrong returns an error at a field of the resource, given as its path in proto
// spelling such as queue.max_wait; at the nearest field above if that one is not
// in the file.
func (d *Document) Wrong(field, message string) *Error {
	e := &Error{File: d.File, Line: d.Line, Field: shown(field), Message: message}
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

// above returns the path of what holds a field, "" for the resource itself.
func above(field string) string {
	return field[:max(0, strings.LastIndexAny(field, ".["))]
}

// shown is how a document spells a path of the proto.
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

// Read parses what a reader holds; file names it in errors.
func Read(file string, r io.Reader) ([]*Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return Parse(file, data)
}

// Parse reads documents and checks each by itself. On error, which joins one
// *Error per mistake, no document is returned.
func Parse(file string, data []byte) ([]*Document, error) {
	if len(data) > MaxBytes {
		return nil, &Error{File: file, Message: fmt.Sprintf("longer than %d bytes", MaxBytes)}
	}
	p := &parser{Reader: tree.New(file), file: file}
	p.stream(data)
	if err := p.Err(); err != nil {
		return nil, err
	}
	var errs []error
	for _, d := range p.documents {
		errs = append(errs, check(d)...)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p.documents, nil
}

func check(d *Document) []error {
	err := valid.Resource(d.Resource)
	var invalid *valid.Error
	if !errors.As(err, &invalid) {
		if err != nil {
			return []error{d.Wrong("", err.Error())}
		}
		return nil
	}
	var errs []error
	for _, v := range invalid.Violations {
		errs = append(errs, d.Wrong(v.Field, v.Message))
	}
	return errs
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
