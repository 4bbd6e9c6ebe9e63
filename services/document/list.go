package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/store/resource"
)

// Field is one value of a resource, and its path in the spec of its document.
type Field struct{ Path, Value string }

// Fields lists the values in the spec of a resource's document, such as queue.maxWait: 1s. A list of plain values is
// one value; of a list of mappings each mapping has its fields, named by its client where it has one.
func Fields(m resource.Message) []Field {
	spec := &yaml.Node{Kind: yaml.MappingNode}
	layOut(spec, m.ProtoReflect(), true)
	return flatten(nil, spec, "")
}

func flatten(out []Field, n *yaml.Node, path string) []Field {
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if path != "" {
				key = path + "." + key
			}
			out = flatten(out, n.Content[i+1], key)
		}
		return out
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		for i, item := range n.Content {
			out = flatten(out, item, path+"["+label(item, i)+"]")
		}
		return out
	case n.Kind == yaml.SequenceNode:
		values := make([]string, len(n.Content))
		for i, item := range n.Content {
			values[i] = item.Value
		}
		return append(out, Field{path, "[" + strings.Join(values, ", ") + "]"})
	}
	return append(out, Field{path, n.Value})
}

// label names a mapping in a list: by its client, or its place.
func label(item *yaml.Node, i int) string {
	if len(item.Content) > 1 && item.Content[0].Value == "client" {
		return item.Content[1].Value
	}
	return strconv.Itoa(i)
}
