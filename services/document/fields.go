package document

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// fields reads a spec into a message and keeps where each field stood.
type fields struct {
	*parser
	of   *Document
	json bool // the text is protobuf's JSON of any message, and is read for its mistakes only
}

// wrong notes a mistake at a field, whose value is then not known.
func (f *fields) wrong(line int, path, shown, format string, args ...any) {
	f.of.misread(path)
	f.Wrong(line, shown, format, args...)
}

const (
	durationName  = "google.protobuf.Duration"
	timestampName = "google.protobuf.Timestamp"
)

// isScalar reports whether a document writes a field's value as one text or number, not as a mapping.
func isScalar(d protoreflect.FieldDescriptor) bool {
	return d.Message() == nil || d.Message().FullName() == durationName || d.Message().FullName() == timestampName
}

// beside are fields of a resource that a document keeps out of spec.
var beside = map[protoreflect.Name]bool{"name": true, "etag": true, "update_time": true, "status": true, "set": true}

// output are fields of a resource that only the API writes.
var output = map[protoreflect.Name]bool{"update_time": true, "status": true, "set": true}

// message reads a mapping. path is in proto spelling, shown as the file has it.
func (f *fields) message(n *yaml.Node, m protoreflect.Message, path, shown string) {
	if n.Kind != yaml.MappingNode {
		f.wrong(n.Line, path, shown, "want a mapping of fields, found %s", tree.What(n))
		return
	}
	var given []protoreflect.Name
	for _, e := range f.Entries(n, shown) {
		name := tree.Join(shown, e.Key.Value)
		field := lookup(m.Descriptor(), e.Key.Value, f.isSpec(path))
		switch {
		case field == nil:
			f.unknown(e.Key, m.Descriptor(), path, name)
			continue
		case slices.Contains(given, field.Name()):
			f.wrong(e.Key.Line, tree.Join(path, string(field.Name())), name, "given twice, in two spellings")
			continue
		}
		given = append(given, field.Name())
		below := tree.Join(path, string(field.Name()))
		f.of.places[below] = place{line: e.Key.Line, shown: name, null: tree.IsNull(e.Value)}
		if !tree.IsNull(e.Value) {
			f.field(e.Value, m, field, below, name)
		}
	}
}

// unknown notes a field name that does not exist. The value of the field that was meant is then unknown, too.
func (f *fields) unknown(key *yaml.Node, m protoreflect.MessageDescriptor, path, shown string) {
	names := known(m, f.isSpec(path))
	if near := lookup(m, wording.Near(key.Value, names), f.isSpec(path)); near != nil {
		f.of.misread(tree.Join(path, string(near.Name())))
	}
	f.Wrong(key.Line, shown, "unknown field; %s", tree.Known(key.Value, names))
}

// isSpec reports whether the message at a path is the spec of a document. A spec has no name and no etag.
func (f *fields) isSpec(path string) bool { return path == "" && !f.json }

func (f *fields) field(n *yaml.Node, m protoreflect.Message, d protoreflect.FieldDescriptor, path, shown string) {
	if !d.IsList() {
		if v, ok := f.value(n, d, path, shown, m.NewField(d)); ok && !f.json {
			m.Set(d, v)
		}
		return
	}
	if n.Kind != yaml.SequenceNode {
		f.wrong(n.Line, path, shown, "want a list, found %s", tree.What(n))
		return
	}
	list := m.Mutable(d).List()
	for i, item := range n.Content {
		at := fmt.Sprintf("[%d]", i)
		f.of.places[path+at] = place{line: item.Line, shown: shown + at}
		if v, ok := f.value(item, d, path+at, shown+at, list.NewElement()); ok && !f.json {
			list.Append(v)
		}
	}
}

// value reads one value of a field; fresh is an empty one of its type.
func (f *fields) value(n *yaml.Node, d protoreflect.FieldDescriptor, path, shown string,
	fresh protoreflect.Value) (protoreflect.Value, bool) {
	if !isScalar(d) {
		if f.json && (d.IsMap() || d.Message().ParentFile().Package() == "google.protobuf") { // they have own rules
			return fresh, true
		}
		f.message(n, fresh.Message(), path, shown)
		return fresh, true
	}
	read := scalar
	if f.json {
		read = jsonScalar
	}
	v, want := read(n, d)
	if want != "" {
		f.wrong(n.Line, path, shown, "want %s, found %s%s", want, tree.What(n), meant(n, d))
		return v, false
	}
	if wrong := resource.GivenZero(d); wrong != "" && v.Equal(d.Default()) {
		f.wrong(n.Line, path, shown, "0 %s", wrong)
		return v, false
	}
	return v, true
}

// meant says which value of an enumeration a text may stand for.
func meant(n *yaml.Node, d protoreflect.FieldDescriptor) string {
	if d.Kind() != protoreflect.EnumKind {
		return ""
	}
	return wording.Meant(n.Value, choices(d.Enum()))
}

// choices returns the names of an enumeration's values, without its zero value: that one is said by leaving the field
// out.
func choices(d protoreflect.EnumDescriptor) (names []string) {
	for i := range d.Values().Len() {
		if e := d.Values().Get(i); e.Number() != 0 {
			names = append(names, string(e.Name()))
		}
	}
	return names
}

