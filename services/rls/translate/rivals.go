package translate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// besides notes the limits that Titrate holds where ratelimit takes the limit of a path alone.
func (t *translator) besides(path []*ratelimitconfig.Node, others []*ratelimitconfig.Limit) {
	n, most := path[len(path)-1], 5
	if len(others) == 0 {
		return
	}
	var list []string
	for _, l := range others[:min(len(others), most)] {
		list = append(list, l.Path)
	}
	if len(others) > most {
		list = append(list, "others")
	}
	if text := strings.Join(list, ", "); n.Limit.Unlimited {
		t.note(LeftOut, n, "%s is unlimited, and the limit of %s applies to it: give that limit a class without it",
			n.Limit.Path, text)
	} else {
		t.note(Changed, n, "%s applies besides %s: ratelimit takes %[1]s alone, Titrate holds all of them",
			n.Limit.Path, text)
	}
}

// limited notes the limits that Titrate holds for what leads to a node without a limit, to which ratelimit applies
// none.
func (t *translator) limited(n *ratelimitconfig.Node, others []*ratelimitconfig.Limit) {
	for _, l := range others {
		text := fmt.Sprintf("%s applies to what is under %q at %s:%d, too, which has no limit: ratelimit applies none "+
			"to it; give %[1]s a class without it", l.Path, strings.TrimSuffix(n.Key+"="+n.Value, "="), n.File, n.Line)
		t.out.Notes = append(t.out.Notes, Note{Changed, l.File, l.Line, text})
	}
}

// rivals are the limits in the resources that may apply to a request for which ratelimit takes the limit of a path;
// that of the node except is left out.
func (s siblings) rivals(domain *ratelimitconfig.Node, path []*ratelimitconfig.Node, except *ratelimitconfig.Node,
) (out []*ratelimitconfig.Limit) {
	var walk func(parent *ratelimitconfig.Node, before []*ratelimitconfig.Node, same bool)
	walk = func(parent *ratelimitconfig.Node, before []*ratelimitconfig.Node, same bool) {
		n := path[len(before)]
		of := s.of(parent, n.Key)
		for _, c := range of.candidates(n, same) {
			own := same && c == n
			if !own && (!overlap(n, c) || same && !prefers(n, c, of.place[c] > of.place[n])) {
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

// isLimit reports whether the last node of a path limits something in the resources.
func isLimit(path []*ratelimitconfig.Node) bool {
	l := path[len(path)-1].Limit
	if l == nil || l.Unlimited || len(varying(path)) > 1 {
		return false
	}
	_, ok := rateOf(l)
	return ok
}

// prefers reports whether ratelimit takes n where a value fits its sibling, too. It takes a node of one value first,
// then the first pattern, then the node of all values. after: the sibling stands after n.
func prefers(n, sibling *ratelimitconfig.Node, after bool) bool {
	rank := func(n *ratelimitconfig.Node) int {
		switch {
		case n.IsPattern():
			return 1
		case n.Value == "":
			return 2
		}
		return 0
	}
	a, b := rank(n), rank(sibling)
	return a < b || a == b && after
}

// overlap reports whether a value fits two nodes of one key.
func overlap(a, b *ratelimitconfig.Node) bool {
	return a.Value == "" || b.Value == "" || meet(a.Value, b.Value)
}

// meet reports whether some text fits two patterns, in which * stands for any text.
func meet(a, b string) bool {
	if !strings.Contains(a, "*") && !strings.Contains(b, "*") {
		return a == b
	}
	// fits[j] says whether a[i:] meets b[j:], for one i after the other, from the end.
	fits, last := make([]bool, len(b)+1), make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		fits, last = last, fits
		for j := len(b); j >= 0; j-- {
			switch inA, inB := i < len(a), j < len(b); {
			case !inA && !inB:
				fits[j] = true
			case isStar(a, i) || isStar(b, j): // it takes nothing, or what the other begins with
				fits[j] = inA && last[j] || inB && fits[j+1]
			default:
				fits[j] = inA && inB && a[i] == b[j] && last[j+1]
			}
		}
	}
	return fits[0]
}

func isStar(text string, at int) bool { return at < len(text) && text[at] == '*' }
