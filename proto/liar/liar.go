// Package liar changes fields of the messages that agents send each other, for tests of agents that send false
// messages.
//
// A field is named by its path in a message, for example "replicas.keys.claim" of a packet. A lie sets the
// field to one of its values in each record of the message that has it. The values are numbers at, below and
// beyond every bound that agents have, and values that others have sent in fields of the same name. So a liar
// also uses others' keys, processes and sessions. A message without such a record gets one, filled with
// values of others.
package liar

import (
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Liar remembers the packets of others. The zero value has none. Not safe for concurrent use.
type Liar struct {
	// Spare names keys that it does not falsify; nil: none.
	Spare func(key uint64) bool

	seen map[protoreflect.Name][]protoreflect.Value
}

// remembered bounds the values of a field that are kept: the last ones.
const remembered = 8

// Fields returns the paths of all scalar fields of a message, in order.
func Fields(m protoreflect.MessageDescriptor) (paths []string) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name := string(f.Name())
		if f.Message() == nil {
			paths = append(paths, name)
			continue
		}
		for _, p := range Fields(f.Message()) {
			paths = append(paths, name+"."+p)
		}
	}
	return paths
}

// Hear remembers the values of a message.
func (l *Liar) Hear(m proto.Message) {
	if l.seen == nil {
		l.seen = map[protoreflect.Name][]protoreflect.Value{}
	}
	l.remember(m.ProtoReflect())
}

func (l *Liar) remember(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() { // not Range, which has no order
		f := m.Descriptor().Fields().Get(i)
		switch v := m.Get(f); {
		case !m.Has(f):
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				l.remember(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			l.remember(v.Message())
		case f.IsList() || f.Name() == "key" && l.Spare != nil && l.Spare(v.Uint()):
		default:
			all := append(l.seen[f.Name()], v)
			l.seen[f.Name()] = all[max(0, len(all)-remembered):]
		}
	}
}

// Tell sets a field of a message to the n-th of its possible values, modulo their number.
func (l *Liar) Tell(m proto.Message, path string, n int) {
	l.falsify(m.ProtoReflect(), strings.Split(path, "."), n)
}

func (l *Liar) falsify(m protoreflect.Message, path []string, n int) {
	f := m.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case f.Message() == nil && f.IsList():
		m.Mutable(f).List().Append(l.value(f, n))
	case f.Message() == nil:
		m.Set(f, l.value(f, n))
	case f.IsList():
		list := m.Mutable(f).List()
		if list.Len() == 0 {
			list.Append(list.NewElement())
			l.fill(list.Get(0).Message())
		}
		for i := range list.Len() {
			l.falsify(list.Get(i).Message(), path[1:], n)
		}
	default:
		if !m.Has(f) {
			l.fill(m.Mutable(f).Message())
		}
		l.falsify(m.Mutable(f).Message(), path[1:], n)
	}
}

// fill fills a record with values that others have sent in fields of the same names.
func (l *Liar) fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		seen := l.seen[f.Name()]
		if len(seen) > 0 && f.Message() == nil && !f.IsList() && fits(f, seen[len(seen)-1]) {
			m.Set(f, seen[len(seen)-1])
		}
	}
}

// value returns the n-th value of a field.
func (l *Liar) value(f protoreflect.FieldDescriptor, n int) protoreflect.Value {
	values := valuesOf(f.Kind())
	for _, v := range l.seen[f.Name()] {
		if fits(f, v) {
			values = append(values, v)
		}
	}
	return values[n%len(values)]
}

// fits reports whether a field can have a value of a field of the same name.
func fits(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	switch v.Interface().(type) {
	case bool:
		return f.Kind() == protoreflect.BoolKind
	case string:
		return f.Kind() == protoreflect.StringKind
	case []byte:
		return f.Kind() == protoreflect.BytesKind
	case uint64:
		return f.Kind() == protoreflect.Uint64Kind || f.Kind() == protoreflect.Fixed64Kind
	case uint32:
		return f.Kind() == protoreflect.Uint32Kind
	case int64:
		return f.Kind() == protoreflect.Int64Kind
	case float32:
		return f.Kind() == protoreflect.FloatKind
	case float64:
		return f.Kind() == protoreflect.DoubleKind
	}
	return false
}

// amounts are at, below and beyond the bounds of rates, weights, counts and silences.
var amounts = []float64{0, 1, -1, 1e6, 1.1e6, 1e9, 1.1e9, 1e12, 1.1e12, 1e15, 1.1e15, -1e12, math.NaN(), math.Inf(1),
	math.Inf(-1), math.MaxFloat32}

// counts are the same of integers: a token is a million, a second a thousand million.
var counts = []int64{0, 1, -1, 1_000_000, 60_000_000_000, 1 << 31, 1<<32 - 1, 1 << 59, 3 << 60, 3<<60 + 1,
	math.MaxInt64, math.MinInt64}

// valuesOf returns the fixed values of a kind of field.
func valuesOf(k protoreflect.Kind) (out []protoreflect.Value) {
	switch k {
	case protoreflect.BoolKind:
		return []protoreflect.Value{protoreflect.ValueOfBool(false), protoreflect.ValueOfBool(true)}
	case protoreflect.StringKind:
		long := strings.Repeat("x", 300)
		return []protoreflect.Value{protoreflect.ValueOfString(""), protoreflect.ValueOfString(long)}
	case protoreflect.BytesKind:
		return []protoreflect.Value{protoreflect.ValueOfBytes(nil), protoreflect.ValueOfBytes(make([]byte, 300))}
	case protoreflect.EnumKind:
		for n := range protoreflect.EnumNumber(6) {
			out = append(out, protoreflect.ValueOfEnum(n-1))
		}
		return out
	case protoreflect.FloatKind:
		for _, v := range amounts {
			out = append(out, protoreflect.ValueOfFloat32(float32(v)))
		}
		return out
	case protoreflect.DoubleKind:
		for _, v := range amounts {
			out = append(out, protoreflect.ValueOfFloat64(v))
		}
		return out
	}
	for _, n := range counts {
		switch k {
		case protoreflect.Uint32Kind:
			out = append(out, protoreflect.ValueOfUint32(uint32(n)))
		case protoreflect.Int64Kind:
			out = append(out, protoreflect.ValueOfInt64(n))
		default:
			out = append(out, protoreflect.ValueOfUint64(uint64(n)))
		}
	}
	return out
}
