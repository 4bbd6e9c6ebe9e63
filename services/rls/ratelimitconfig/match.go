package ratelimitconfig

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// wildcard in a value stands for any text.
const wildcard = "*"

// Entry is a part of a request's descriptor.
type Entry interface {
	GetKey() string
	GetValue() string
}

// Match is the limit of a descriptor.
type Match struct {
	*Limit // nil: the descriptor has none
	// Client identifies the requests that the limit counts together: requests with equal Clients. It is not text. A
	// node for one value may have several: an entry a_b finds a node of key a and value b.
	Client string
	// Metric is the name that the descriptor is counted by.
	Metric string
}

// HasDomain reports whether there is such a domain.
func (c *Config) HasDomain(domain string) bool { return c.domains[domain] != nil }

// Find returns the limit of a descriptor in a domain.
func Find[E Entry](c *Config, domain string, entries []E) Match {
	node := c.domains[domain]
	if node == nil || len(entries) == 0 {
		return Match{}
	}
	path := make([]*Node, 0, 8)
	for _, e := range entries {
		if node = node.child(e.GetKey(), e.GetValue()); node == nil {
			return Match{}
		}
		path = append(path, node)
	}
	l := node.Limit
	if l == nil {
		return Match{}
	}
	return Match{Limit: l, Client: client(path, entries), Metric: metric(l, path, entries)}
}

// child is the node that an entry leads to, nil if there is none.
func (n *Node) child(key, value string) *Node {
	if n.byName == nil {
		return nil
	}
	name := key + "_" + value
	if c := n.byName[name]; c != nil {
		return c
	}
	for _, c := range n.patterns {
		if fits(c.name(), name) {
			return c
		}
	}
	return n.byName[key]
}

// fits reports whether a text is as a pattern says.
func fits(pattern, text string) bool {
	first, rest, more := strings.Cut(pattern, wildcard)
	if !more {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	for ok {
		next, after, more := strings.Cut(rest, wildcard)
		if !more {
			return strings.HasSuffix(text, rest)
		}
		var at int
		if at = strings.Index(text, next); at < 0 {
			return false
		}
		text, rest = text[at+len(next):], after
	}
	return false
}

// Client returns the client of descriptors with such entries where no file says more.
func Client[E Entry](entries []E) string { return client(nil, entries) }

// longest is the longest text by which requests are counted together as it is, bytes. Of a longer one the hash is
// taken, so that it takes no more memory, and no more of a packet between agents.
const longest = 256

// client puts the entries together so that no two different lists give one text. Entries
// that the nodes of a path count together are equal.
func client[E Entry](path []*Node, entries []E) string {
	b := make([]byte, 0, 64)
	for i, e := range entries {
		value := e.GetValue()
		if path != nil && path[i].Share {
			value = strings.TrimPrefix(path[i].name(), e.GetKey()+"_") // a pattern a_b* also takes an entry a_b
		}
		b = binary.AppendUvarint(b, uint64(len(e.GetKey())+len(value)))
		b = append(append(b, e.GetKey()...), '_')
		b = append(b, value...)
	}
	if len(b) > longest {
		sum := sha256.Sum256(b)
		b = append(b[:0], "\x00#"...) // no list of entries begins so
		b = append(b, sum[:]...)
	}
	return string(b)
}

// metric is the name that a descriptor is counted by.
func metric[E Entry](l *Limit, path []*Node, entries []E) string {
	same := !l.Detailed
	for _, n := range path {
		same = same && !n.ValueToMetric
	}
	if same {
		return l.Path
	}
	var b strings.Builder
	b.WriteString(l.Domain)
	for i, e := range entries {
		b.WriteString("." + e.GetKey())
		n, value := path[i], ""
		switch exact := n.Value != "" && !n.IsPattern(); {
		case n.Share:
			value = n.Value
		case exact || l.Detailed || n.ValueToMetric:
			value = e.GetValue()
		default:
			value = n.Value
		}
		if value != "" {
			b.WriteString("_" + value)
		}
	}
	return b.String()
}
