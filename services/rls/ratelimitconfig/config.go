package ratelimitconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
)

// Unit is the time in which a limit allows its requests. The numbers equal
// envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit.
type Unit uint8

// The units.
const (
	NoUnit Unit = iota
	Second
	Minute
	Hour
	Day
	Month // 30 days
	Year  // 365 days
	Week
)

const day = 24 * time.Hour

var units = [...]struct {
	name   string
	length time.Duration
}{
	Second: {"second", time.Second}, Minute: {"minute", time.Minute}, Hour: {"hour", time.Hour}, Day: {"day", day},
	Month: {"month", 30 * day}, Year: {"year", 365 * day}, Week: {"week", 7 * day},
}

// Units are all units that a limit may have.
func Units() []Unit { return []Unit{Second, Minute, Hour, Day, Week, Month, Year} }

// String is the unit as files write it, "" for NoUnit.
func (u Unit) String() string {
	if int(u) < len(units) {
		return units[u].name
	}
	return fmt.Sprintf("unit %d", u)
}

// Length returns the length of the unit; 0 for an unknown unit.
func (u Unit) Length() time.Duration {
	if int(u) < len(units) {
		return units[u].length
	}
	return 0
}

// Limit is the limit of a node.
type Limit struct {
	Domain string
	// Path names the node: the keys and values from the domain to it, as metrics spell it,
	// such as shop.tenant.path_/search*.
	Path string
	// ID is the domain and the names of the nodes, quoted: of each limit another one.
	ID string
	// Requests per Unit. 0 refuses all.
	Requests  uint32
	Unit      Unit
	Unlimited bool     // then there are no Requests
	Name      string   // by which others replace it; "" if it has none
	Replaces  []string // names of limits that do not count where this one does
	Shadow    bool     // refuses nothing
	Quota     bool     // refuses nothing alone: a request is refused if all its limits with Quota are exceeded
	// Detailed: each value that requests have has its own metrics.
	Detailed bool
	// Metadata is for the responses to requests that the limit lets pass; nil: none.
	Metadata *structpb.Struct
	// File and Line are where the limit's descriptor stands.
	File string
	Line int
}

// Node is a descriptor of a configuration, or a domain.
type Node struct {
	Key, Value    string // Value "": any value
	Limit         *Limit // nil: it has none
	Share         bool   // values that match count together
	ValueToMetric bool
	Children      []*Node // in the order of the file
	File          string
	Line          int

	byName   map[string]*Node // Children by name
	patterns []*Node          // those of Children with a *
}

// name is key, or key_value: what a child is looked up by.
func (n *Node) name() string {
	if n.Value == "" {
		return n.Key
	}
	return n.Key + "_" + n.Value
}

// IsPattern reports whether the node is for all values that fit a pattern.
func (n *Node) IsPattern() bool { return strings.Contains(n.name(), wildcard) }

// add makes a node a child; false if there is one of that name.
func (n *Node) add(child *Node) bool {
	if n.byName == nil {
		n.byName = map[string]*Node{}
	}
	if n.byName[child.name()] != nil {
		return false
	}
	n.byName[child.name()] = child
	n.Children = append(n.Children, child)
	if child.IsPattern() {
		n.patterns = append(n.patterns, child)
	}
	return true
}

// Config is the content of a set of files. It does not change. The zero value has no domain.
type Config struct {
	domains map[string]*Node
}

// Domains returns the domains by name.
func (c *Config) Domains() []*Node {
	var out []*Node
	for _, name := range slices.Sorted(maps.Keys(c.domains)) {
		out = append(out, c.domains[name])
	}
	return out
}

// Limits returns all limits, by domain and in the order of the files.
func (c *Config) Limits() []*Limit {
	var out []*Limit
	var walk func(n *Node)
	walk = func(n *Node) {
		if n.Limit != nil {
			out = append(out, n.Limit)
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	for _, d := range c.Domains() {
		walk(d)
	}
	return out
}
