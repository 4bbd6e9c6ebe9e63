// Package ratelimitconfig reads the configuration files of envoyproxy/ratelimit, and finds
// the limit of a descriptor as that service does.
//
// # Model
//
// A file belongs to a domain and has a tree of descriptors. A node of the tree has a key, a
// value or none, and perhaps a limit:
//
//	domain: shop
//	descriptors:
//	  - key: tenant                 any tenant: a counter for each
//	    rate_limit: {unit: minute, requests_per_unit: 600}
//	    descriptors:
//	      - key: path
//	        value: /search*         each path that begins so: a counter for each
//	        rate_limit: {unit: second, requests_per_unit: 5}
//	  - key: tenant
//	    value: acme                 this tenant only
//	    rate_limit: {unlimited: true}
//
// A request has descriptors: lists of entries, key and value. Each is matched separately, entry by entry from the root.
// Among the children of a node the first of these is taken:
//
//  1. the child with the entry's key and value,
//  2. the first child in the order of the file whose value has a *, which stands for any text,
//  3. the child with the entry's key and without a value.
//
// The last entry's node must have a limit, otherwise the descriptor has none: a node is not
// the limit of what is below it.
//
// What is counted together is the list of the entries' values. With share_threshold a
// value that a pattern has matched is replaced by the pattern.
//
// Scalars (scalar.go), anchors and merge keys (expand.go) follow YAML 1.1, as in envoyproxy/ratelimit.
//
// # Differences to envoyproxy/ratelimit
//
//   - All mistakes of a file are reported at once, each with file, line and field.
//   - What that service passes over in silence is refused: a field that stands twice or at the wrong place, a second
//     document. What it reads in another way than YAML says is refused, too.
//
// # Bounds
//
// A file has at most MaxBytes bytes and maxDepth levels of descriptors; its aliases
// stand for maxExpanded values. Match takes time in
// the number of entries, and of patterns among the siblings of each node that it passes.
package ratelimitconfig
