package ratelimitconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/titrate/titrate/services/document/tree"
)

// The words that YAML 1.1 has for true and false, which ratelimit reads.
var (
	truths    = []string{"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"}
	falsehood = []string{"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"}
)

const (
	// maxMetadata bounds the metadata of a limit, bytes, and maxMetadataDepth its nesting. Each response may have
	// it, and Envoy does not read a message that is nested deeper than 100 levels, three for each of these.
	maxMetadata, maxMetadataDepth = 16 << 10, 16
)

// isPlain reports whether a scalar stands without quotes and without a tag.
func isPlain(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style == 0 }

// isTruth reports whether a node is a truth value.
func isTruth(n *yaml.Node) bool {
	return isPlain(n) && (slices.Contains(truths, n.Value) || slices.Contains(falsehood, n.Value))
}

// flag reads a truth value; absent, it is false.
func (r *reader) flag(n *yaml.Node, field string) bool {
	switch {
	case n == nil:
		return false
	case isTruth(n):
		return slices.Contains(truths, n.Value)
	}
	r.Wrong(n.Line, field, "want true or false, found %s", tree.What(n))
	return false
}

// requests reads a whole number of 32 bits.
func (r *reader) requests(n *yaml.Node, field string) uint32 {
	if n == nil {
		return 0
	}
	v, ok := whole(n)
	if !ok || v < 0 || v > math.MaxUint32 {
		r.Wrong(n.Line, field, "want a whole number from 0 to 4294967295, without quotes, found %s", tree.What(n))
		return 0
	}
	return uint32(v)
}

// whole reads a whole number as ratelimit does: with _ between digits, and to the base 16 after 0x, 8 after 0 and
// 0o, 2 after 0b.
func whole(n *yaml.Node) (int64, bool) {
	if !isPlain(n) || n.Value == "" || !strings.Contains("+-0123456789", n.Value[:1]) {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
	return v, err == nil
}

// word reads a text. A number or a truth value is its spelling, as in value: 404.
func (r *reader) word(n *yaml.Node, field string) string {
	switch {
	case n == nil:
		return ""
	case n.Kind != yaml.ScalarNode:
		r.Wrong(n.Line, field, "want text, found %s", tree.What(n))
		return ""
	case n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str":
		r.Wrong(n.Line, field, "the tag %s is not read: write the text without it", n.Tag)
		return ""
	}
	return n.Value
}

// metadata reads any mapping, nil if there is none.
func (r *reader) metadata(n *yaml.Node, field string) *structpb.Struct {
	if n == nil {
		return nil
	}
	before := r.Mistakes()
	fields := r.mapping(n, field, maxMetadataDepth)
	if size := proto.Size(fields); size > maxMetadata && r.Mistakes() == before {
		r.Wrong(n.Line, field, "want at most %d bytes, which each response may have, found %d", maxMetadata, size)
	}
	if r.Mistakes() > before || len(fields.GetFields()) == 0 {
		return nil
	}
	return fields
}

func (r *reader) mapping(n *yaml.Node, field string, depth int) *structpb.Struct {
	out := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for _, e := range r.Entries(n, field) {
		name := e.Key.Value
		if (!tree.IsText(e.Key) || isTruth(e.Key)) && depth < maxMetadataDepth {
			// Below the top ratelimit takes 010 for 8, and n for false.
			r.Wrong(e.Key.Line, field, "want text as a field's name, in quotes if it looks like anything else, "+
				"found %s", name)
			continue
		}
		out.Fields[name] = r.value(e.Value, tree.Join(field, name), depth-1)
	}
	return out
}

// value reads a value of the metadata.
func (r *reader) value(n *yaml.Node, field string, depth int) *structpb.Value {
	switch {
	case depth < 0:
		r.Wrong(n.Line, field, "want at most %d levels of metadata", maxMetadataDepth)
	case n.Kind == yaml.MappingNode:
		return structpb.NewStructValue(r.mapping(n, field, depth))
	case n.Kind == yaml.SequenceNode:
		list := &structpb.ListValue{}
		for i, item := range n.Content {
			list.Values = append(list.Values, r.value(item, fmt.Sprintf("%s[%d]", field, i), depth-1))
		}
		return structpb.NewListValue(list)
	case tree.IsNull(n):
		return structpb.NewNullValue()
	case isTruth(n):
		return structpb.NewBoolValue(slices.Contains(truths, n.Value))
	default:
		return r.numberOrText(n, field)
	}
	return structpb.NewNullValue()
}

func (r *reader) numberOrText(n *yaml.Node, field string) *structpb.Value {
	if v, ok := whole(n); ok {
		return structpb.NewNumberValue(float64(v))
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	switch {
	case isPlain(n) && n.ShortTag() == "!!float" && err == nil && !math.IsInf(v, 0) && !math.IsNaN(v):
		return structpb.NewNumberValue(v)
	case tree.IsText(n):
		return structpb.NewStringValue(n.Value)
	}
	r.Wrong(n.Line, field, "want text, a finite number, true or false; text in quotes if it looks like anything else, "+
		"found %s", n.Value)
	return structpb.NewNullValue()
}

// scalarAt returns the scalar that a mapping has at a key, "" if it has none.
func scalarAt(n *yaml.Node, key string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i+1].Kind == yaml.ScalarNode {
			return n.Content[i+1].Value
		}
	}
	return ""
}
