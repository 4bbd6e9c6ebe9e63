package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/papers/markdown"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store/resource"
)

// examples has one document of each kind, with every field, and then others with the fields that do not go with these.
//
//go:embed examples.yaml
var examples []byte

// fileName of the examples, in errors.
const fileName = "e2e/reference/examples.yaml"

// server are fields that only the server writes, or that a document keeps outside of spec.
var server = map[protoreflect.Name]bool{"etag": true, "update_time": true, "status": true, "set": true}

// resources describes each kind: its fields, an example that has all of them, and its status.
func resources(c comments) (string, error) {
	if _, err := document.Parse(fileName, examples); err != nil {
		return "", err
	}
	var b strings.Builder
	var all enums
	texts := strings.Split(string(examples), "---\n")
	for i, kind := range resource.Kinds {
		m := kind.New().ProtoReflect()
		d := m.Descriptor()
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", kind, c.of(d.FullName()))
		shown, text, err := examplesOf(kind, texts[i], texts[len(resource.Kinds):])
		if err != nil {
			return "", fmt.Errorf("%s: %s: %w", fileName, kind, err)
		}
		r := reader{comments: c, enums: &all, shown: shown}
		resource.FillDefaults(m.Interface().(resource.Message))
		if err := r.read(m, ""); err != nil {
			return "", fmt.Errorf("%s: %w", kind, err)
		}
		b.WriteString(markdown.Table([]string{"field", "meaning", "unit", "range", "default", "example"}, r.rows))
		fmt.Fprintf(&b, "\nWith every field:\n\n```yaml\n%s```\n\n", text)
		if f := d.Fields().ByName("status"); f != nil {
			fmt.Fprintf(&b, "In `status`: %s\n\n%s\n", c.of(f.Message().FullName()), c.status(f.Message(), &all))
		}
	}
	b.WriteString("### Words\n\n")
	for _, e := range all {
		fmt.Fprintf(&b, "`%s`: %s\n\n%s\n", e.Name(), c.of(e.FullName()), c.words(e))
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// examplesOf returns the examples of a kind: the first one, and those of more that are of the kind.
func examplesOf(kind resource.Kind, first string, more []string) (all []example, text string, err error) {
	texts := []string{first}
	for _, t := range more {
		if strings.Contains(t, "kind: "+kind.String()+"\n") {
			texts = append(texts, t)
		}
	}
	for _, t := range texts {
		one, err := readExample(t)
		if err != nil {
			return nil, "", err
		}
		all = append(all, one)
	}
	return all, strings.Join(texts, "---\n"), nil
}

// reader makes the rows of a resource's table.
type reader struct {
	comments
	rows  [][]string
	enums *enums
	shown []example
}

// example returns the text for a field in the first example that has it.
func (r *reader) example(name string) (shown string, err error) {
	for _, e := range r.shown {
		if shown, err = e.of(name); err == nil {
			return shown, nil
		}
	}
	return "", err
}

// enums are the enums of the fields, each once.
type enums []protoreflect.EnumDescriptor

func (e *enums) add(d protoreflect.EnumDescriptor) {
	if !slices.Contains(*e, d) {
		*e = append(*e, d)
	}
}

// read adds a row for each field of a message that has its defaults; path leads to the message.
func (r *reader) read(m protoreflect.Message, path string) error {
	required := required(m)
	for i := range m.Descriptor().Fields().Len() {
		d := m.Descriptor().Fields().Get(i)
		if server[d.Name()] {
			continue
		}
		s := r.said(d)
		name := path + d.JSONName()
		if s.meaning == "" {
			return fmt.Errorf("field %s has no comment that says what it means", name)
		}
		standard, err := s.defaultOf(m, d, required[string(d.Name())])
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		shown, err := r.example(name)
		if err != nil {
			return err
		}
		r.rows = append(r.rows, []string{"`" + name + "`", s.meaning, s.unit, r.span(d, s), standard, shown})
		if err := r.below(m, d, name); err != nil {
			return err
		}
	}
	return nil
}

// below reads the message that a field has.
func (r *reader) below(m protoreflect.Message, d protoreflect.FieldDescriptor, name string) error {
	if isScalar(d) {
		return nil
	}
	if d.IsList() {
		return r.read(m.NewField(d).List().NewElement().Message(), name+"[].")
	}
	return r.read(m.Get(d).Message(), name+".")
}

// required are the fields that an empty message is refused for.
func required(m protoreflect.Message) map[string]bool {
	names := map[string]bool{}
	invalid := new(valid.Error)
	if errors.As(valid.Message(m.New().Interface()), &invalid) {
		for _, v := range invalid.Violations {
			names[v.Field] = true
		}
	}
	return names
}

// defaultOf is the default that the comment says, or that the server fills in; both, if they are there, must agree.
func (s *said) defaultOf(m protoreflect.Message, d protoreflect.FieldDescriptor, required bool) (string, error) {
	filled := ""
	if m.Has(d) && !d.IsList() && isScalar(d) {
		filled = valueText(d, m.Get(d))
	}
	switch {
	case required || d.Name() == "name":
		return "required", nil
	case s.standard == "" && filled == "" && d.Kind() == protoreflect.MessageKind:
		return "as its fields", nil
	case s.standard == "" && filled == "":
		return "", errors.New("has no default: neither its comment says one, nor does the server fill one in")
	case s.standard == "" && d.Kind() == protoreflect.EnumKind:
		return "`" + filled + "`", nil
	case s.standard == "":
		return filled, nil
	case filled != "" && filled != s.standard && d.Name() != "burst":
		return "", fmt.Errorf("its comment says default %s, and the server fills in %s", s.standard, filled)
	}
	return s.standard, nil
}

// valueText is a value as documents write it.
func valueText(d protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if d.Kind() == protoreflect.EnumKind {
		return string(d.Enum().Values().ByNumber(v.Enum()).Name())
	}
	if isDuration(d) {
		return durationText(v.Message())
	}
	return v.String()
}

// status describes what the server says of a resource.
func (c comments) status(d protoreflect.MessageDescriptor, all *enums) string {
	var rows [][]string
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		rows = append(rows, []string{"`" + f.JSONName() + "`", c.of(f.FullName())})
		if f.Kind() == protoreflect.EnumKind {
			all.add(f.Enum())
		}
	}
	return markdown.Table([]string{"field", "meaning"}, rows)
}

// words describes the values of an enum but the first, which stands for the default.
func (c comments) words(e protoreflect.EnumDescriptor) string {
	var rows [][]string
	for i := 1; i < e.Values().Len(); i++ {
		v := e.Values().Get(i)
		rows = append(rows, []string{"`" + string(v.Name()) + "`", c.of(v.FullName())})
	}
	return markdown.Table([]string{"value", "meaning"}, rows)
}

// everyField reports the fields that the examples leave out, as a test wants them.
func everyField() (missing []string, err error) {
	documents, err := document.Read(fileName, bytes.NewReader(examples))
	if err != nil {
		return nil, err
	}
	lacking := map[string]int{} // how many documents of the kind lack a field
	of := map[string]int{}
	for _, d := range documents {
		kind := resource.KindOf(d.Resource).String()
		of[kind]++
		for _, name := range unset(d.Resource.ProtoReflect(), kind) {
			lacking[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		if kind, _, _ := strings.Cut(name, "."); lacking[name] == of[kind] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

func unset(m protoreflect.Message, path string) (missing []string) {
	for i := range m.Descriptor().Fields().Len() {
		d := m.Descriptor().Fields().Get(i)
		name := path + "." + d.JSONName()
		switch {
		case server[d.Name()]:
		case !m.Has(d):
			missing = append(missing, name)
		case isScalar(d):
		case d.IsList():
			missing = append(missing, unset(m.Get(d).List().Get(0).Message(), name)...)
		default:
			missing = append(missing, unset(m.Get(d).Message(), name)...)
		}
	}
	return missing
}
