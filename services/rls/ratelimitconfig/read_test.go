package ratelimitconfig_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

func read(t *testing.T, text string) (*ratelimitconfig.Config, error) {
	t.Helper()
	c := &ratelimitconfig.Config{}
	return c, c.Add("f.yaml", strings.NewReader(text), ratelimitconfig.Options{})
}

func TestReadEveryField(t *testing.T) {
	c, err := read(t, `
domain: shop
descriptors:
  - key: tenant
    value: 404
    shadow_mode: true
    quota_mode: true
    detailed_metric: true
    value_to_metric: true
    rate_limit:
      unit: MINUTE
      requests_per_unit: 5
      name: a
      replaces: [{name: b}, {name: c}]
  - key: path
    value: /search*
    share_threshold: true
    rate_limit: {unlimited: true}
  - key: empty
    rate_limit:
`)
	if err != nil {
		t.Fatal(err)
	}
	all := c.Limits()
	if len(all) != 2 {
		t.Fatalf("%d limits", len(all))
	}
	l := *all[0]
	replaces := strings.Join(l.Replaces, " ")
	l.Replaces = nil
	want := ratelimitconfig.Limit{Domain: "shop", Path: "shop.tenant_404", Requests: 5, Unit: ratelimitconfig.Minute,
		Name: "a", Shadow: true, Quota: true, Detailed: true, File: "f.yaml", Line: 4}
	if replaces != "b c" || !equal(l, want) {
		t.Errorf("%+v, replaces %s; want %+v", l, replaces, want)
	}
	if l := all[1]; !l.Unlimited || l.Path != "shop.path_/search*" {
		t.Errorf("%+v", l)
	}
}

func equal(a, b ratelimitconfig.Limit) bool {
	return a.Domain == b.Domain && a.Path == b.Path && a.Requests == b.Requests && a.Unit == b.Unit &&
		a.Name == b.Name && a.Shadow == b.Shadow && a.Quota == b.Quota && a.Detailed == b.Detailed &&
		a.File == b.File && a.Line == b.Line
}

