package size

import (
	"math"
	"testing"

	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// The sizes equal the encoder's, for any values of all fields: also for fields that a later version of the messages
// adds.
func TestSizesAreThoseOfTheEncoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &gossipv1.Packet{}
		draw(t, m.ProtoReflect(), 0)
		if got, want := Packet(m), proto.Size(m); got != want {
			t.Fatalf("%d bytes, want %d: %v", got, want, m)
		}
		for _, r := range m.GetReplicas() {
			check(t, Replica(r), r)
			for _, f := range r.GetFlows() {
				check(t, FlowClaim(f), f)
			}
			for _, k := range r.GetKeys() {
				check(t, KeyClaim(k), k)
			}
		}
		for _, s := range m.GetSums() {
			check(t, Sum(s), s)
		}
	})
}

func check(t *rapid.T, got int, m proto.Message) {
	if want := proto.Size(m); got != want {
		t.Fatalf("%d bytes, want %d: %v", got, want, m)
	}
}

// draw sets some fields of a message.
func draw(t *rapid.T, m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case !rapid.Bool().Draw(t, "set"):
		case f.IsList():
			list := m.Mutable(f).List()
			for range rapid.IntRange(0, 3-depth).Draw(t, "n") {
				if f.Kind() == protoreflect.MessageKind {
					draw(t, list.AppendMutable().Message(), depth+1)
				} else {
					list.Append(value(t, f))
				}
			}
		case f.Kind() == protoreflect.MessageKind:
			draw(t, m.Mutable(f).Message(), depth+1)
		default:
			m.Set(f, value(t, f))
		}
	}
}

func value(t *rapid.T, f protoreflect.FieldDescriptor) protoreflect.Value {
	number := rapid.Uint64().Draw(t, f.TextName()) >> rapid.IntRange(0, 63).Draw(t, "shift")
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(number&1 == 1)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(math.Float32frombits(uint32(number)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.Float64frombits(number))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.StringN(0, 200, 300).Draw(t, "text"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(number)))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(number))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(number)
	default:
		panic("no value for a field of kind " + f.Kind().String())
	}
}
