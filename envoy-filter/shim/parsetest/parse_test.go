package parsetest

import (
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

type named struct {
	text, name, want string
	ok               bool
}

var cookies = []named{
	{"a=1", "a", "1", true},
	{"b=2; a=1; a=3", "a", "1", true},
	{"b=2;a=1", "a", "1", true},
	{"  a\t=  1 ;", "a", "1", true},
	{`a="1"`, "a", "1", true},
	{`a="`, "a", `"`, true},
	{`a=""`, "a", "", true},
	{"a=", "a", "", true},
	{"a=x=y", "a", "x=y", true},
	{"a", "a", "", false},
	{"A=1", "a", "", false},
	{"aa=1; ba=2", "a", "", false},
	{"", "a", "", false},
	{";;;=;a", "a", "", false},
	{"a=\x00\xff", "a", "\x00\xff", true},
}

func TestCookie(t *testing.T) {
	for _, c := range cookies {
		if got, ok := Cookie(c.text, c.name); got != c.want || ok != c.ok {
			t.Errorf("cookie %q of %q is %q, %v, want %q, %v", c.name, c.text, got, ok, c.want, c.ok)
		}
	}
}

var queries = []named{
	{"/?a=1", "a", "1", true},
	{"/p?b=2&a=1&a=3", "a", "1", true},
	{"/?a=x%20y+z", "a", "x y z", true},
	{"/?%61=%31", "a", "1", true},
	{"/?a=%", "a", "%", true},
	{"/?a=%4", "a", "%4", true},
	{"/?a=%zz%41", "a", "%zzA", true},
	{"/?a=%00", "a", "\x00", true},
	{"/?a", "a", "", true},
	{"/?a=", "a", "", true},
	{"/?a=b=c?d", "a", "b=c?d", true},
	{"/?b=a#a=1", "a", "", false},
	{"/#?a=1", "a", "", false},
	{"/a=1", "a", "", false},
	{"", "a", "", false},
	{"?", "a", "", false},
	{"*", "a", "", false},
	{"/?" + strings.Repeat("&", 99) + "a=1", "a", "1", true},
}

func TestQuery(t *testing.T) {
	for _, c := range queries {
		if got, ok := Query(c.text, c.name); got != c.want || ok != c.ok {
			t.Errorf("parameter %q of %q is %q, %v, want %q, %v", c.name, c.text, got, ok, c.want, c.ok)
		}
	}
}

// A value has one name, for any encoding, also when the value is too long.
func TestLongValues(t *testing.T) {
	for _, n := range []int{Longest - 1, Longest, Longest + 1, 3 * Longest, 100_000} {
		plain := strings.Repeat("ab", n/2) + strings.Repeat("c", n%2)
		bounded := Bounded(plain)
		asIs, _ := Query("/?k="+plain, "k")
		encoded, _ := Query("/?k="+strings.ReplaceAll(plain, "ab", "%61b"), "k")
		if asIs != bounded || encoded != bounded {
			t.Errorf("%d bytes are %q, as a parameter %q, encoded %q", n, bounded, asIs, encoded)
		}
		if long := n > Longest; long != regexp.MustCompile(`^long:[0-9a-f]{16}$`).MatchString(bounded) || !long &&
			bounded != plain {
			t.Errorf("%d bytes are %q", n, bounded)
		}
		if other := Bounded("x" + plain); n > Longest && other == bounded {
			t.Errorf("two values of %d bytes are %q", n, other)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct {
		text   string
		v4, v6 int
		want   string
	}{
		{"192.0.2.7", 32, 64, "192.0.2.7"},
		{"192.0.2.7:80", 32, 64, "192.0.2.7"},
		{" 192.0.2.7 ", 24, 64, "192.0.2.0/24"},
		{"192.0.2.255", 1, 64, "128.0.0.0/1"},
		{"::ffff:192.0.2.7", 31, 64, "192.0.2.6/31"},
		{"[::ffff:192.0.2.7]:80", 32, 64, "192.0.2.7"},
		{"2001:db8:1:2:3:4:5:6", 32, 64, "2001:db8:1:2::/64"},
		{"[2001:db8::1]:443", 32, 128, "2001:db8::1"},
		{"[2001:db8::1]", 32, 33, "2001:db8::/33"},
		{"fe80::1%eth0", 32, 128, "fe80::1"},
		{"[fe80::1%25eth0]:1", 32, 128, "fe80::1"},
		{"", 32, 64, ""},
		{"unknown", 32, 64, ""},
		{"192.0.2", 32, 64, ""},
		{"192.0.2.7.8", 32, 64, ""},
		{"192.0.2.7\x00", 32, 64, ""},
		{"/run/envoy.sock", 32, 64, ""},
		{"[", 32, 64, ""},
		{":", 32, 64, ""},
		{strings.Repeat("1", 500), 32, 64, ""},
	} {
		if got, ok := Address(c.text, c.v4, c.v6); got != c.want || ok != (c.want != "") {
			t.Errorf("%q with /%d and /%d is %q, %v, want %q", c.text, c.v4, c.v6, got, ok, c.want)
		}
	}
}

func TestForwarded(t *testing.T) {
	for _, c := range []struct {
		header string
		hops   int
		want   string
		left   int
	}{
		{"a, b,c", 1, "c", 0},
		{"a, b,c", 2, "b", 0},
		{"a, b,c", 3, "a", 0},
		{"a, b,c", 5, "", 2},
		{"a,, ,b", 2, "a", 0},
		{",a,", 1, "a", 0},
		{"", 1, "", 1},
		{",", 1, "", 1},
	} {
		got, left, ok := Forwarded(c.header, c.hops)
		if got != c.want || ok != (c.left == 0) || left != c.left {
			t.Errorf("entry %d of %q is %q, %v with %d left, want %q with %d", c.hops, c.header, got, ok, left, c.want,
				c.left)
		}
	}
}

func TestCost(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "0.25": 0.25, ".5": 0.5, "7.": 7, "0007": 7,
		"123456789": 123456789} {
		if got, ok := Cost(text); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("cost %q is %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", ".", "0", "0.0", "-1", "+1", "1e3", "1,5", " 1", "0x1", "1.2.3", "NaN",
		strings.Repeat("9", 25)} {
		if got, ok := Cost(text); ok {
			t.Errorf("cost %q is %v", text, got)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		how        int
		text, want string
		yes        bool
	}{
		{Present, "", "", true},
		{Exact, "a", "a", true}, {Exact, "", "", true}, {Exact, "ab", "a", false},
		{Prefix, "ab", "a", true}, {Prefix, "ab", "b", false}, {Prefix, "a", "ab", false},
		{Suffix, "ab", "b", true}, {Suffix, "ab", "a", false}, {Suffix, "b", "ab", false},
		{Contains, "abc", "b", true}, {Contains, "abc", "d", false}, {Contains, "", "b", false},
		{Contains, "", "", true},
	} {
		if got := Compare(c.how, c.text, c.want); got != c.yes {
			t.Errorf("comparison %d of %q and %q is %v", c.how, c.text, c.want, got)
		}
	}
	for path, want := range map[string]string{"/a?b#c": "/a", "/a#b?c": "/a", "/a": "/a", "": "", "?a": "", "*": "*"} {
		if got := PathOnly(path); got != want {
			t.Errorf("the path of %q is %q", path, got)
		}
	}
}

// RFC 6265 §4.2.1 in other words.
func cookieOf(header, name string) (string, bool) {
	for _, pair := range strings.Split(header, ";") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || strings.Trim(key, " \t") != name {
			continue
		}
		value = strings.Trim(value, " \t")
		if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
			value = value[1 : n-1]
		}
		return value, true
	}
	return "", false
}

// net/http finds the same well-formed cookies.
func FuzzCookie(f *testing.F) {
	for _, c := range cookies {
		f.Add(c.text, c.name)
	}
	f.Fuzz(func(t *testing.T, header, name string) {
		got, ok := Cookie(header, name)
		if want, has := cookieOf(header, name); got != want || ok != has {
			t.Fatalf("cookie %q of %q is %q, %v, want %q, %v", name, header, got, ok, want, has)
		}
		parsed, err := http.ParseCookie(header)
		unusual := func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }
		if err != nil || strings.ContainsFunc(strings.ReplaceAll(header, "; ", ";"), unusual) {
			return
		}
		for _, c := range parsed {
			if c.Name == name && strings.Contains(header, name+"=") {
				if got != c.Value {
					t.Fatalf("cookie %q of %q is %q, net/http says %q", name, header, got, c.Value)
				}
				return
			}
		}
	})
}

// What net/url reads without complaint is read alike.
func FuzzQuery(f *testing.F) {
	for _, c := range queries {
		f.Add(c.text, c.name)
	}
	f.Fuzz(func(t *testing.T, path, name string) {
		got, ok := Query(path, name)
		before, _, _ := strings.Cut(path, "#")
		_, query, _ := strings.Cut(before, "?")
		values, err := url.ParseQuery(query)
		if err != nil || name == "" || len(query) > Longest || strings.ContainsRune(name, 0) {
			return
		}
		if values.Has(name) != ok || values.Get(name) != got {
			t.Fatalf("parameter %q of %q is %q, %v; net/url says %q", name, path, got, ok, values[name])
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"192.0.2.7", "[::1]:80", "::ffff:1.2.3.4", "2001:db8::%eth0", "1.2.3.4:5", "::1.2.3.4"} {
		f.Add(s, 24, 56)
	}
	f.Fuzz(func(t *testing.T, text string, v4, v6 int) {
		v4, v6 = 1+int(uint(v4)%32), 1+int(uint(v6)%128)
		got, ok := Address(text, v4, v6)
		want, err := netip.ParseAddr(text)
		if err != nil {
			want = netip.Addr{}
			if p, err := netip.ParseAddrPort(text); err == nil {
				want = p.Addr()
			}
		}
		want = want.WithZone("").Unmap()
		if want.IsValid() && len(text) < 46 && !ok {
			t.Fatalf("%q is no address", text)
		}
		if !ok {
			return
		}
		prefix := parsePrefix(t, got)
		if prefix != prefix.Masked() {
			t.Fatalf("%q is %q, with bits behind the prefix", text, got)
		}
		if !want.IsValid() {
			return // netip is stricter
		}
		bits := v6
		if want.Is4() {
			bits = v4
		}
		if expected, _ := want.Prefix(bits); expected != prefix {
			t.Fatalf("%q is %q, want %v", text, got, expected)
		}
	})
}

func parsePrefix(t *testing.T, s string) netip.Prefix {
	t.Helper()
	if p, err := netip.ParsePrefix(s); err == nil {
		return p
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		t.Fatalf("%q is no address", s)
	}
	return netip.PrefixFrom(a, a.BitLen())
}

func FuzzForwarded(f *testing.F) {
	f.Add("a, b,,c", 2)
	f.Fuzz(func(t *testing.T, header string, hops int) {
		hops = 1 + int(uint(hops)%40)
		var entries []string
		for _, e := range strings.Split(header, ",") {
			if e = strings.Trim(e, " \t"); e != "" {
				entries = append(entries, e)
			}
		}
		got, left, ok := Forwarded(header, hops)
		if ok != (len(entries) >= hops) || ok && got != entries[len(entries)-hops] || !ok && left != hops-len(entries) {
			t.Fatalf("entry %d of %q is %q, %v with %d left", hops, header, got, ok, left)
		}
	})
}

func FuzzCost(f *testing.F) {
	f.Add("1.5")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := Cost(text)
		want, err := strconv.ParseFloat(text, 64)
		if ok && (err != nil || math.Abs(got-want) > 1e-9*want || !(got > 0)) {
			t.Fatalf("cost %q is %v, strconv says %v, %v", text, got, want, err)
		}
		Bounded(text)
		PathOnly(text)
		for how := Present; how <= Contains; how++ {
			Compare(how, text, "1")
		}
	})
}

// The vectors of SipHash's authors: the key 00 01 … 0f, and texts 00 01 ….
func TestSipHash(t *testing.T) {
	key := [2]uint64{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	for n, want := range map[int]string{
		0: "726fdb47dd0e0e31", 1: "74f839c593dc67fd", 8: "93f5f5799a932462", 15: "a129ca6149be45e5",
	} {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(i)
		}
		if got := SipHash(key, string(text)); got != want {
			t.Errorf("of %d bytes: %s, want %s", n, got, want)
		}
	}
}
