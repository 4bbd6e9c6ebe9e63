package settings

import (
	"encoding/binary"
	"encoding/json"
	"math"
)

// Envoy hands a google.protobuf.Struct over as JSON, with one exception: Envoy 1.38 hands an override's Struct
// over in protobuf's wire format.
//
//	Struct    { map<string, Value> fields = 1; }     a map's entry: key = 1, value = 2
//	ListValue { repeated Value values = 1; }
//	Value     { null = 1, number = 2, string = 3, bool = 4, Struct = 5, ListValue = 6 }

// Tags of fields on the wire: the field's number, then how its content is written.
const (
	wireVarint, wireFixed64, wireBytes = 0, 1, 2

	tagEntry = 1<<3 | wireBytes // of Struct, and the values of ListValue
	tagKey   = 1<<3 | wireBytes
	tagValue = 2<<3 | wireBytes

	tagNull   = 1<<3 | wireVarint
	tagNumber = 2<<3 | wireFixed64
	tagString = 3<<3 | wireBytes
	tagBool   = 4<<3 | wireVarint
	tagStruct = 5<<3 | wireBytes
	tagList   = 6<<3 | wireBytes
)

// deepest is the greatest depth of nested structures. A configuration has six.
const deepest = 32

// toJSON returns raw as it is, unless it is a serialized Struct: then that as JSON. No
// text is both, since a Struct with an entry has a byte 0x12, which JSON never has.
func toJSON(raw []byte) []byte {
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	fields, ok := readStruct(raw, deepest)
	if !ok {
		return raw
	}
	text, err := json.Marshal(fields)
	if err != nil { // a number that is not finite
		return raw
	}
	return text
}

// wireField is one field of a serialized message.
type wireField struct {
	tag     uint64
	number  uint64 // content of a varint or fixed64
	content []byte // of the others
}

// eachField calls visit with each field. It returns false if the message could not be read or if visit returned
// false.
func eachField(raw []byte, visit func(wireField) bool) bool {
	for len(raw) > 0 {
		f, size := nextField(raw)
		if size == 0 || !visit(f) {
			return false
		}
		raw = raw[size:]
	}
	return true
}

// nextField reads the first field. Its size is 0 if there is none that a Struct can have.
func nextField(raw []byte) (f wireField, size int) {
	tag, size := binary.Uvarint(raw)
	if size <= 0 {
		return f, 0
	}
	f.tag = tag
	rest := raw[size:]
	switch tag & 7 {
	case wireVarint:
		number, n := binary.Uvarint(rest)
		if n <= 0 {
			return f, 0
		}
		f.number = number
		return f, size + n
	case wireFixed64:
		if len(rest) < 8 {
			return f, 0
		}
		f.number = binary.LittleEndian.Uint64(rest)
		return f, size + 8
	case wireBytes:
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return f, 0
		}
		f.content = rest[n : n+int(length)]
		return f, size + n + int(length)
	}
	return f, 0
}

func readStruct(raw []byte, depth int) (map[string]any, bool) {
	fields := map[string]any{}
	ok := depth > 0 && eachField(raw, func(f wireField) bool {
		return f.tag == tagEntry && readEntry(f.content, depth, fields)
	})
	return fields, ok
}

func readEntry(raw []byte, depth int, into map[string]any) bool {
	var key string
	var value any
	ok := eachField(raw, func(f wireField) (ok bool) {
		switch f.tag {
		case tagKey:
			key, ok = string(f.content), true
		case tagValue:
			value, ok = readValue(f.content, depth)
		}
		return ok
	})
	into[key] = value
	return ok
}

func readValue(raw []byte, depth int) (value any, ok bool) {
	ok = eachField(raw, func(f wireField) (ok bool) {
		switch f.tag {
		case tagNull:
			value, ok = nil, true
		case tagNumber:
			value, ok = math.Float64frombits(f.number), true
		case tagString:
			value, ok = string(f.content), true
		case tagBool:
			value, ok = f.number != 0, true
		case tagStruct:
			value, ok = readStruct(f.content, depth-1)
		case tagList:
			value, ok = readList(f.content, depth-1)
		}
		return ok
	})
	return value, ok
}

func readList(raw []byte, depth int) ([]any, bool) {
	values := []any{}
	ok := depth > 0 && eachField(raw, func(f wireField) bool {
		if f.tag != tagEntry {
			return false
		}
		value, ok := readValue(f.content, depth)
		values = append(values, value)
		return ok
	})
	return values, ok
}