// scalar reads a number, a text, a truth value, an enumeration, a duration or a time. want describes the expected
// text, "" if all is well.
func scalar(n *yaml.Node, d protoreflect.FieldDescriptor) (v protoreflect.Value, want string) {
	tag := ""
	if n.Kind == yaml.ScalarNode {
		tag = n.ShortTag()
	}
	number := tag == "!!int" || tag == "!!float"
	if number && d.Kind() != protoreflect.StringKind && tree.IsAmbiguous(n.Value) {
		return v, tree.Unambiguous
	}
	switch d.Kind() {
	case protoreflect.DoubleKind, protoreflect.Uint32Kind, protoreflect.Int32Kind, protoreflect.Int64Kind:
		x, kind := parseNumber(n.Value, d)
		if number && x.IsValid() {
			return x, ""
		}
		return v, kind
	case protoreflect.BoolKind:
		x, err := strconv.ParseBool(strings.ToLower(n.Value))
		if tag == "!!bool" && err == nil {
			return protoreflect.ValueOfBool(x), ""
		}
		return v, "true or false"
	case protoreflect.StringKind:
		return readText(n.Value, tag == "!!str", number, d)
	case protoreflect.EnumKind:
		return enum(n.Value, tag, d.Enum())
	case protoreflect.MessageKind:
		return timeOf(n.Value, tag, d)
	}
	return v, "nothing: this version cannot read the field"
}

// timeOf reads an instant or a duration.
func timeOf(text, tag string, d protoreflect.FieldDescriptor) (v protoreflect.Value, want string) {
	if d.Message().FullName() == timestampName {
		return timestamp(text, tag)
	}
	return duration(text, tag)
}

// parseNumber reads the number of a field. It returns no valid value if the text is none. kind describes the numbers
// that the field may have.
func parseNumber(text string, d protoreflect.FieldDescriptor) (v protoreflect.Value, kind string) {
	switch d.Kind() {
	case protoreflect.DoubleKind:
		x, err := strconv.ParseFloat(text, 64)
		if err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			v = protoreflect.ValueOfFloat64(x)
		}
		return v, "a number"
	case protoreflect.Uint32Kind:
		if x, err := strconv.ParseUint(text, 10, 32); err == nil {
			v = protoreflect.ValueOfUint32(uint32(x))
		}
		return v, "a whole number from 0 to 4294967295"
	}
	bits := 64
	if d.Kind() == protoreflect.Int32Kind {
		bits = 32
	}
	if x, err := strconv.ParseInt(text, 10, bits); err == nil {
		v = protoreflect.ValueOfInt64(x)
	}
	return v, "a whole number"
}

// readText reads a text; is says that YAML takes it for one, number that YAML takes it for a number.
func readText(value string, is, number bool, d protoreflect.FieldDescriptor) (v protoreflect.Value, want string) {
	rate := d.Name() == "rate"
	switch {
	case is || rate && value == "0" || d.Name() == "starts_on": // a rate of 0 needs no unit, a day no quotes
		return protoreflect.ValueOfString(value), ""
	case rate && number:
		example := value
		if _, err := resource.ParseRate(example + "/s"); err != nil {
			example = "100"
		}
		return v, fmt.Sprintf("a rate with its unit, such as %s/s, %[1]s/min or %[1]s/h", example)
	}
	return v, "text, in quotes if it looks like a number"
}

func enum(value, tag string, d protoreflect.EnumDescriptor) (protoreflect.Value, string) {
	names := choices(d)
	if tag == "!!str" && slices.Contains(names, value) {
		return protoreflect.ValueOfEnum(d.Values().ByName(protoreflect.Name(value)).Number()), ""
	}
	return protoreflect.Value{}, "one of " + strings.Join(names, ", ")
}

func duration(value, tag string) (protoreflect.Value, string) {
	x, err := time.ParseDuration(value)
	if tag != "!!str" || err != nil {
		return protoreflect.Value{}, "a duration with its unit, such as 50ms, 1.5s or 1m"
	}
	return protoreflect.ValueOfMessage(durationpb.New(x).ProtoReflect()), ""
}

// timestamp reads a time with its zone, with or without quotes.
func timestamp(value, tag string) (protoreflect.Value, string) {
	t, err := time.Parse(time.RFC3339Nano, value)
	if tag != "!!str" && tag != "!!timestamp" || err != nil {
		return protoreflect.Value{}, "a time with its zone, such as 2026-12-01T00:00:00Z or 2026-12-01T00:00:00+01:00"
	}
	return protoreflect.ValueOfMessage(timestamppb.New(t).ProtoReflect()), ""
}

// lookup finds a field by its name in either spelling. At the top, what a document keeps out of spec is not found.
func lookup(d protoreflect.MessageDescriptor, key string, top bool) protoreflect.FieldDescriptor {
	field := d.Fields().ByJSONName(key)
	if field == nil {
		field = d.Fields().ByName(protoreflect.Name(key))
	}
	if field == nil || top && beside[field.Name()] {
		return nil
	}
	return field
}

// known are the names of the fields that a document may have.
func known(d protoreflect.MessageDescriptor, top bool) (names []string) {
	stored := d.Fields().ByName("update_time") != nil
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		if inside := !top || !beside[field.Name()]; inside && !(stored && output[field.Name()]) {
			names = append(names, field.JSONName())
		}
	}
	return names
}
