package tree

import (
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzFlow checks that flow and the YAML reader make the same nodes.
func FuzzFlow(f *testing.F) {
	for _, text := range flowTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, is := flow([]byte(text))
		if !is {
			return
		}
		want, err := decode([]byte(text))
		if err != nil || len(all) != len(want) {
			t.Fatalf("%q: %d documents, want %d, %v", text, len(all), len(want), err)
		}
		for i := range all {
			if !same(all[i], want[i]) {
				t.Fatalf("%q: document %d is %+v, want %+v", text, i, all[i], want[i])
			}
		}
	})
}

func same(a, b *yaml.Node) bool {
	x, y := *a, *b
	x.Content, y.Content = nil, nil
	if !reflect.DeepEqual(x, y) || len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		if !same(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

var flowTexts = []string{
	"---\n{kind: Override, name: tenants/t/limits/l/overrides/a@b:8080, spec: {rate: 600/min}}\n---\n{a: 1}\n",
	`{"kind":"Override", "spec": {"burst":5, "until": 2026-12-01T00:00:00Z, "on": true, "no": null}}`,
	"{a: [1, x, {b: c}, []], d: {}}\n\n---\n\n{e: 1.5e3}",
	"{a: {b: {c: {d: {e: {f: {g: 1}}}}}}}", "{a: 12:30:45, b: 0x10, c: 1_000, d: y, e: 2026-12-01, f: 0b1}", "{a: 1 }",
}

func TestFlowIsReadAndOtherTextIsLeft(t *testing.T) {
	for _, text := range flowTexts {
		if _, is := flow([]byte(text)); !is {
			t.Errorf("%q is left to the YAML reader", text)
		}
	}
	for _, text := range []string{"a: 1\n", "{a: b c}", "{a: 1} # x", "{a: 1}\n{b: 2}\n", "{a: 1,}", "{a}", "{a:1}", "{a: }",
		"{a: *b}", "{a: \"\\n\"}", "{a: 'x'}", "{a: 1\n}", "{ä: 1}", "--- {a: 1}", "{a: 1}\r\n", "{a: b: c}", "[1]",
		"{a: " + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "}", "{a: 1} x", "{a: -1}", "---\n---\n{a: 1}", "{a: 1}\n---\n"} {
		if all, is := flow([]byte(text)); is {
			t.Errorf("%q: %d documents", text, len(all))
		}
	}
}
