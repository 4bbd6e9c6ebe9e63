package intake

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDepth bounds the nesting of messages. The API's messages need less than ten levels.
const maxDepth = 32

var (
	errTooMany = errors.New("too many entries")
	errTooDeep = fmt.Errorf("messages lie in each other more than %d deep", maxDepth)
)

// count returns errTooMany if decoding the bytes as a message of the descriptor would make more entries than most:
// messages, and elements of lists and maps. Unknown fields make none, because protobuf keeps their bytes as they are.
func count(b []byte, d protoreflect.MessageDescriptor, most int) error {
	left := most
	return countIn(b, d, &left, maxDepth)
}

func countIn(b []byte, d protoreflect.MessageDescriptor, left *int, depth int) error {
	if depth == 0 {
		return errTooDeep
	}
	fields := d.Fields()
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return protowire.ParseError(n)
		}
		if f := fields.ByNumber(number); f != nil {
			if err := countField(b[:n], kind, f, left, depth); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

// countField takes the entries of one field off what is left.
func countField(value []byte, kind protowire.Type, f protoreflect.FieldDescriptor, left *int, depth int) error {
	packed := kind == protowire.BytesType && f.IsList() && packable(f.Kind())
	switch {
	case packed:
		*left -= len(value) // a byte at least for each element
	case f.IsList() || f.Message() != nil:
		*left--
	}
	if *left < 0 {
		return errTooMany
	}
	if f.Message() == nil || kind != protowire.BytesType {
		return nil
	}
	inner, _ := protowire.ConsumeBytes(value)
	return countIn(inner, f.Message(), left, depth-1)
}

// packable reports whether elements of a list can stand behind each other without tags.
func packable(k protoreflect.Kind) bool {
	return k != protoreflect.StringKind && k != protoreflect.BytesKind && k != protoreflect.MessageKind &&
		k != protoreflect.GroupKind
}
