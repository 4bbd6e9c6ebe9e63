package translate

import (
	"cmp"
	"slices"

	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// siblings are the children of nodes by key. A node is compared with those of its siblings that can matter for it and
// not with all, of which there may be 100,000.
type siblings map[*ratelimitconfig.Node]map[string]*ofKey

// ofKey are the children of a node that have one key.
type ofKey struct {
	all, patterns []*ratelimitconfig.Node // in the order of the file
	byValue       map[string]*ratelimitconfig.Node
	bare          *ratelimitconfig.Node // the child without a value, nil if there is none
	place         map[*ratelimitconfig.Node]int
	looks         int // how many siblings candidates has returned, for a test
}

// of returns the children of a node that have a key.
func (s siblings) of(parent *ratelimitconfig.Node, key string) *ofKey {
	if s[parent] == nil {
		s[parent] = byKey(parent.Children)
	}
	if k := s[parent][key]; k != nil {
		return k
	}
	return &ofKey{}
}

func byKey(children []*ratelimitconfig.Node) map[string]*ofKey {
	out := map[string]*ofKey{}
	for _, c := range children {
		k := out[c.Key]
		if k == nil {
			k = &ofKey{byValue: map[string]*ratelimitconfig.Node{}, place: map[*ratelimitconfig.Node]int{}}
			out[c.Key] = k
		}
		k.place[c] = len(k.all)
		k.all = append(k.all, c)
		switch {
		case c.Value == "":
			k.bare = c
		case c.IsPattern():
			k.patterns = append(k.patterns, c)
		default:
			k.byValue[c.Value] = c
		}
	}
	return out
}

// candidates returns the children that a value of the node n may fit, in the order of the file. With same, n is one of
// the children, and only n and those are returned that ratelimit may take after n.
func (k *ofKey) candidates(n *ratelimitconfig.Node, same bool) []*ratelimitconfig.Node {
	isValue := n.Value != "" && !n.IsPattern()
	if !isValue && !same {
		k.looks += len(k.all)
		return k.all
	}
	found := slices.Clone(k.patterns)
	for _, c := range []*ratelimitconfig.Node{k.byValue[n.Value], k.bare} {
		if c != nil {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *ratelimitconfig.Node) int { return cmp.Compare(k.place[a], k.place[b]) })
	k.looks += len(found)
	return found
}

// isOverride reports whether a node only gives one value of a key other numbers than the key's limit has,
// or none, which is in the resources. No other key varies, and it differs in nothing else.
func (s siblings) isOverride(parent *ratelimitconfig.Node, path []*ratelimitconfig.Node) bool {
	n := path[len(path)-1]
	base := s.anyValue(parent, n)
	const longest = 256 // bytes of an override's client
	if base == nil || n.Value == "" || len(n.Value) > longest || n.IsPattern() || len(varying(path)) > 0 {
		return false
	}
	same := n.Limit == nil || n.Limit.Shadow == base.Limit.Shadow && n.Limit.Quota == base.Limit.Quota &&
		len(n.Limit.Replaces) == 0
	return same && isLimit(append(slices.Clone(path[:len(path)-1]), base))
}

// anyValue is the child with the key of a node that has a value, and with a limit for all
// values; nil if there is none.
func (s siblings) anyValue(parent, n *ratelimitconfig.Node) *ratelimitconfig.Node {
	if c := s.of(parent, n.Key).bare; c != nil && c != n && c.Limit != nil {
		return c
	}
	return nil
}
