package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	api "github.com/titrate/titrate/services/store/resource"
)

// mayBeMisgiven finds what may be such a number. An escape may spell a part of a field's name.
var mayBeMisgiven = func() *regexp.Regexp {
	enums, notZero := fieldsToCheck()
	return regexp.MustCompile(`"(?:` + strings.Join(enums, "|") + `)"\s*:\s*"?-?[0-9]|"(?:` +
		strings.Join(notZero, "|") + `)"\s*:\s*"?-?0|\\u`)
}()

// fieldsToCheck returns the names of the API's fields that hold an enumeration, and of its fields that may not be 0.
func fieldsToCheck() (enums, notZero []string) {
	for _, file := range []protoreflect.FileDescriptor{quotav1.File_titrate_quota_v1alpha1_resources_proto,
		quotav1.File_titrate_quota_v1alpha1_service_proto} {
		for i := range file.Messages().Len() {
			fields := file.Messages().Get(i).Fields()
			for j := range fields.Len() {
				f := fields.Get(j)
				if f.Enum() != nil {
					enums = append(enums, f.JSONName(), string(f.Name()))
				}
				if api.GivenZero(f) != "" {
					notZero = append(notZero, f.JSONName(), string(f.Name()))
				}
			}
		}
	}
	return enums, notZero
}

// misgiven refuses numbers that documents refuse and protobuf takes: a number that is given as 0 where 0 would become
// another default, and the number of a value of an enumeration. A message does not keep that they were given, so the
// text of the body is asked. into is the message that was read.
func misgiven(text []byte, into any) error {
	if !mayBeMisgiven.Match(text) { // nearly always: the body is not read twice
		return nil
	}
	m := message(into)
	if m == nil {
		return nil
	}
	err := zerosIn(bytes.NewReader(text), m.ProtoReflect().Descriptor())
	var wrong *fault
	if errors.As(err, &wrong) {
		line := 1 + bytes.Count(text[:wrong.end], []byte("\n"))
		return &document.Error{File: "body", Line: line, Field: wrong.field, Message: wrong.message}
	}
	return err
}

// fault is a number that is refused, and where it ends in the text, in bytes.
type fault struct {
	end            int64
	field, message string
}

func (f *fault) Error() string { return f.field + ": " + f.message }

// message returns the message into which a body is read: a request, or a field of one. It is nil if into is none.
func message(into any) proto.Message {
	m, ok := into.(proto.Message)
	if !ok {
		m, _ = reflect.ValueOf(into).Elem().Interface().(proto.Message)
	}
	return m
}

// zerosIn is misgiven of a body that is known to be JSON. It keeps one token and the path to it: a tree of all
// values would take many times the memory that was taken for the body.
func zerosIn(body io.Reader, d protoreflect.MessageDescriptor) error {
	z := &zeros{Decoder: json.NewDecoder(body)}
	z.UseNumber()
	token, err := z.Token()
	if token != json.Delim('{') {
		return err
	}
	return z.message(d)
}

// zeros reads a JSON value token by token.
type zeros struct {
	*json.Decoder
	path []step // to the field that is read
}

// step leads to a field of a message.
type step struct {
	name   string
	inList bool
	item   int
}

// message reads a message, whose opening brace has been read.
func (z *zeros) message(d protoreflect.MessageDescriptor) error {
	for z.More() {
		key, err := z.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		field := d.Fields().ByJSONName(name)
		if field == nil {
			field = d.Fields().ByName(protoreflect.Name(name))
		}
		z.path = append(z.path, step{name: name})
		if err := z.value(field); err != nil {
			return err
		}
		z.path = z.path[:len(z.path)-1]
	}
	_, err := z.Token() // }
	return err
}

// value reads the value of a field, or an item of its list. The field is nil if the message has none of the name:
// a well-known type is read by other rules.
func (z *zeros) value(field protoreflect.FieldDescriptor) error {
	token, err := z.Token()
	if err != nil {
		return err
	}
	delim, opens := token.(json.Delim)
	switch {
	case opens && (field == nil || field.Message() == nil || field.IsMap() || delim == '[' && !field.IsList()):
		return z.skip()
	case delim == '{':
		return z.message(field.Message())
	case delim == '[':
		return z.list(field)
	case field == nil:
		return nil
	}
	if n, is := token.(json.Number); is && field.Enum() != nil {
		return &fault{z.InputOffset(), z.at(), document.ExplainValue(n.String(), field)}
	}
	if wrong := api.GivenZero(field); wrong != "" && isZero(token) {
		return &fault{z.InputOffset(), z.at(), "0 " + wrong}
	}
	return nil
}

// list reads a list, whose opening bracket has been read.
func (z *zeros) list(field protoreflect.FieldDescriptor) error {
	for i := 0; z.More(); i++ {
		last := &z.path[len(z.path)-1]
		last.inList, last.item = true, i
		if err := z.value(field); err != nil {
			return err
		}
	}
	_, err := z.Token() // ]
	return err
}

// skip reads what is left of a list or an object, whose opening bracket has been read.
func (z *zeros) skip() error {
	for depth := 1; depth > 0; {
		token, err := z.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

// at is the path of the field that is read.
func (z *zeros) at() string {
	var b strings.Builder
	for i, s := range z.path {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
		if s.inList {
			fmt.Fprintf(&b, "[%d]", s.item)
		}
	}
	return b.String()
}

// isZero reports whether a token is 0, as a number or, as protobuf allows it, as a text.
func isZero(token json.Token) bool {
	text, ok := token.(string)
	if number, is := token.(json.Number); is {
		text, ok = number.String(), true
	}
	n, err := strconv.ParseFloat(text, 64)
	return ok && err == nil && n == 0
}
