package translate_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
	"github.com/titrate/titrate/services/rls/translate"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden translates a configuration with everything in it. What comes out must be
// documents that apply takes.
func TestGolden(t *testing.T) {
	c, err := ratelimitconfig.ReadFiles([]string{"testdata/shop.yaml"}, ratelimitconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := translate.Resources(c, translate.Options{Pool: "api", Capacity: 300})
	var b bytes.Buffer
	if err := document.WriteYAML(&b, r.Resources...); err != nil {
		t.Fatal(err)
	}
	documents, err := document.Parse("out", b.Bytes())
	if err == nil {
		err = document.Unique(documents)
	}
	if err != nil || len(documents) != len(r.Resources) {
		t.Errorf("%d of %d documents are read back: %v", len(documents), len(r.Resources), err)
	}
	for _, n := range r.Identities {
		fmt.Fprintf(&b, "# identity %s: %s\n", n.Name, n.Of)
	}
	for _, n := range r.Classes {
		fmt.Fprintf(&b, "# class %s: %s\n", n.Name, n.Of)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	if changed, leftOut := r.Count(); r.Limits != 11 || changed != 3 || leftOut != 2 {
		t.Errorf("%d limits, %d changed, %d left out", r.Limits, changed, leftOut)
	}
	const golden = "testdata/shop.golden"
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v; got:\n%s", err, b.String())
	}
}

func TestNamesAreUniqueAndShort(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: D\ndescriptors:\n")
	for i := range 70 {
		fmt.Fprintf(&text, "- {key: %s%c, value: \"%d\", rate_limit: {unit: day, requests_per_unit: 1}}\n",
			strings.Repeat("x", 70), 'a', i)
	}
	c := &ratelimitconfig.Config{}
	if err := c.Add("f", strings.NewReader(text.String()), ratelimitconfig.Options{}); err != nil {
		t.Fatal(err)
	}
	r := translate.Resources(c, translate.Options{})
	seen := map[string]bool{}
	for _, m := range r.Resources {
		if seen[m.GetName()] {
			t.Errorf("%s twice", m.GetName())
		}
		seen[m.GetName()] = true
	}
	if len(seen) != 71 || len(r.Notes) != 1 || r.Limits != 70 || !strings.Contains(r.Notes[0].Text, "70 limits, a tenant has at most 64") {
		t.Errorf("%d resources, %v", len(seen), r.Notes)
	}
}
