package settings

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/titrate/titrate/control/limiter"
)

// Identity is a property of requests that limits can count by, instead of the client.
type Identity struct {
	Name    string
	Sources []Source
}

// Class is a kind of requests that limits may apply to. A request is in the class if one
// of the matches holds.
type Class struct {
	Name    string
	Matches []Match
}

// Match holds if all of its parts that are set hold.
type Match struct {
	// Methods of which the request has one.
	Methods []string
	// The request's path, without query and fragment, is one of Paths or begins with
	// one of PathPrefixes.
	Paths, PathPrefixes []string
	Headers             []HeaderMatch
}

// How is the way in which a header's value is compared.
type How uint8

// The comparisons.
const (
	Present  How = iota // any value
	Exact               // it is Text
	Prefix              // it begins with Text
	Suffix              // it ends with Text
	Contains            // Text occurs in it
)

var comparisons = map[string]How{"exact": Exact, "prefix": Prefix, "suffix": Suffix, "contains": Contains}

// HeaderMatch holds if one of the header's values compares; with Invert, if none does.
type HeaderMatch struct {
	Name   string // in lower case
	How    How
	Text   string
	Invert bool
}

// Bounds of classes.
const (
	maxMatches = 16  // of a class
	maxParts   = 32  // methods, paths or headers of a match
	maxText    = 512 // bytes of a path or header value to compare with
)

// resourceName is the form of names of identities and classes in the quota API.
var resourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

func checkName(field, name string) error {
	if !resourceName.MatchString(name) {
		return wrong(field, "is named %s; a name has 1 to 63 of a-z, 0-9, '.', '_', '-', "+
			"and begins and ends with a letter or digit", brief([]byte(name)))
	}
	return nil
}

// identities reads an object of sources by name.
func identities(field string, raw []byte) ([]Identity, error) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || len(m) == 0 {
		return nil, wrong(field, "is %s, an object of sources by name is needed", brief(raw))
	}
	if len(m) > limiter.MaxIdentities {
		return nil, wrong(field, "has %d names, at most %d are allowed", len(m), limiter.MaxIdentities)
	}
	var out []Identity
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := join(field, name)
		if err := checkName(at, name); err != nil {
			return nil, err
		}
		list, err := sources(at, m[name], client)
		if err != nil {
			return nil, err
		}
		out = append(out, Identity{name, list})
	}
	return out, nil
}

// classes reads a list of {name, match}.
func classes(field string, raw []byte) ([]Class, error) {
	list, err := elements(field, raw, limiter.MaxClasses)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var out []Class
	for i, raw := range list {
		at := index(field, i)
		m, err := object(at, raw, "name", "match")
		if err != nil {
			return nil, err
		}
		c := Class{}
		if err := value(m, at, "name", "a name", &c.Name); err != nil {
			return nil, err
		}
		if err := checkName(join(at, "name"), c.Name); err != nil {
			return nil, err
		}
		if seen[c.Name] {
			const text = "is %q, which an earlier class has; give one class several matches"
			return nil, wrong(join(at, "name"), text, c.Name)
		}
		seen[c.Name] = true
		if c.Matches, err = matches(join(at, "match"), m["match"]); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// elements reads a list that has something in it.
func elements(field string, raw []byte, most int) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > most {
		return nil, wrong(field, "is %s, a list of 1 to %d is needed", brief(raw), most)
	}
	return list, nil
}

// matches reads one match or a list of matches.
func matches(field string, raw []byte) ([]Match, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || raw == nil {
		m, err := match(field, raw)
		return []Match{m}, err
	}
	if _, err := elements(field, raw, maxMatches); err != nil {
		return nil, err
	}
	out := make([]Match, len(list))
	for i, raw := range list {
		var err error
		if out[i], err = match(index(field, i), raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func match(field string, raw []byte) (out Match, err error) {
	m, err := object(field, raw, "methods", "path", "path_prefix", "headers")
	if err != nil {
		return out, err
	}
	if len(m) == 0 {
		return out, wrong(field, "is empty; a class of all requests is what a limit without classes is for")
	}
	if raw, ok := m["methods"]; ok {
		if out.Methods, err = texts(join(field, "methods"), raw, "a method such as GET", token); err != nil {
			return out, err
		}
	}
	for _, p := range []struct {
		name string
		to   *[]string
	}{{"path", &out.Paths}, {"path_prefix", &out.PathPrefixes}} {
		if raw, ok := m[p.name]; ok {
			if *p.to, err = texts(join(field, p.name), raw, "a path that begins with /", pathText); err != nil {
				return out, err
			}
		}
	}
	if raw, ok := m["headers"]; ok {
		out.Headers, err = headers(join(field, "headers"), raw)
	}
	return out, err
}

func pathText(s string) bool { return s != "" && s[0] == '/' }

// texts reads a string or a list of strings.
func texts(field string, raw []byte, what string, valid func(string) bool) ([]string, error) {
	list := []json.RawMessage{raw}
	fields := func(int) string { return field }
	if json.Unmarshal(raw, new([]json.RawMessage)) == nil {
		var err error
		if list, err = elements(field, raw, maxParts); err != nil {
			return nil, err
		}
		fields = func(i int) string { return index(field, i) }
	}
	out := make([]string, len(list))
	for i, raw := range list {
		if err := scalar(fields(i), raw, what, &out[i]); err != nil {
			return nil, err
		}
		if len(out[i]) > maxText || !valid(out[i]) {
			const text = "is %s, %s of at most %d bytes is needed"
			return nil, wrong(fields(i), text, brief([]byte(out[i])), what, maxText)
		}
	}
	return out, nil
}

func headers(field string, raw []byte) ([]HeaderMatch, error) {
	list, err := elements(field, raw, maxParts)
	if err != nil {
		return nil, err
	}
	out := make([]HeaderMatch, len(list))
	for i, raw := range list {
		if out[i], err = header(index(field, i), raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func header(field string, raw []byte) (h HeaderMatch, err error) {
	m, err := object(field, raw, "name", "present", "exact", "prefix", "suffix", "contains", "invert")
	if err != nil {
		return h, err
	}
	s := Source{}
	if err := readHeader(join(field, "name"), orNull(m["name"]), &s); err != nil {
		return h, err
	}
	h.Name = s.Text
	if err := value(m, field, "invert", "true or false", &h.Invert); err != nil {
		return h, err
	}
	delete(m, "name")
	delete(m, "invert")
	if len(m) != 1 {
		return h, wrong(field, "needs exactly one of present, exact, prefix, suffix, contains; it has %d", len(m))
	}
	for how, raw := range m {
		at := join(field, how)
		if how == "present" {
			return h, flag(0)(at, raw, &s)
		}
		h.How = comparisons[how]
		if err := scalar(at, raw, "a string", &h.Text); err != nil {
			return h, err
		}
		if len(h.Text) > maxText || h.Text == "" && h.How != Exact {
			return h, wrong(at, "is %s, 1 to %d bytes are needed", brief([]byte(h.Text)), maxText)
		}
	}
	return h, nil
}

// orNull returns null for a missing value, so that errors can show it.
func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}
