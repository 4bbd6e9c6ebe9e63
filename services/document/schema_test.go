package document

import (
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/store/resource"
)

// What the schema calls an integer, a number, a truth value or a text, the reader of documents takes as one. Otherwise
// no form of a field passes both Kubernetes and the operator.
func TestTheSchemaAgreesWithTheReader(t *testing.T) {
	examples := map[string]*yaml.Node{"integer": {Value: "20", Tag: "!!int"}, "number": {Value: "1.5", Tag: "!!float"},
		"boolean": {Value: "true", Tag: "!!bool"}, "string": {Value: "50ms", Tag: "!!str"}}
	seen := map[protoreflect.FullName]bool{}
	var check func(protoreflect.MessageDescriptor, bool)
	check = func(m protoreflect.MessageDescriptor, top bool) {
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			d := m.Fields().Get(i)
			kind := valueSchema(d)["type"].(string)
			switch {
			case top && beside[d.Name()] || d.Kind() == protoreflect.EnumKind:
			case kind == "object":
				if !seen[d.Message().FullName()] {
					check(d.Message(), false)
				}
			default:
				n := *examples[kind]
				n.Kind = yaml.ScalarNode
				if d.Kind() == protoreflect.MessageKind && d.Message().FullName() == timestampName {
					n.Value = "2026-12-01T00:00:00Z"
				}
				if _, want := scalar(&n, d); want != "" {
					t.Errorf("%s is %q in the schema, and the reader wants %s", d.FullName(), kind, want)
				}
			}
		}
	}
	for _, kind := range resource.Kinds {
		check(kind.New().ProtoReflect().Descriptor(), true)
	}
}