func TestMistakes(t *testing.T) {
	const head = "domain: d\ndescriptors:\n"
	for text, want := range map[string]string{
		"":                    "f.yaml:1: domain: the file is empty; want one mapping with domain and descriptors",
		"descriptors: []":     "f.yaml:1: domain: missing; want the domain that Envoy's rate limit filter names",
		"[]":                  "f.yaml:1: want one mapping with domain and descriptors, found a list",
		"a: 1\n---\nb: 2":     "f.yaml:3: a second document; want one mapping with domain and descriptors",
		"domain: d\nx: 1":     "f.yaml:2: x: unknown field; known are domain, descriptors",
		head + "  - value: v": "f.yaml:3: descriptors[0].key: missing; want the key of a descriptor's entry",
		head + "  - key: k\n    rate_limit: {requests_per_unit: 1}": "f.yaml:4: descriptors[0].rate_limit.unit: missing; " +
			"want second, minute, hour, day, week, month or year",
		head + "  - key: k\n    rate_limit: {unit: fortnight, requests_per_unit: 1}": "f.yaml:4: " +
			"descriptors[0].rate_limit.unit: want second, minute, hour, day, week, month or year, found \"fortnight\"",
		head + "  - key: k\n    rate_limit: {unit: day, unlimited: true}": "f.yaml:4: descriptors[0].rate_limit.unit: " +
			"want no unit where unlimited is true, found day",
		head + "  - key: k\n    rate_limit: {unit: day, requests_per_unit: -1}": "f.yaml:4: " +
			"descriptors[0].rate_limit.requests_per_unit: want a whole number from 0 to 4294967295, without quotes, found -1",
		head + "  - key: k\n    value: v\n  - {key: k, value: v}": "f.yaml:5: descriptors[1]: d.k_v is there already, " +
			"at f.yaml:3",
		head + "  - key: k\n    value: vw\n    share_threshold: true": "f.yaml:5: descriptors[0].share_threshold: " +
			"want a value with a *, found \"vw\"",
		// ratelimit refuses it as well: config error, unknown key 'unit_multiplier'.
		head + "  - key: k\n    rate_limit: {unit: day, requests_per_unit: 1, unit_multiplier: 2}": "f.yaml:4: " +
			"descriptors[0].rate_limit.unit_multiplier: unknown field; known are unit, requests_per_unit, unlimited, ",
		"apiVersion: titrate.dev/v1alpha1\nkind: Pool\nname: pools/a\n---\napiVersion: titrate.dev/v1alpha1": "f.yaml:1: " +
			"kind: this is a document of Titrate (Pool), which needs no import: titrate apply -f f.yaml",
		"- apiVersion: titrate.dev/v1alpha1\n  kind: Limit": "f.yaml:1: kind: this is a document of Titrate (Limit), ",
		"apiVersion: v1\nkind: ConfigMap\ndata: {}":         "f.yaml:1: kind: this is an object of Kubernetes (ConfigMap)",
		head + "  - key: k\n    rate_limit: {unit: day, name: a, replaces: [{name: a}, {}]}": "f.yaml:4: " +
			"descriptors[0].rate_limit.replaces[0]: \"a\" is this limit itself; want the name of another one\n" +
			"f.yaml:4: descriptors[0].rate_limit.replaces[1]: want {name: NAME} of another limit",
		head + strings.Repeat("[", 3): "f.yaml:3: ",
	} {
		_, err := read(t, text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ratelimitconfig.ReadDir(dir, ratelimitconfig.Options{}); err == nil ||
		!strings.Contains(err.Error(), "has no file, so there is no limit") {
		t.Errorf("an empty directory: %v", err)
	}
	write(".hidden.yaml", "not: read")
	if _, err := ratelimitconfig.ReadDir(dir, ratelimitconfig.Options{}); err == nil ||
		!strings.Contains(err.Error(), ".hidden.yaml") {
		t.Errorf("a directory of which nothing is read: %v", err)
	}
	write("a.yaml", "domain: d\ndescriptors: [{key: a}]")
	write("b.yml", "domain: d\ndescriptors: [{key: b}]")
	if _, err := ratelimitconfig.ReadDir(dir, ratelimitconfig.Options{}); err == nil ||
		!strings.Contains(err.Error(), `b.yml:1: domain: "d" has a file already, `) {
		t.Errorf("two files of one domain: %v", err)
	}
	c, err := ratelimitconfig.ReadDir(dir, ratelimitconfig.Options{MergeDomains: true})
	if err != nil || len(c.Domains()) != 1 || len(c.Domains()[0].Children) != 2 {
		t.Errorf("merged: %+v, %v", c, err)
	}
	write("b.yml", "domain: d\ndescriptors: [{key: a}]")
	if _, err := ratelimitconfig.ReadDir(dir, ratelimitconfig.Options{MergeDomains: true}); err == nil ||
		!strings.Contains(err.Error(), "b.yml:2: descriptors[0]: d.a is there already, at ") {
		t.Errorf("merged, twice one key: %v", err)
	}
	write("a.yaml", "descriptors: []")
	write("b.yml", "descriptors: []")
	if _, err := ratelimitconfig.ReadDir(dir, ratelimitconfig.Options{}); err == nil ||
		strings.Count(err.Error(), ":1: domain: missing") != 2 {
		t.Errorf("two files without a domain: %v", err)
	}
	for name, want := range map[string]string{"absent": "absent: no such directory",
		"a.yaml": "a.yaml is a file: want the directory that it is in"} {
		path := filepath.Join(dir, name)
		_, err := ratelimitconfig.ReadDir(path, ratelimitconfig.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, want)) {
			t.Errorf("%s as a directory: %v", name, err)
		}
	}
}

// A ConfigMap is mounted as links into a directory that begins with two dots; its keys are any names. A directory of
// files may be reached by a link.
func TestAMountedConfigMapIsRead(t *testing.T) {
	dir := t.TempDir()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(os.Mkdir(filepath.Join(dir, "..2026_11_25"), 0o700))
	do(os.Mkdir(filepath.Join(dir, "more"), 0o700))
	do(os.Symlink("..2026_11_25", filepath.Join(dir, "..data")))
	for _, name := range []string{"shop", "mall.conf"} {
		do(os.WriteFile(filepath.Join(dir, "..data", name), []byte("domain: "+name+"\ndescriptors: [{key: a}]"), 0o600))
		do(os.Symlink("..data/"+name, filepath.Join(dir, name)))
	}
	do(os.WriteFile(filepath.Join(dir, "more", "below"), []byte("domain: below"), 0o600))
	do(os.WriteFile(filepath.Join(dir, ".swp"), []byte("\x00"), 0o600))
	do(os.Symlink("more", filepath.Join(dir, "link")))
	current := filepath.Join(t.TempDir(), "current")
	do(os.Symlink(dir, current))
	c, err := ratelimitconfig.ReadDir(current, ratelimitconfig.Options{})
	if err != nil || !c.HasDomain("shop") || !c.HasDomain("mall.conf") || !c.HasDomain("below") {
		t.Errorf("%v, %v", c, err)
	}
	_, leftOut, err := ratelimitconfig.List(current)
	if want := []string{filepath.Join(current, ".swp"), filepath.Join(current, "link")}; err != nil ||
		!slices.Equal(leftOut, want) {
		t.Errorf("left out %v, want %v", leftOut, want)
	}
}

func FuzzAdd(f *testing.F) {
	f.Add("domain: d\ndescriptors: [{key: a, value: b*c, rate_limit: {unit: day, requests_per_unit: 3}}]", "a", "bxc")
	f.Add("domain: d\ndescriptors: [{key: a, descriptors: [{key: '*'}]}]", "a", "")
	f.Add("domain: d\ndescriptors: [&a {key: a, rate_limit: {unit: day}}, {<<: *a, key: b, metadata: {x: [*a, 1.5, On]}}]",
		"b", "")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		c := &ratelimitconfig.Config{}
		if c.Add("f", strings.NewReader(text), ratelimitconfig.Options{MergeDomains: true}) != nil {
			return
		}
		for _, d := range c.Domains() {
			if m := ratelimitconfig.Find(c, d.Key, []entry{{key, value}}); m.Limit != nil && m.Client == "" {
				t.Errorf("%s counts %s=%s by nothing", m.Path, key, value)
			}
		}
		for _, l := range c.Limits() {
			if !l.Unlimited && l.Unit.Length() <= 0 {
				t.Errorf("%s has no unit", l.Path)
			}
		}
	})
}
