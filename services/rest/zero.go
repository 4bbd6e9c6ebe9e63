package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	api "github.com/titrate/titrate/services/store/resource"
)

// mayBeZero finds what may be such a number.
var mayBeZero = regexp.MustCompile(`"(burst|weight)"\s*:\s*"?-?0`)

// givenZeros refuses a number that is given as 0 where 0 would become another default. A message does not
// keep that a 0 was given, so the text of the body is asked. into is what it was read into.
func givenZeros(text []byte, into any) error {
	if !mayBeZero.Match(text) { // nearly always: no second copy of the body
		return nil
	}
	m, ok := into.(proto.Message)
	if !ok { // a field of a request
		if m, ok = reflect.ValueOf(into).Elem().Interface().(proto.Message); !ok {
			return nil
		}
	}
	var body any
	if err := json.Unmarshal(text, &body); err != nil {
		return err
	}
	return zerosIn(body, m.ProtoReflect().Descriptor(), "")
}

// isZero reports whether a JSON value is 0, as a number or, as protobuf allows it, as a text.
func isZero(v any) bool {
	if text, ok := v.(string); ok {
		n, err := strconv.ParseFloat(text, 64)
		return err == nil && n == 0
	}
	return v == 0.
}

func zerosIn(v any, d protoreflect.MessageDescriptor, path string) error {
	object, _ := v.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		field := d.Fields().ByJSONName(key)
		if field == nil {
			field = d.Fields().ByName(protoreflect.Name(key))
		}
		if field == nil {
			continue // read by another rule, as in a well-known type
		}
		if wrong := api.GivenZero(field); wrong != "" && isZero(object[key]) {
			return fmt.Errorf("body: %s%s: 0 %s", path, key, wrong)
		}
		if field.Message() == nil || field.IsMap() {
			continue
		}
		list, ok := object[key].([]any)
		if !ok {
			list = []any{object[key]}
		}
		for i, item := range list {
			at := path + key
			if ok {
				at = fmt.Sprintf("%s[%d]", at, i)
			}
			if err := zerosIn(item, field.Message(), at+"."); err != nil {
				return err
			}
		}
	}
	return nil
}
