package settings

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// Kind is the place that a value is taken from.
type Kind uint8

// The kinds of source.
const (
	Header        Kind = iota // the first value of the request header named Text
	Literal                   // Text itself, or Number for a cost
	Route                     // the name of the matched route
	VirtualHost               // the name of the matched virtual host
	Cluster                   // the name of the cluster that the route leads to
	Cookie                    // the first cookie named Text
	Query                     // the first query parameter named Text, decoded
	Metadata                  // the string at Text in the dynamic metadata of Namespace
	FilterState               // the filter state named Text
	Subject                   // of the client's certificate
	URISAN                    // its first one
	DNSSAN                    // its first one
	Digest                    // SHA-256 of the certificate, in hex
	SourceAddress             // selected by Address
	Kinds                     // how many kinds there are
)

// words are the kinds in the settings, and in front of names of clients (name.go). After a
// dot follows the value of mtls.
var words = [Kinds]string{
	Header: "header", Literal: "literal", Route: "route", VirtualHost: "virtual_host", Cluster: "cluster",
	Cookie: "cookie", Query: "query", Metadata: "metadata", FilterState: "filter_state",
	Subject: "mtls.subject", URISAN: "mtls.uri_san", DNSSAN: "mtls.dns_san", Digest: "mtls.sha256",
	SourceAddress: "source_address",
}

// Words returns the words that prefixes of names begin with, up to a dot or their colon.
func Words() []string { return slices.Clone(kindNames) }

// Source is one place to take a value from.
type Source struct {
	Kind Kind
	// Text is a name (of a header in lower case), a key, or the literal; "" for
	// the kinds that need none.
	Text string
	// Namespace of Metadata.
	Namespace string
	// Number is a literal cost in units, > 0; 0 otherwise.
	Number float64
	// Address of SourceAddress.
	Address Address
	// Prefix precedes each value in the name of a client; "" for a plain source, and
	// where values are no names of clients.
	Prefix string
}

// Address selects the address of a client, and the part of the address that counts.
type Address struct {
	// Envoys takes the address that Envoy has determined, by use_remote_address,
	// xff_num_trusted_hops or the PROXY protocol. Otherwise it is the address of the
	// connection's other end, which a client cannot choose freely.
	Envoys bool
	// TrustedHops is the number of entries at the right end of X-Forwarded-For, as the filter sees the header,
	// that were written by trusted proxies. The leftmost of these entries is the client. 0: the header is
	// ignored.
	TrustedHops int
	// IPv4Prefix and IPv6Prefix are the number of leading bits that distinguish clients.
	IPv4Prefix, IPv6Prefix int
}

// Defaults and bounds of sources.
const (
	DefaultIPv4Prefix = 32
	// DefaultIPv6Prefix is the network that one subscriber commonly has. The subscriber can choose the other 64
	// bits, so these bits do not distinguish clients.
	DefaultIPv6Prefix = 64
	maxTrustedHops    = 32
	maxName           = 256 // bytes of a cookie's, parameter's, … name
)

// reader reads the value of one kind of source.
type reader func(field string, raw json.RawMessage, s *Source) error

// readers read the value of each kind, in the order in which errors name the kinds.
var readers = []struct {
	kind string
	read reader
}{
	{"header", readHeader},
	{"cookie", nameOf(Cookie, "a cookie's name", token)},
	{"query", nameOf(Query, "a parameter's name", anyText)},
	{"metadata", readMetadata},
	{"filter_state", nameOf(FilterState, "a filter state's name", anyText)},
	{"mtls", readCertificate},
	{"source_address", readAddress},
	{"route", flag(Route)},
	{"virtual_host", flag(VirtualHost)},
	{"cluster", flag(Cluster)},
	{"literal", readLiteral},
}

var kindNames = func() (names []string) {
	for _, r := range readers {
		names = append(names, r.kind)
	}
	return names
}()

var costNames = []string{"header", "literal"}

