// Package tree takes YAML and JSON from people apart, and says what is wrong with
// it and where. All that Titrate reads from files goes through it: documents
// (package document), problems (package solve), scenarios (package scenario).
//
// # Model
//
// A [Reader] is given a file's name and asked for one value after the other:
//
//	r := tree.New("problem.yaml")
//	if n := r.Root(in, tree.Input{MaxBytes: 1 << 20, Want: "a problem with pools", First: "pools"}); n != nil {
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
// What is not understood is refused, never passed over: unknown fields, fields
// given twice, a number where text belongs, two documents where one is wanted,
// NaN, infinities, numbers in other bases, anchors and aliases (a file of a hundred
// lines must not stand for a million).
//
// # Invariants
//
//   - Every mistake is an *[Error] with file, line and field; at most [MostErrors]
//     of them and one that counts the rest.
//   - No input makes a Reader panic. Time and memory are linear in the input, which
//     is bounded.
package tree
