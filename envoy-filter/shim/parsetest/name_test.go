package parsetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/titrate/titrate/envoy-filter/settings"
)

// prefixesOf returns the prefixes of one source of each kind, also of sources with a name that an operator
// chooses.
func prefixesOf(t testing.TB, name string) []string {
	t.Helper()
	text, _ := json.Marshal(name)
	raw := fmt.Appendf(nil, `{"client":[{"header":"x-plain"},{"header":"x-client"},{"header":":authority"},{"cookie":"a.b"},
		{"query":%s},{"filter_state":%s},{"metadata":{"namespace":%s,"key":"k"}},{"metadata":{"namespace":"n","key":%s}},
		{"mtls":"subject"},{"mtls":"uri_san"},{"mtls":"dns_san"},{"mtls":"sha256"},
		{"source_address":{}},{"source_address":{"from":"ENVOY"}},{"source_address":{"trusted_hops":2}},
		{"route":true},{"virtual_host":true},{"cluster":true},{"literal":"x"}]}`, text, text, text, text)
	f, err := settings.ParseRoute(raw)
	if err != nil {
		t.Skip(err) // no name
	}
	prefixes := make([]string, len(f.Client))
	for i := range f.Client {
		prefixes[i] = f.Client[i].Prefix
	}
	return prefixes
}

// split takes a name apart again, if the value in it has no digest.
func split(prefixes []string, name string) (prefix, value string) {
	i := strings.IndexByte(name, ':') + 1
	if name[:i] == "plain:" {
		return "", name[i:]
	}
	if slices.Contains(prefixes, name[:i]) {
		return name[:i], name[i:]
	}
	return "", name
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", Longest)
	for _, c := range []struct{ prefix, value, want string }{
		{"", "alice", "alice"},
		{"", "2001:db8::1", "2001:db8::1"},
		{"", "spiffe://example.org/cart", "spiffe://example.org/cart"},
		{"", "cookie.session", "cookie.session"},
		{"", "cookies.session:alice", "cookies.session:alice"},
		{"", "cookie.session:alice", "plain:cookie.session:alice"},
		{"", "cookie.other:", "plain:cookie.other:"},
		{"", "literal:anonymous", "plain:literal:anonymous"},
		{"", "plain:alice", "plain:plain:alice"},
		{"", long, long},
		{"", long + "a", Bounded(long + "a")},
		{"cookie.session:", "alice", "cookie.session:alice"},
		{"cookie.session:", "plain:alice", "cookie.session:plain:alice"},
		{"cookie.session:", long[15:], "cookie.session:" + long[15:]},
		{"cookie.session:", long[14:] + "b", "cookie.session:" + digestOf(long[14:]+"b")},
	} {
		for _, inRoom := range []bool{false, len(c.value) <= Longest} {
			if got := NameOf(c.prefix, c.value, inRoom); got != c.want {
				t.Errorf("%q of %q is %q, want %q", c.value, c.prefix, got, c.want)
			}
		}
	}
}

// A plain value that begins like the name of another source gets the prefix "plain:", for any source: C knows
// all words that prefixes of settings begin with.
func TestWordsAreThoseOfSettings(t *testing.T) {
	for _, word := range append(settings.Words(), "plain") {
		for _, value := range []string{word + ":alice", word + ".session:alice"} {
			if got := NameOf("", value, false); got != "plain:"+value {
				t.Errorf("the plain value %q is named %q", value, got)
			}
		}
	}
}

// digestOf is the digest of a value that may be short enough to need none.
func digestOf(value string) string {
	hash := uint64(0xcbf29ce484222325)
	for _, c := range []byte(value) {
		hash = (hash ^ uint64(c)) * 0x100000001b3
	}
	hash = (hash ^ hash>>32) * 0xd6e8feb86659fd93
	return fmt.Sprintf("long:%016x", hash^hash>>32)
}

// No two pairs of source and value have one name, since each name can be taken apart
// again; and of values with a digest the source can.
func FuzzNameOf(f *testing.F) {
	f.Add("session", "alice")
	f.Add("a:b", "cookie.a.b:alice")
	f.Add("n/k", "metadata.n/k:")
	f.Add(strings.Repeat("%", 256), "plain:x")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, name, value string) {
		prefixes := prefixesOf(t, name)
		for i, prefix := range prefixes {
			if slices.Index(prefixes, prefix) != i {
				t.Fatalf("two sources with the prefix %q", prefix)
			}
			got := NameOf(prefix, value, false)
			source, rest := split(prefixes, got)
			if len(got) < len(prefix)+len(value) {
				rest = value // its digest
			}
			if source != prefix && len(value) <= Longest || rest != value {
				t.Fatalf("%q of %q is %q, which reads as %q of %q", value, prefix, got, rest, source)
			}
		}
	})
}
