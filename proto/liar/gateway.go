package liar

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
)

// Gateway changes fields of the messages that a gateway sends its agent, as [Liar] does those of agents. A field is
// named by its path, which begins with its message, such as "Claims.Keys.Claim". Not safe for concurrent use.
type Gateway struct {
	// Spare names keys that it does not falsify; nil: none.
	Spare func(key uint64) bool

	seen map[string][]reflect.Value // by name of the field
}

// fromGateway are the messages.
var fromGateway = []link.Message{&exchange.Claims{}, &exchange.Spent{}, &exchange.TokenRequests{}, &exchange.Report{},
	&exchange.Decisions{}, &exchange.Names{}, &link.Refused{}, &link.Heartbeat{}}

// NewMessage returns an empty message that a field's path begins with, nil if a gateway sends no such message.
func NewMessage(path string) link.Message {
	name, _, _ := strings.Cut(path, ".")
	for _, m := range fromGateway {
		if t := reflect.TypeOf(m).Elem(); t.Name() == name {
			return reflect.New(t).Interface()
		}
	}
	return nil
}

// GatewayFields returns the paths of all fields, in order.
func GatewayFields() (paths []string) {
	for _, m := range fromGateway {
		t := reflect.TypeOf(m).Elem()
		paths = append(paths, fieldsOf(t, t.Name())...)
	}
	return paths
}

func fieldsOf(t reflect.Type, path string) (paths []string) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			paths = append(paths, fieldsOf(t.Field(i).Type, path+"."+t.Field(i).Name)...)
		}
		return paths
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return fieldsOf(t.Elem(), path)
	}
	return []string{path}
}

// Of reports whether a path is one of a message's fields.
func Of(path string, m link.Message) bool {
	return strings.HasPrefix(path, reflect.TypeOf(m).Elem().Name()+".")
}

// Hear remembers the values of a message.
func (l *Gateway) Hear(m link.Message) {
	if l.seen == nil {
		l.seen = map[string][]reflect.Value{}
	}
	l.remember("", reflect.ValueOf(m).Elem())
}

func (l *Gateway) remember(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			l.remember(v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			l.remember(name, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			l.remember(name, v.Elem())
		}
	default:
		if v.IsZero() || name == "Key" && l.Spare != nil && l.Spare(v.Uint()) {
			return
		}
		own := reflect.New(v.Type()).Elem()
		own.Set(v)
		all := append(l.seen[name], own)
		l.seen[name] = all[max(0, len(all)-remembered):]
	}
}

// Tell sets a field of a message of the kind that its path names to the n-th of its possible values, modulo their
// number. It does so of a list in each record, of an array in each place. A list without records gets one, filled
// with values of others.
func (l *Gateway) Tell(m link.Message, path string, n int) {
	names := strings.Split(path, ".")
	l.falsify(reflect.ValueOf(m).Elem(), names[len(names)-1], names[1:], n)
}

// TellSome sets one to three of the fields of a message that paths name, drawn at random.
func (l *Gateway) TellSome(m link.Message, paths []string, random *rand.Rand) {
	of := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !Of(path, m) })
	if len(of) == 0 {
		return
	}
	for range 1 + random.IntN(3) {
		l.Tell(m, of[random.IntN(len(of))], random.IntN(1000))
	}
}

func (l *Gateway) falsify(v reflect.Value, name string, path []string, n int) {
	switch v.Kind() {
	case reflect.Struct:
		l.falsify(v.FieldByName(path[0]), name, path[1:], n)
	case reflect.Slice:
		if v.Len() == 0 {
			one := reflect.New(v.Type().Elem()).Elem()
			l.fill(name, one)
			v.Set(reflect.Append(v, one))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			l.falsify(v.Index(i), name, path, n)
		}
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		l.falsify(v.Elem(), name, path, n)
	default:
		values := l.values(name, v.Type())
		v.Set(values[n%len(values)])
	}
}

// fill fills a record with the last values that others have sent in fields of the same names.
func (l *Gateway) fill(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			l.fill(v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice, reflect.Array, reflect.Pointer:
	default:
		if seen := l.seen[name]; len(seen) > 0 && seen[len(seen)-1].Type() == v.Type() {
			v.Set(seen[len(seen)-1])
		}
	}
}

// texts are empty, at the bound of names, longer, and no UTF-8.
var texts = []string{"", strings.Repeat("x", 256), strings.Repeat("x", 257), strings.Repeat("y", 30_000), "a\xff\xfe"}

// values returns the possible values of a field. Numbers that are none do not pass the link.
func (l *Gateway) values(name string, t reflect.Type) (out []reflect.Value) {
	as := func(v any) { out = append(out, reflect.ValueOf(v).Convert(t)) }
	switch t.Kind() {
	case reflect.Bool:
		as(false)
		as(true)
	case reflect.String:
		for _, s := range texts {
			as(s)
		}
	case reflect.Float64:
		for _, v := range amounts {
			if !math.IsNaN(v) && !math.IsInf(v, -1) {
				as(v)
			}
		}
	default:
		for _, n := range counts {
			as(n)
		}
	}
	for _, v := range l.seen[name] {
		if v.Type() == t {
			out = append(out, v)
		}
	}
	return out
}
