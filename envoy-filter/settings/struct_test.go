package settings

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// writeValue serializes a google.protobuf.Value, as protobuf's specification says.
func writeValue(v any) []byte {
	tagged := func(tag byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{tag}, uint64(len(content))), content...)
	}
	switch v := v.(type) {
	case nil:
		return []byte{0x08, 0}
	case float64:
		return binary.LittleEndian.AppendUint64([]byte{0x11}, math.Float64bits(v))
	case string:
		return tagged(0x1a, []byte(v))
	case bool:
		if v {
			return []byte{0x20, 1}
		}
		return []byte{0x20, 0}
	case map[string]any:
		var entries []byte
		for key, value := range v {
			entry := append(tagged(0x0a, []byte(key)), tagged(0x12, writeValue(value))...)
			entries = append(entries, tagged(0x0a, entry)...)
		}
		return tagged(0x2a, entries)
	case []any:
		var values []byte
		for _, value := range v {
			values = append(values, tagged(0x0a, writeValue(value))...)
		}
		return tagged(0x32, values)
	}
	panic("no value of JSON")
}

// writeStruct serializes a google.protobuf.Struct: the content of its Value.
func writeStruct(fields map[string]any) []byte {
	raw := writeValue(fields)
	_, n := binary.Uvarint(raw[1:])
	return raw[1+n:]
}

func values(depth int) *rapid.Generator[any] {
	plain := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny())
	if depth == 0 {
		return plain
	}
	return rapid.OneOf(plain, rapid.MapOfN(rapid.String(), values(depth-1), 0, 4).AsAny(),
		rapid.SliceOfN(values(depth-1), 0, 4).AsAny())
}

// A serialized Struct reads as the JSON that it stands for; JSON stays as it is.
func TestStruct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.MapOfN(rapid.String(), values(3), 1, 4).Draw(t, "fields")
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if same := toJSON(text); !bytes.Equal(same, text) {
			t.Fatalf("JSON has changed: %s, was %s", same, text)
		}
		var want, got any
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(toJSON(writeStruct(fields)), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %v (%v), want %v", got, err, want)
		}
	})
}

// An override that comes as a serialized Struct, as Envoy 1.38 hands it over.
func TestRouteAsStruct(t *testing.T) {
	raw := writeStruct(map[string]any{"enabled": true, "cost": map[string]any{"literal": 10.0},
		"tenant": []any{map[string]any{"header": "x-tenant"}, map[string]any{"literal": "acme"}}})
	f, err := ParseRoute(raw)
	if err != nil || len(f.Cost) != 1 || f.Cost[0].Number != 10 || len(f.Tenant) != 2 || f.Enabled == nil {
		t.Errorf("%+v, %v", f, err)
	}
	_, err = ParseRoute(writeStruct(map[string]any{"cots": 1.0}))
	if err == nil || !strings.Contains(err.Error(), "field cots is unknown") {
		t.Errorf("an unknown field: %v", err)
	}
}

// What nests deeper than a configuration can is not read.
func TestStructDepth(t *testing.T) {
	fields := map[string]any{}
	for range deepest {
		fields = map[string]any{"a": fields}
	}
	if raw := writeStruct(fields); !bytes.Equal(toJSON(raw), raw) {
		t.Errorf("%d structures in each other were read", deepest+1)
	}
}

// Whatever the bytes: JSON, or the same bytes.
func FuzzStruct(f *testing.F) {
	f.Add(writeStruct(map[string]any{"a": 1.0, "b": []any{nil, true, "c", map[string]any{"d": "e"}}}))
	f.Add([]byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if text := toJSON(raw); !bytes.Equal(text, raw) && !json.Valid(text) {
			t.Fatalf("%q became %q", raw, text)
		}
	})
}
