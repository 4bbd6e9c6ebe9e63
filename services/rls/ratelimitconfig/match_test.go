package ratelimitconfig_test

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

type entry struct{ key, value string }

func (e entry) GetKey() string   { return e.key }
func (e entry) GetValue() string { return e.value }

// entries reads such as "tenant=acme path=/x".
func entries(text string) (out []entry) {
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		out = append(out, entry{key, value})
	}
	return out
}

const shop = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 1, name: any}
    descriptors:
      - key: path
        value: /search*
        rate_limit: {unit: minute, requests_per_unit: 2, name: search}
      - key: path
        value: /s*
        rate_limit: {unit: minute, requests_per_unit: 2, name: s}
      - key: path
        value: /search/now
        rate_limit: {unit: minute, requests_per_unit: 2, name: now}
      - key: path
        rate_limit: {unit: minute, requests_per_unit: 2, name: path}
  - key: tenant
    value: acme
    rate_limit: {unit: minute, requests_per_unit: 1, name: acme}
  - key: tenant
    value: file*.txt
    rate_limit: {unit: minute, requests_per_unit: 1, name: middle, }
  - key: tenant
    value: free
  - key: tenant
    value: only-below
    descriptors:
      - key: path
        rate_limit: {unit: minute, requests_per_unit: 1, name: below}
  - key: deep
    descriptors:
      - key: er
        rate_limit: {unit: minute, requests_per_unit: 1, name: deeper}
`

func TestFind(t *testing.T) {
	c, err := read(t, shop)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"tenant=globex":                    "any",
		"tenant=":                          "any",
		"tenant=acme":                      "acme",
		"tenant=file1.txt":                 "middle",
		"tenant=free":                      "", // it is there, without a limit
		"tenant=only-below":                "",
		"tenant=only-below path=/":         "below",
		"tenant=file1.pdf":                 "any",
		"tenant=globex path=/search/now":   "now",
		"tenant=globex path=/search/later": "search",
		"tenant=globex path=/sea":          "s",
		"tenant=globex path=/":             "path",
		"tenant=acme path=/":               "", // what acme has has nothing below it
		"tenant=globex path=/ more=1":      "", // too deep
		"deep=1":                           "", // no limit at this depth
		"deep=1 er=2":                      "deeper",
		"other=1":                          "",
		"path=/ tenant=globex":             "", // in another order
		"":                                 "",
	} {
		got := ""
		if m := ratelimitconfig.Find(c, "shop", entries(text)); m.Limit != nil {
			got = m.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if m := ratelimitconfig.Find(c, "mall", entries("tenant=acme")); m.Limit != nil || c.HasDomain("mall") {
		t.Error("a domain that is not there has a limit")
	}
}

func TestWhatIsCountedTogether(t *testing.T) {
	c, err := read(t, `
domain: d
descriptors:
  - key: own
    value: a*
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: shared
    value: a*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 1}
    descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]
  - key: one
    value: v
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: a_b
    value: b*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: a
    value: b*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 1}
`)
	if err != nil {
		t.Fatal(err)
	}
	client := func(text string) string { return ratelimitconfig.Find(c, "d", entries(text)).Client }
	for _, same := range [][2]string{{"shared=a1", "shared=a2"}, {"shared=a1 k=x", "shared=a2 k=x"}, {"one=v", "one=v"}} {
		if client(same[0]) != client(same[1]) {
			t.Errorf("%v are counted apart", same)
		}
	}
	for _, apart := range [][2]string{{"own=a1", "own=a2"}, {"shared=a1 k=x", "shared=a1 k=y"},
		{"a_b=", "a_b=bx"}} { // by the node of a and b*, and by that of a_b and b*
		if client(apart[0]) == client(apart[1]) {
			t.Errorf("%v are counted together", apart)
		}
	}
	if client("one_v=w") == client("one_v=x") { // both find the node of key one and value v
		t.Error("values of the key one_v are counted together")
	}
	for n := 200; n < 300; n++ { // long ones are hashed
		long := "own=a" + strings.Repeat("x", n)
		if c := client(long); c == client(long+"y") || c == client("own=a"+c) || len(c) > 256 {
			t.Errorf("a value of %d bytes is counted by %d bytes, or with another", n, len(c))
		}
	}
	if a, b := ratelimitconfig.Client(entries("a=b c=d")), ratelimitconfig.Client(entries("a=bc =d")); a == b {
		t.Errorf("different entries are counted together: %q", a)
	}
}

func TestMetricNames(t *testing.T) {
	c, err := read(t, `
domain: d
descriptors:
  - key: plain
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: detailed
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: value
    value_to_metric: true
    descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]
  - key: shared
    value: a*
    share_threshold: true
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 1}
`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"plain=x": "d.plain", "detailed=x": "d.detailed_x", "value=x k=y": "d.value_x.k", "shared=ab": "d.shared_a*",
	} {
		if got := ratelimitconfig.Find(c, "d", entries(text)).Metric; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
