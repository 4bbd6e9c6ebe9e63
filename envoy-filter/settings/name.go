package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Values of the sources of one list are names of clients. A value of one source must not be the name of a
// client of another source. So each value gets the prefix of its source, except values of plain sources: the
// first of a list, and sources with names: PLAIN.
//
//	header.x-client:alice   cookie.session:alice   literal:anonymous
//
// Each prefix ends in the only colon that it has, so none begins another. A plain
// value that looks like a name with a prefix gets the prefix "plain:" (parse.c).

// nameFields are the fields that a source may have besides its kind, if its values become names.
var nameFields = []string{"names"}

// naming maps the setting to whether the values of a source have its prefix: true is QUALIFIED.
var naming = map[string]bool{"PLAIN": false, "QUALIFIED": true}

// readNaming sets the source's prefix: by m's "names", or else by its position in the list.
func readNaming(field string, m map[string]json.RawMessage, first bool, s *Source) error {
	qualified := !first
	if raw, ok := m["names"]; ok {
		at := join(field, "names")
		fields := map[string]json.RawMessage{at: raw}
		if err := choice(fields, at, "PLAIN or QUALIFIED", naming, &qualified); err != nil {
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
	name, named := s.name()
	if !named {
		return words[s.Kind] + ":"
	}
	if name = encoded(name); len(name) > longestPrefix {
		sum := sha256.Sum256([]byte(name))
		name = "=" + hex.EncodeToString(sum[:])
	}
	return words[s.Kind] + "." + name + ":"
}

// name distinguishes sources of one kind; false for kinds with one source only.
func (s *Source) name() (name string, named bool) {
	switch s.Kind {
	case Header, Cookie, Query, FilterState:
		return s.Text, true
	case Metadata:
		return s.Namespace + "/" + s.Text, true
	case SourceAddress:
		return s.Address.from(), true
	}
	return "", false
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

// encoded returns the name with all bytes percent-encoded, except "/" and bytes of tokens other than "%".
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
