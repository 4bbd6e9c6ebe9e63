package ratelimitconfig

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// maxExpanded bounds the nodes of YAML that the aliases of a file stand for together: without a bound a file of a
// hundred lines stands for a million.
const maxExpanded = 100_000

// expand replaces the aliases in a tree by what they stand for, and the merge keys (<<) by the fields that they
// bring. What ratelimit reads in another way than the standard of YAML 1.1 is refused.
func (r *reader) expand(root *yaml.Node) {
	x := &expander{reader: r, sizes: map[*yaml.Node]int{}, left: maxExpanded}
	x.expand(root)
}

type expander struct {
	*reader
	sizes map[*yaml.Node]int // nodes of what has an anchor, once it is expanded
	left  int
}

// expand expands what is below a node, and returns how many nodes it has then.
func (x *expander) expand(n *yaml.Node) (size int) {
	size = 1
	for i, c := range n.Content {
		if c.Kind == yaml.AliasNode {
			n.Content[i] = x.standsFor(c)
			size += x.sizes[n.Content[i]]
		} else {
			size += x.expand(c)
		}
	}
	if n.Kind == yaml.MappingNode {
		x.merge(n)
	}
	if n.Anchor != "" {
		x.sizes[n] = size
	}
	return size
}

// standsFor returns the node that an alias stands for.
func (x *expander) standsFor(alias *yaml.Node) *yaml.Node {
	size, whole := x.sizes[alias.Alias]
	if x.left < 0 {
		return nothing(alias)
	}
	x.left -= size
	switch {
	case !whole:
		x.Wrong(alias.Line, "", "*%s stands within what it stands for", alias.Value)
	case x.left < 0:
		x.Wrong(alias.Line, "", "the aliases of the file stand for more than %d values together: write fewer of them",
			maxExpanded)
	default:
		return alias.Alias
	}
	return nothing(alias)
}

// nothing is a null in the place of a node.
func nothing(n *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
}

// merge puts the fields that the merge key of a mapping brings in its place.
func (x *expander) merge(n *yaml.Node) {
	at := -1
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i]; {
		case key.Tag != "!!merge":
		case at >= 0:
			x.Wrong(key.Line, "<<", "given twice; want one, with a list")
			n.Content = nil
			return
		default:
			at = i
		}
	}
	if at < 0 {
		return
	}
	before, after := n.Content[:at], n.Content[at+2:]
	var brought []*yaml.Node
	for _, from := range x.merged(n.Content[at+1]) {
		for i := 0; i+1 < len(from.Content); i += 2 {
			key, value := from.Content[i], from.Content[i+1]
			switch first := valueOf(brought, key); {
			case first != nil && mixed(first, value):
				x.Wrong(n.Content[at].Line, key.Value, "two mappings of << bring it, and ratelimit mixes the fields "+
					"of both: let one mapping bring it")
			case first == nil && x.takes(key, value, before, after):
				brought = append(brought, key, value)
			}
		}
	}
	n.Content = slices.Concat(before, brought, after)
}

// merged are the mappings that a merge key names.
func (x *expander) merged(value *yaml.Node) []*yaml.Node {
	all := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		all = value.Content
	}
	for _, from := range all {
		if from.Kind != yaml.MappingNode {
			x.Wrong(value.Line, "<<", "want a mapping, or a list of mappings")
			return nil
		}
	}
	return all
}

// takes reports whether a mapping takes a field that a merge key brings: not if it has the field already.
func (x *expander) takes(key, value *yaml.Node, before, after []*yaml.Node) bool {
	own := valueOf(after, key)
	switch {
	case valueOf(before, key) != nil:
		x.Wrong(valueOf(before, key).Line, key.Value, "stands before <<, which brings it, too, and wins in ratelimit: "+
			"put << first")
	case own == nil:
		return true
	case mixed(own, value):
		x.Wrong(own.Line, key.Value, "<< brings it, too, and ratelimit mixes the fields of both: write all of them "+
			"here")
	}
	return false
}

// mixed reports whether ratelimit mixes the fields of two values of one field.
func mixed(a, b *yaml.Node) bool {
	return a != b && a.Kind == yaml.MappingNode && b.Kind == yaml.MappingNode
}

// valueOf returns the value of the same field, nil if there is none.
func valueOf(fields []*yaml.Node, key *yaml.Node) *yaml.Node {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i].Value == key.Value {
			return fields[i+1]
		}
	}
	return nil
}
