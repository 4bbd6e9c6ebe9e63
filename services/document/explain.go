package document

import (
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/document/tree"
)

// Explain says what is wrong with a JSON text that m could not be read from, in the sentences of documents, with lines
// and fields. It is nil if they have none for it. In errors the text is called file. The whole text is kept as a tree,
// which takes some hundred bytes per value.
func Explain(file string, text []byte, m proto.Message) error {
	r := tree.New(file)
	roots := r.Roots(text)
	if len(roots) != 1 || r.Mistakes() > 0 {
		return nil
	}
	f := &fields{parser: &parser{&File{Reader: r}}, of: &Document{places: map[string]place{}}, json: true}
	f.message(roots[0], m.ProtoReflect().New(), "", "")
	return r.Err()
}

// ExplainValue says what is wrong with a text that stands for the value of a field, as Explain does; "" if nothing is.
func ExplainValue(text string, d protoreflect.FieldDescriptor) string {
	if d.Kind() == protoreflect.StringKind {
		return "" // any text is one
	}
	n := unquoted(&yaml.Node{Value: text})
	if _, want := jsonScalar(n, d); want != "" {
		return "want " + want + ", found " + tree.What(n) + meant(n, d)
	}
	return ""
}

// unquoted is a text as if it stood without quotes.
func unquoted(n *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Line: n.Line, Value: n.Value}
}

// seconds is a duration in protobuf's JSON.
var seconds = regexp.MustCompile(`^-?[0-9]+(\.[0-9]{1,9})?s$`)

// numeric are the kinds whose values may be text in protobuf's JSON.
var numeric = []protoreflect.Kind{protoreflect.DoubleKind, protoreflect.Uint32Kind, protoreflect.Int32Kind,
	protoreflect.Int64Kind}

// jsonScalar is scalar by the rules of protobuf's JSON. Kinds that documents do not have are not looked at.
func jsonScalar(n *yaml.Node, d protoreflect.FieldDescriptor) (v protoreflect.Value, want string) {
	switch {
	case slices.Contains(numeric, d.Kind()):
		if n.Kind == yaml.ScalarNode {
			n = unquoted(n)
		}
	case d.Kind() == protoreflect.MessageKind && d.Message().FullName() == durationName:
		if n.Kind != yaml.ScalarNode || !seconds.MatchString(n.Value) {
			return v, "a duration in seconds, such as 0.05s or 60s"
		}
		return v, ""
	case d.Kind() == protoreflect.MessageKind && d.Message().FullName() == timestampName:
	case d.Kind() != protoreflect.BoolKind && d.Kind() != protoreflect.StringKind && d.Kind() != protoreflect.EnumKind:
		return v, ""
	}
	return scalar(n, d)
}
