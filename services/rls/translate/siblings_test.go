package translate

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

func read(t testing.TB, text string) *ratelimitconfig.Config {
	t.Helper()
	c := &ratelimitconfig.Config{}
	if err := c.Add("x.yaml", strings.NewReader(text), ratelimitconfig.Options{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// every compares a node with each of its siblings, as the definition of rivals says.
func every(domain *ratelimitconfig.Node, path []*ratelimitconfig.Node, except *ratelimitconfig.Node,
) (out []*ratelimitconfig.Limit) {
	var walk func(parent *ratelimitconfig.Node, before []*ratelimitconfig.Node, same bool)
	walk = func(parent *ratelimitconfig.Node, before []*ratelimitconfig.Node, same bool) {
		n, after := path[len(before)], false
		for _, c := range parent.Children {
			own := same && c == n
			after = after || own
			if c.Key != n.Key || !own && (!overlap(n, c) || same && !prefers(n, c, after)) {
				continue
			}
			switch below := append(slices.Clone(before), c); {
			case len(below) < len(path):
				walk(c, below, own)
			case !own && c != except && isLimit(below):
				out = append(out, c.Limit)
			}
		}
	}
	walk(domain, nil, true)
	return out
}

// somewhere writes random descriptors to a depth.
func somewhere(r *rand.Rand, b *strings.Builder, indent string, depth int) {
	used := map[string]bool{}
	for range 1 + r.IntN(6) {
		key := []string{"a", "b", "c*"}[r.IntN(3)]
		value := []string{"", "", "x", "y", "xy", "x*", "*y", "*"}[r.IntN(8)]
		if used[key+"_"+value] {
			continue
		}
		used[key+"_"+value] = true
		fmt.Fprintf(b, "%s- key: %s\n%s  value: %q\n", indent, key, indent, value)
		if r.IntN(4) > 0 {
			fmt.Fprintf(b, "%s  rate_limit: {unit: second, requests_per_unit: %d}\n", indent, r.IntN(3))
		}
		if depth > 0 && r.IntN(2) == 0 {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			somewhere(r, b, indent+"  ", depth-1)
		}
	}
}

// The rivals of a node are the same as if it were compared with each sibling.
func TestRivalsAreThoseOfEachSibling(t *testing.T) {
	found := 0
	for seed := range uint64(500) {
		var text strings.Builder
		text.WriteString("domain: d\ndescriptors:\n")
		somewhere(rand.New(rand.NewPCG(seed, 1)), &text, "  ", 2)
		domain, s := read(t, text.String()).Domains()[0], siblings{}
		var walk func(n *ratelimitconfig.Node, path []*ratelimitconfig.Node)
		walk = func(n *ratelimitconfig.Node, path []*ratelimitconfig.Node) {
			for _, c := range n.Children {
				below := append(slices.Clone(path), c)
				for _, except := range []*ratelimitconfig.Node{nil, s.anyValue(n, c)} {
					got, want := s.rivals(domain, below, except), every(domain, below, except)
					if found += len(want); !reflect.DeepEqual(got, want) {
						t.Fatalf("%s:%d: %d rivals, want %d, in\n%s", c.File, c.Line, len(got), len(want), &text)
					}
				}
				walk(c, below)
			}
		}
		walk(domain, nil)
	}
	if found < 1000 {
		t.Errorf("only %d rivals were compared", found)
	}
}

// values is a file in which a key has n values, two patterns and a limit of all values.
func values(n int) string {
	var b strings.Builder
	b.WriteString("domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 60}}\n" +
		"  - {key: user, value: a*, rate_limit: {unit: minute, requests_per_unit: 6}}\n" +
		"  - {key: user, value: b*, rate_limit: {unit: minute, requests_per_unit: 7}}\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {key: user, value: é%d, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: %d}}\n",
			i, i+1)
	}
	return b.String()
}

// looks counts the siblings with which nodes are compared.
func looks(t *testing.T, c *ratelimitconfig.Config) (n int) {
	t.Helper()
	tree := siblings{}
	translated(c, Options{}, tree)
	for _, keys := range tree {
		for _, k := range keys {
			n += k.looks
		}
	}
	return n
}

// Twice as many values take twice as many comparisons. They took four times as many: 13 s for 14,500 values.
func TestComparisonsAreLinear(t *testing.T) {
	one, two := looks(t, read(t, values(500))), looks(t, read(t, values(1000)))
	if one < 500 || two > 2*one {
		t.Errorf("%d comparisons for 500 values, %d for 1000", one, two)
	}
}

func BenchmarkResources(b *testing.B) {
	for _, n := range []int{1000, 2000, 4000, 8000, 14_500} {
		b.Run(fmt.Sprintf("values=%d", n), func(b *testing.B) {
			c := read(b, values(n))
			for b.Loop() {
				if r := Resources(c, Options{}); r.Limits != n+3 {
					b.Fatal(r.Limits)
				}
			}
		})
	}
}
