// Package tree takes YAML and JSON from people apart, and says what is wrong with it and where. The documents that
// people write go through it: resources (package document), demands (package solve), scenarios (package simulate/read).
//
// # Model
//
// A [Reader] is given a file's name and asked for one value after the other:
//
//	r := tree.New("problem.yaml")
//	for _, n := range r.Roots(data) {
//		f := r.Fields(n, "", "name", "capacity")
//		capacity := r.Number(f["capacity"], "capacity", 1, tree.Span{Least: 0, Most: 1e9})
//	}
//	return r.Err()
//
// A value that is wrong is noted and read as its fallback, so that one pass finds
// all mistakes. An absent field is a nil node, null counts as absent.
//
// # Strictness
//
// What is not understood is refused, never passed over. That is unknown fields, fields given twice, a number where text
// belongs, NaN, infinities, numbers in other bases. Anchors and aliases are refused, too: a file of a hundred lines
// must not stand for a million.
//
// # Invariants
//
//   - Every mistake is an *[Error] with file, line and field; at most [MostErrors]
//     of them, and one more that counts the rest.
//   - No input makes a Reader panic. Time and memory are linear in the input, which
//     is bounded.
package tree
