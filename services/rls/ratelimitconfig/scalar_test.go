package ratelimitconfig_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// Numbers and truth values are read by YAML 1.1, as ratelimit reads them.
func TestSpellings(t *testing.T) {
	const head = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: "
	for text, want := range map[string]uint32{"10_000": 10000, "0x10": 16, "010": 8, "0o10": 8, "0b11": 3, "+5": 5, "0": 0} {
		c, err := read(t, head+"{unit: day, requests_per_unit: "+text+"}")
		if err != nil || c.Limits()[0].Requests != want {
			t.Errorf("%s: %v, want %d", text, err, want)
		}
	}
	for _, text := range []string{`"5"`, "!!int 5", "5.0", "1e3", "08", "-1", "4294967296", "_5", "five", "[5]"} {
		if _, err := read(t, head+"{unit: day, requests_per_unit: "+text+"}"); err == nil ||
			!strings.Contains(err.Error(), "f.yaml:4: descriptors[0].rate_limit.requests_per_unit: want a whole number") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]bool{"yes": true, "On": true, "y": true, "TRUE": true, "no": false, "Off": false,
		"N": false, "false": false, "~": false} {
		c, err := read(t, head+"{unit: day}\n    shadow_mode: "+text)
		if err != nil || c.Limits()[0].Shadow != want {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	for _, text := range []string{`"yes"`, "1", "yEs", "!!bool true"} {
		if _, err := read(t, head+"{unit: day}\n    shadow_mode: "+text); err == nil {
			t.Errorf("%s is a truth value", text)
		}
	}
	for text, want := range map[string]string{"010": "d.k_010", "yes": "d.k_yes", "0x10": "d.k_0x10", "~": "d.k", "!!str 5": "d.k_5"} {
		c, err := read(t, head+"{unit: day}\n    value: "+text)
		if err != nil || c.Limits()[0].Path != want {
			t.Errorf("value %s: %v", text, err)
		}
	}
	if _, err := read(t, head+"{unit: day}\n    value: !!binary aGk="); err == nil {
		t.Error("a tag is passed over")
	}
}

const anchors = `
domain: d
descriptors:
  - key: base
    rate_limit: &five {unit: minute, requests_per_unit: 5}
    descriptors: &below
      - {key: sub, rate_limit: *five}
  - key: same
    rate_limit: *five
    descriptors: *below
  - key: more
    rate_limit: {<<: *five, requests_per_unit: 10}
  - key: list
    rate_limit: {<<: [*five, {requests_per_unit: 7, name: n}]}
  - &whole {key: whole, value: a, shadow_mode: on, rate_limit: *five}
  - {<<: *whole, value: b}
  - {<<: [*whole, {rate_limit: *five}], value: c}
`

func TestAnchorsAndMergeKeys(t *testing.T) {
	c, err := read(t, anchors)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint32{}
	for _, l := range c.Limits() {
		got[l.Path] = l.Requests
	}
	want := map[string]uint32{"d.base": 5, "d.base.sub": 5, "d.same": 5, "d.same.sub": 5, "d.more": 10, "d.list": 5,
		"d.whole_a": 5, "d.whole_b": 5, "d.whole_c": 5}
	for path, n := range want {
		if got[path] != n || len(got) != len(want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if l := c.Limits()[7]; !l.Shadow || l.Path != "d.whole_b" {
		t.Errorf("a merged descriptor is %+v", l)
	}
	const head = "domain: d\ndescriptors:\n  - key: a\n    rate_limit: &x {unit: day, requests_per_unit: 1}\n  - &y "
	for text, want := range map[string]string{
		"{key: b, rate_limit: {unit: hour, <<: *x}}": "f.yaml:5: unit: stands before <<, which brings it, too",
		"{key: b, descriptors: [*y]}":                "f.yaml:5: *y stands within what it stands for",
		"{key: b, rate_limit: {<<: 5}}":              "f.yaml:5: <<: want a mapping, or a list of mappings",
		"{key: b, rate_limit: {<<: *x, <<: *x}}":     "f.yaml:5: <<: given twice",
		"{key: b, rate_limit: *x}\n  - {<<: *y, key: c, rate_limit: {unit: day}}": "f.yaml:6: rate_limit: << brings it, " +
			"too, and ratelimit mixes",
		"{key: b, rate_limit: {unit: hour}}\n  - {key: t, rate_limit: &t {unit: day}}\n" +
			"  - {<<: [*y, {rate_limit: *x}], key: c}": "f.yaml:7: rate_limit: two mappings of << bring it, and ratelimit mixes",
		"{key: b, metadata: {k: 1}}\n  - {<<: [*y, {metadata: {l: 2}}], key: c, rate_limit: *x}": "f.yaml:6: metadata: " +
			"two mappings of << bring it",
	} {
		if _, err := read(t, head+text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// A short file does not stand for a long one.
func TestWhatAliasesStandForIsBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: d\ndescriptors:\n  - key: a\n    descriptors: &l0 [{key: a}, {key: b}]\n")
	for level := '0'; level < '9'; level++ {
		text.WriteString("  - key: " + string(level+1) + "\n    descriptors: &l" + string(level+1) + "\n")
		for _, key := range "abcdefghij" {
			text.WriteString("      - {key: " + string(key) + ", descriptors: *l" + string(level) + "}\n")
		}
	}
	if _, err := read(t, text.String()); err == nil || !strings.Contains(err.Error(),
		"the aliases of the file stand for more than 100000 values together") {
		t.Errorf("%.300v", err)
	}
}

func TestMetadata(t *testing.T) {
	const head = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, requests_per_unit: 1}\n    metadata: "
	for text, want := range map[string]string{
		"{service: {name: a}, n: [1, 1.5, 0x10, 010, yes, ~, '1', text]}": `{"n":[1,1.5,16,8,true,null,"1","text"],"service":{"name":"a"}}`,
		"{}": "null", "": "null", "{x: {'yes': a}}": `{"x":{"yes":"a"}}`,
	} {
		c, err := read(t, head+text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := "null"
		if m := c.Limits()[0].Metadata; m != nil {
			b, err := json.Marshal(m.AsMap())
			if got = string(b); err != nil {
				t.Error(err)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"5":               "metadata: want a mapping",
		"{a: .inf}":       "metadata.a: want text, a finite number",
		"{a: 2026-11-25}": "metadata.a: want text, a finite number",
		"{a: {yes: a}}":   "metadata.a: want text as a field's name",
		"{a: {010: a}}":   "metadata.a: want text as a field's name",
		"{a: " + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "}": "want at most 16 levels of metadata",
		"{a: " + strings.Repeat("x", 20_000) + "}":                       "metadata: want at most 16384 bytes",
	} {
		if _, err := read(t, head+text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50s: %v, want %s", text, err, want)
		}
	}
}
