package settings

import (
	"encoding/json"
	"math"
	"strings"
)

// Kind tells where a value is taken from.
type Kind uint8

// The kinds of source.
const (
	Header  Kind = iota // the first value of the request header named Text
	Literal             // Text itself, or Number for a cost
	Route               // the name of the matched route
)

// Source is one place to take a value from.
type Source struct {
	Kind Kind
	// Text is a lower-case header name, or the literal; "" for Route.
	Text string
	// Number is a literal cost in units, > 0; 0 otherwise.
	Number float64
}

// Filter is the configuration of one HTTP filter or of a per-route override.
// Empty lists are unset: the override's are filled from the filter's.
type Filter struct {
	// Tenant, Client and Pool name what a request belongs to. Without a client
	// all requests of a tenant are one client.
	Tenant, Client, Pool []Source
	// Cost in units; 1 if no source gives one. A header that is not a number
	// above 0 counts as absent.
	Cost []Source
	// Enabled is nil where it was not said.
	Enabled *bool
}

// On reports whether the filter acts; it does unless told otherwise.
func (f *Filter) On() bool { return f.Enabled == nil || *f.Enabled }

// ParseFilter reads the configuration of an HTTP filter, which must say where
// tenant and pool come from.
func ParseFilter(raw []byte) (*Filter, error) {
	f, err := ParseRoute(raw)
	if err != nil {
		return nil, err
	}
	if f.On() && len(f.Tenant) == 0 {
		return nil, wrong("tenant", `is missing; say where it comes from, e.g. {"header": "x-tenant"}`)
	}
	if f.On() && len(f.Pool) == 0 {
		return nil, wrong("pool", `is missing; say which upstream it is, e.g. {"literal": "api"}`)
	}
	return f, nil
}

// ParseRoute reads a per-route override, in which everything is optional.
func ParseRoute(raw []byte) (*Filter, error) {
	m, err := object("", raw, "tenant", "client", "pool", "cost", "enabled")
	if err != nil {
		return nil, err
	}
	f := &Filter{}
	for _, field := range []struct {
		name string
		to   *[]Source
		cost bool
	}{{"tenant", &f.Tenant, false}, {"client", &f.Client, false}, {"pool", &f.Pool, false}, {"cost", &f.Cost, true}} {
		if raw, ok := m[field.name]; ok {
			if *field.to, err = sources(field.name, raw, field.cost); err != nil {
				return nil, err
			}
		}
	}
	if _, ok := m["enabled"]; ok {
		f.Enabled = new(bool)
		err = value(m, "", "enabled", "true or false", f.Enabled)
	}
	return f, err
}

func sources(field string, raw []byte, cost bool) ([]Source, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		s, err := source(field, raw, cost)
		return []Source{s}, err
	}
	if len(list) == 0 {
		return nil, wrong(field, "is an empty list; name at least one source")
	}
	out := make([]Source, len(list))
	for i, raw := range list {
		var err error
		if out[i], err = source(index(field, i), raw, cost); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func source(field string, raw []byte, cost bool) (Source, error) {
	m, err := object(field, raw, "header", "literal", "route")
	if err != nil {
		return Source{}, err
	}
	if len(m) != 1 {
		return Source{}, wrong(field, "needs exactly one of header, literal, route; it has %d", len(m))
	}
	for kind := range m {
		switch kind {
		case "header":
			return headerSource(m, field)
		case "literal":
			return literalSource(m, field, cost)
		}
	}
	route := false
	if err := value(m, field, "route", "true", &route); err != nil {
		return Source{}, err
	}
	if cost || !route {
		return Source{}, wrong(join(field, "route"), "must be true, and cannot be a cost")
	}
	return Source{Kind: Route}, nil
}

func headerSource(m map[string]json.RawMessage, field string) (Source, error) {
	var name string
	if err := value(m, field, "header", "a header's name", &name); err != nil {
		return Source{}, err
	}
	if !headerName(name) {
		return Source{}, wrong(join(field, "header"), "is %q, which is not a header's name", name)
	}
	return Source{Kind: Header, Text: strings.ToLower(name)}, nil
}

func literalSource(m map[string]json.RawMessage, field string, cost bool) (Source, error) {
	s := Source{Kind: Literal}
	if cost {
		if err := value(m, field, "literal", "a number of cost units", &s.Number); err != nil {
			return s, err
		}
		if !(s.Number > 0) || math.IsInf(s.Number, 0) {
			return s, wrong(join(field, "literal"), "is %v, a number above 0 is needed", s.Number)
		}
		return s, nil
	}
	if err := value(m, field, "literal", "a string", &s.Text); err != nil {
		return s, err
	}
	if s.Text == "" {
		return s, wrong(join(field, "literal"), "is empty")
	}
	return s, nil
}

// headerName accepts the tokens of RFC 9110 and pseudo-headers such as
// ":authority".
func headerName(s string) bool {
	rest := strings.TrimPrefix(s, ":")
	if rest == "" || len(s) > 256 {
		return false
	}
	for _, c := range []byte(rest) {
		alphanumeric := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return true
}