// trustedNames are the kinds of sources that a client cannot choose, and a header, which it can: see readTrust.
var trustedNames = []string{"header", "metadata", "filter_state", "mtls", "route", "virtual_host", "cluster", "literal"}

// trustFields are the fields of a source of numbers besides its kind.
var trustFields = []string{"trusted"}

// use is the purpose of sources' values.
type use uint8

const (
	resource use = iota // names of tenants or pools
	client              // names of clients
	cost                // numbers
	numbers             // what the numbers of limits depend on: names of plans, rates
)

func sources(field string, raw []byte, of use) ([]Source, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		s, err := source(field, raw, of, true)
		return []Source{s}, err
	}
	if len(list) == 0 {
		return nil, wrong(field, "is an empty list; name at least one source")
	}
	out := make([]Source, len(list))
	for i, raw := range list {
		var err error
		if out[i], err = source(index(field, i), raw, of, i == 0); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func source(field string, raw []byte, of use, first bool) (s Source, err error) {
	known, more := kindNames, []string(nil)
	switch of {
	case cost:
		known = costNames
	case numbers:
		known, more = trustedNames, trustFields
	case client:
		more = nameFields
	}
	fields := append(slices.Clip(known), more...)
	m, err := object(field, raw, fields...)
	if err != nil {
		return s, err
	}
	if err := readKind(field, m, known, of, &s); err != nil {
		return s, err
	}
	switch of {
	case client:
		err = readNaming(field, m, first, &s)
	case numbers:
		err = readTrust(field, m, &s)
	}
	return s, err
}

// readTrust refuses numbers from a header, unless the operator says that no client can set it.
func readTrust(field string, m map[string]json.RawMessage, s *Source) error {
	trusted := false
	if raw, ok := m["trusted"]; ok {
		if err := scalar(join(field, "trusted"), raw, "true or false", &trusted); err != nil {
			return err
		}
	}
	if s.Kind == Header && !trusted {
		return wrong(join(field, "header"), "is %q, which a client can send to have other numbers. If a filter before "+
			"this one always sets or removes it, write trusted: true; else take filter_state or metadata", s.Text)
	}
	return nil
}

// readKind reads the one kind of source that m must have.
func readKind(field string, m map[string]json.RawMessage, known []string, of use, s *Source) error {
	var kind string
	var read reader
	n := 0
	for _, r := range readers {
		if _, ok := m[r.kind]; ok && slices.Contains(known, r.kind) {
			kind, read = r.kind, r.read
			n++
		}
	}
	if n != 1 {
		return wrong(field, "needs exactly one of %s; it has %d", strings.Join(known, ", "), n)
	}
	if of == cost && kind == "literal" {
		return literalCost(join(field, kind), m[kind], s)
	}
	return read(join(field, kind), m[kind], s)
}

// scalar reads one value.
func scalar[T any](field string, raw json.RawMessage, want string, v *T) error {
	return value(map[string]json.RawMessage{field: raw}, "", field, want, v)
}

func readHeader(field string, raw json.RawMessage, s *Source) error {
	if err := scalar(field, raw, "a header's name", &s.Text); err != nil {
		return err
	}
	if !headerName(s.Text) {
		return wrong(field, "is %q, which is not a header's name", s.Text)
	}
	s.Kind, s.Text = Header, strings.ToLower(s.Text)
	if s.Text == "host" { // which Envoy keeps as HTTP/2 does
		s.Text = ":authority"
	}
	return nil
}

func readLiteral(field string, raw json.RawMessage, s *Source) error {
	s.Kind = Literal
	if err := scalar(field, raw, "a string", &s.Text); err != nil {
		return err
	}
	if s.Text == "" {
		return wrong(field, "is empty")
	}
	return nil
}

func literalCost(field string, raw json.RawMessage, s *Source) error {
	s.Kind = Literal
	if err := scalar(field, raw, "a number of cost units", &s.Number); err != nil {
		return err
	}
	if !(s.Number > 0) || math.IsInf(s.Number, 0) {
		return wrong(field, "is %v, a number above 0 is needed", s.Number)
	}
	return nil
}

// flag reads a kind whose only value is true.
func flag(kind Kind) reader {
	return func(field string, raw json.RawMessage, s *Source) error {
		on := false
		if err := scalar(field, raw, "true", &on); err != nil {
			return err
		}
		if !on {
			return wrong(field, "must be true, or be left out")
		}
		s.Kind = kind
		return nil
	}
}

func nameOf(kind Kind, what string, valid func(string) bool) reader {
	return func(field string, raw json.RawMessage, s *Source) error {
		s.Kind = kind
		return readName(field, raw, what, valid, &s.Text)
	}
}

func readName(field string, raw json.RawMessage, what string, valid func(string) bool, name *string) error {
	if err := scalar(field, raw, what, name); err != nil {
		return err
	}
	if *name == "" || len(*name) > maxName || !valid(*name) {
		return wrong(field, "is %s, which is not %s of at most %d bytes", brief([]byte(*name)), what, maxName)
	}
	return nil
}

func anyText(string) bool { return true }

func readMetadata(field string, raw json.RawMessage, s *Source) error {
	m, err := object(field, raw, "namespace", "key")
	if err != nil {
		return err
	}
	s.Kind = Metadata
	for name, to := range map[string]*string{"namespace": &s.Namespace, "key": &s.Text} {
		if _, ok := m[name]; !ok {
			return wrong(join(field, name), "is missing")
		}
		if err := readName(join(field, name), m[name], "a name", anyText, to); err != nil {
			return err
		}
	}
	return nil
}

// certificateParts are the values of mtls.
var certificateParts = func() map[string]Kind {
	parts := map[string]Kind{}
	for kind, word := range words {
		if part, ok := strings.CutPrefix(word, "mtls."); ok {
			parts[part] = Kind(kind)
		}
	}
	return parts
}()

func readCertificate(field string, raw json.RawMessage, s *Source) (err error) {
	m := map[string]json.RawMessage{field: raw}
	return choice(m, field, "subject, uri_san, dns_san or sha256", certificateParts, &s.Kind)
}

func readAddress(field string, raw json.RawMessage, s *Source) error {
	m, err := object(field, raw, "from", "trusted_hops", "ipv4_prefix", "ipv6_prefix")
	if err != nil {
		return err
	}
	s.Kind = SourceAddress
	a := &s.Address
	a.IPv4Prefix, a.IPv6Prefix = DefaultIPv4Prefix, DefaultIPv6Prefix
	from := map[string]bool{"PEER": false, "ENVOY": true}
	if raw, ok := m["from"]; ok {
		at := join(field, "from")
		if err := choice(map[string]json.RawMessage{at: raw}, at, "PEER or ENVOY", from, &a.Envoys); err != nil {
			return err
		}
	}
	for _, n := range []struct {
		name        string
		least, most int
		to          *int
	}{
		{"trusted_hops", 0, maxTrustedHops, &a.TrustedHops},
		{"ipv4_prefix", 1, 32, &a.IPv4Prefix},
		{"ipv6_prefix", 1, 128, &a.IPv6Prefix},
	} {
		if raw, ok := m[n.name]; ok {
			at := join(field, n.name)
			if err := whole(map[string]json.RawMessage{at: raw}, at, n.least, n.most, n.to); err != nil {
				return err
			}
		}
	}
	if a.Envoys && a.TrustedHops > 0 {
		return wrong(join(field, "trusted_hops"),
			"needs from: PEER; with ENVOY the connection manager's xff_num_trusted_hops counts")
	}
	return nil
}

// headerName accepts the tokens of RFC 9110 and pseudo-headers such as
// ":authority".
func headerName(s string) bool { return len(s) <= maxName && token(strings.TrimPrefix(s, ":")) }

// token accepts the tokens of RFC 9110, which methods and cookies' names are too.
func token(s string) bool {
	for _, c := range []byte(s) {
		alphanumeric := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
