package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Values of the sources of one list are names of clients, and a value of one
// source must not be the name of a client that another source knows. So each
// value has a source's prefix in front of it, but for the values of plain sources:
// the first of a list, and those that are said to have the same names.
//
//	header.x-client:alice   cookie.session:alice   literal:anonymous
//
// Each prefix ends in the only colon that it has, so none begins another. A plain
// value that looks like a name with a prefix gets the prefix "plain:" (text.c).

// nameFields is what a source may have beside its kind, where values become names.
var nameFields = []string{"names"}

// naming is whether the values of a source have its prefix: true is QUALIFIED.
var naming = map[string]bool{"PLAIN": false, "QUALIFIED": true}

// readNaming sets the source's prefix, by what m says and otherwise by its place in
// the list.
func readNaming(field string, m map[string]json.RawMessage, first bool, s *Source) error {
	qualified := !first
	if raw, ok := m["names"]; ok {
		at := join(field, "names")
		if err := choice(map[string]json.RawMessage{at: raw}, at, "PLAIN or QUALIFIED", naming, &qualified); err != nil {
			return err
		}
	}
	if qualified {
		s.Prefix = s.prefix()
	}
	return nil
}

// longestPrefix is the most bytes of a source's name that appear in its prefix.
const longestPrefix = 128

func (s *Source) prefix() string {
	of := func(kind, name string) string {
		if name = encoded(name); len(name) > longestPrefix {
			sum := sha256.Sum256([]byte(name))
			name = "=" + hex.EncodeToString(sum[:])
		}
		return kind + "." + name + ":"
	}
	switch s.Kind {
	case Header:
		return of("header", s.Text)
	case Cookie:
		return of("cookie", s.Text)
	case Query:
		return of("query", s.Text)
	case Metadata:
		return of("metadata", s.Namespace+"/"+s.Text)
	case FilterState:
		return of("filter_state", s.Text)
	case Subject:
		return "mtls.subject:"
	case URISAN:
		return "mtls.uri_san:"
	case DNSSAN:
		return "mtls.dns_san:"
	case Digest:
		return "mtls.sha256:"
	case SourceAddress:
		return of("source_address", s.Address.from())
	case Route:
		return "route:"
	case VirtualHost:
		return "virtual_host:"
	case Cluster:
		return "cluster:"
	case Literal:
		return "literal:"
	}
	panic(fmt.Sprintf("source of unknown kind %d", s.Kind))
}

func (a *Address) from() string {
	switch {
	case a.Envoys:
		return "envoy"
	case a.TrustedHops > 0:
		return fmt.Sprintf("hops-%d", a.TrustedHops)
	}
	return "peer"
}

// encoded is the name in the bytes of tokens and "/", all others in percent-encoding.
func encoded(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c != '%' && (c == '/' || token(string(c))) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
