package document

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/store/resource"
)

// Schema is the JSON schema of the spec of a kind's documents: which fields there are, and
// their types. What a field may hold the reader says, in words: see [Read].
func Schema(kind resource.Kind) map[string]any {
	return objectSchema(kind.New().ProtoReflect().Descriptor(), true)
}

func objectSchema(m protoreflect.MessageDescriptor, top bool) map[string]any {
	properties := map[string]any{}
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		switch {
		case top && beside[d.Name()]:
		case d.IsList():
			properties[d.JSONName()] = map[string]any{"type": "array", "items": valueSchema(d)}
		default:
			properties[d.JSONName()] = valueSchema(d)
		}
	}
	return map[string]any{"type": "object", "properties": properties}
}

func valueSchema(d protoreflect.FieldDescriptor) map[string]any {
	switch d.Kind() {
	case protoreflect.BoolKind:
		return map[string]any{"type": "boolean"}
	case protoreflect.DoubleKind:
		return map[string]any{"type": "number"}
	case protoreflect.Uint32Kind, protoreflect.Int32Kind, protoreflect.Int64Kind:
		return map[string]any{"type": "integer"}
	case protoreflect.EnumKind:
		var names []string
		for i := 1; i < d.Enum().Values().Len(); i++ { // the first is for an absent field
			names = append(names, string(d.Enum().Values().Get(i).Name()))
		}
		return map[string]any{"type": "string", "enum": names}
	case protoreflect.MessageKind:
		if !isScalar(d) {
			return objectSchema(d.Message(), false)
		}
	}
	return map[string]any{"type": "string"} // a duration is written 50ms, a time 2026-12-01T00:00:00Z
}
