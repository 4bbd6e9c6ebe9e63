package solve_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/lab/solve"
	"github.com/titrate/titrate/services/document"
)

// head begins each document.
const head = "- {apiVersion: titrate.dev/v1alpha1, "

// good is a problem that mistakes are put into, a line at a time.
const good = head + `kind: Pool, name: pools/api, spec: {capacity: 100}}
` + head + `kind: Tenant, name: tenants/a}
- apiVersion: titrate.dev/v1alpha1
  kind: Demand
  spec:
    flows:
      - {tenant: a, pool: api, demand: 5}
`

// parse reads the text of one file.
func parse(text string) ([]*solve.Problem, error) {
	return solve.Parse([]*document.File{document.Open("f", strings.NewReader(text))})
}

func TestMistakesHaveFileLineAndField(t *testing.T) {
	put := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	before := func(documents ...string) string { // in lines 1, 2, …
		return head + strings.Join(documents, "}\n"+head) + "}\n" + good
	}
	flow := func(f string) string { return put("{tenant: a, pool: api, demand: 5}", f) }
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f: 0 documents of kind Pool and 0 of kind Tenant; want one of each at least"},
		{"comments only", "# nothing\n---\n", "f: 0 documents of kind Pool"},
		{"no tenant", head + "kind: Pool, name: pools/a, spec: {capacity: 1}}", "f: 1 document of kind Pool and 0 of kind"},
		{"two demands", good + good[strings.Index(good, "- apiVersion"):], "f:8: kind: a second Demand; want one"},
		{"list of numbers", "- 1", "f:1: want a document with apiVersion"},
		{"syntax", good + "  x: [", "f:"},
		{"no spec", good[:strings.Index(good, "  spec:\n")], "f:3: spec: missing; want such as {flows: "},
		{"no flows", good[:strings.Index(good, "    flows:\n")] + "    {}", "f:6: spec.flows: missing"},
		{"flows empty", good[:strings.Index(good, "    flows:\n")] + "    flows: []", "f:6: spec.flows: want one at least"},
		{"unknown field", good + "    shares: 1\n", "f:8: spec.shares: unknown field; known are flows"},
		{"unknown in flow", flow("{tenant: a, wieght: 2}"), "f:7: spec.flows[0].wieght: unknown field; known are name"},
		{"field twice", flow("{tenant: a, demand: 2, demand: 3}"), "f:7: spec.flows[0].demand: given twice"},
		{"flow scalar", flow("api"), `f:7: spec.flows[0]: want a mapping of fields, found "api"`},
		{"mistake in a resource", put("capacity: 100", "capacity: 0"), "f:1: spec.capacity: must be greater than 0"},
		{"alpha", put("capacity: 100", "capacity: 100, alpha: 11"), "f:1: spec.alpha: must be"},
		{"pool twice", before("kind: Pool, name: pools/api, spec: {capacity: 1}"), `f:2: name: "pools/api" is taken`},
		{"quota of no pool", before("kind: Quota, name: tenants/a/quotas/db"),
			"f:1: name: it needs pools/db, of which there is no document"},
		{"quota that is off", before(`kind: Quota, name: tenants/a/quotas/api, spec: {mode: "OFF"}`),
			"f:1: spec.mode: a quota that is OFF limits nothing"},
		{"demand negative", flow("{demand: -1}"),
			"f:7: spec.flows[0].demand: want 0 to 1000000000, or no such field for unbounded, found -1"},
		{"demand infinite", flow("{demand: .inf}"),
			"f:7: spec.flows[0].demand: want a finite decimal number, or no such field for unbounded, found .inf"},
		{"demand 1e999", flow("{demand: 1e999}"), `f:7: spec.flows[0].demand: want a number, found "1e999"`},
		{"demand octal", flow("{demand: 0100}"), "f:7: spec.flows[0].demand: want a number without a 0 in front"},
		{"demand text", flow(`{demand: "5"}`), `f:7: spec.flows[0].demand: want a number, found "5"`},
		{"tenant number", flow("{tenant: 7}"), "f:7: spec.flows[0].tenant: want text, in quotes if it looks like a number"},
		{"unknown tenant", flow("{tenant: b}"), `f:7: spec.flows[0].tenant: no tenant has the name "b"; tenants are a`},
		{"tenant of two", strings.Replace(before("kind: Tenant, name: tenants/b"), "tenant: a, ", "", 1),
			"f:8: spec.flows[0].tenant: missing; want text"},
		{"unknown pool", flow("{pool: db}"), `f:7: spec.flows[0].pool: no pool has the name "db"; pools are api`},
		{"unknown use", flow("{uses: {api: 1, db: }}"),
			"f:7: spec.flows[0].uses.db: no pool has this name; pools are api"},
		{"pool and uses", flow("{pool: api, uses: {api: 1}}"), "f:7: spec.flows[0].pool: want pool or uses, found both"},
		{"negative cost", flow("{uses: {api: -2}}"), "f:7: spec.flows[0].uses.api: want 0 or 0.000001 to 1000000, found -2"},
		{"use twice", flow("{uses: {api: 1, api: 2}}"), "f:7: spec.flows[0].uses.api: given twice"},
		{"uses a list", flow("{uses: [api]}"), "f:7: spec.flows[0].uses: want a mapping of fields, found a list"},
		{"no use", flow("{uses: {api: 0}}"), "f:7: spec.flows[0].uses: no pool is used; want one at least"},
		{"flow twice", good + "      - {demand: 6}\n",
			"f:8: spec.flows[1]: tenant a asks for pool api in number 0 of the list; want one flow for both"},
		{"name twice", before("kind: Tenant, name: tenants/b") + "      - {name: a, tenant: b}\n",
			`f:9: spec.flows[1].name: "a" is taken by number 0`},
		{"two laws", strings.Replace(before("kind: Pool, name: pools/db, spec: {capacity: 9, guarantee: ADDITIVE}"),
			"pool: api", "uses: {api: 1, db: 1}", 1), "f:8: spec.flows[0]: pools api and db divide by different laws"},
		{"two weights", strings.Replace(before("kind: Pool, name: pools/db, spec: {capacity: 9}",
			"kind: Quota, name: tenants/a/quotas/db, spec: {weight: 3}"), "pool: api", "uses: {api: 1, db: 1}", 1),
			"f:9: spec.flows[0]: tenant a has weight 1 in pool api and 3 in db; want one weight"},
		{"alias as value", flow("{demand: *w}"), "f:"},
		{"merge", flow("{<<: {demand: 1}}"), "f:7: spec.flows[0]: want a field's name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("error %v\nwant  %s…", err, c.want)
			}
			var place *document.Error
			if !errors.As(err, &place) || place.File != "f" {
				t.Errorf("%T has no place", err)
			}
			if lines := strings.Count(err.Error(), "\n"); lines > 0 {
				t.Errorf("one mistake, noted %d times:\n%v", lines+1, err)
			}
		})
	}
}

func TestAllMistakesAtOnceUpToTwenty(t *testing.T) {
	_, err := parse(good + strings.Repeat("      - {demand: -1}\n", 30))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 21 ||
		!strings.HasPrefix(lines[20], "f: and ") {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// Quotas count in units of the flow, in each pool that it uses: the smallest holds.
func TestFlowsThroughSeveralPools(t *testing.T) {
	problems, err := parse(head + `kind: Pool, name: pools/p, spec: {capacity: 10}}
` + head + `kind: Pool, name: pools/q, spec: {capacity: 100}}
` + head + `kind: Tenant, name: tenants/a, spec: {weight: 2}}
` + head + `kind: Quota, name: tenants/a/quotas/p, spec: {guaranteed: 1, max: 8}}
` + head + `kind: Quota, name: tenants/a/quotas/q, spec: {guaranteed: 20, max: 30}}
` + head + `kind: Tenant, name: tenants/b}
- apiVersion: titrate.dev/v1alpha1
  kind: Demand
  spec:
    flows:
      - {name: both, tenant: a, uses: {p: 1, q: 10}}
      - {tenant: b, uses: {p: 1, q: 0}}
      - {tenant: b, pool: q, demand: 3}
`)
	if err != nil || len(problems) != 1 {
		t.Fatal(len(problems), err)
	}
	p := problems[0]
	want := []solve.Tenant{
		{Name: "both", Weight: 2, Guaranteed: 1, Max: 3, Demand: math.Inf(1), Uses: []solve.Use{{0, 1}, {1, 10}}},
		{Name: "b", Weight: 1, Max: math.Inf(1), Demand: math.Inf(1), Uses: []solve.Use{{0, 1}}},
		{Name: "b/q", Weight: 1, Max: math.Inf(1), Demand: 3, Uses: []solve.Use{{1, 1}}},
	}
	if p.Sharing != solve.MaxMin || p.Guarantee != solve.Minimum || p.Alpha != 1 || !reflect.DeepEqual(p.Tenants, want) {
		t.Errorf("%+v\nwant %+v", p, want)
	}
}

// Resources without a Demand are solved too: all tenants ask for all that they can get. Pools of another law
// are a separate problem, and the results come together.
func TestWithoutADemand(t *testing.T) {
	problems, err := parse("[{\"apiVersion\": \"titrate.dev/v1alpha1\",\n\t\"kind\": \"Pool\", \"name\": \"pools/p\", " +
		"\"spec\": {\"capacity\": 30}},\n\t" + strings.TrimPrefix(head, "- ") +
		"kind: Pool, name: pools/q, spec: {capacity: 90, sharing: PROPORTIONAL}}, " + strings.TrimPrefix(head, "- ") +
		"kind: Tenant, name: tenants/a, spec: {weight: 2}}, " + strings.TrimPrefix(head, "- ") +
		"kind: Tenant, name: tenants/b}]")
	if err != nil || len(problems) != 2 {
		t.Fatal(len(problems), err)
	}
	var results []*solve.Result
	for _, p := range problems {
		r, err := p.Solve()
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	r := solve.Together(results)
	want := []solve.TenantResult{{"a/p", 20, "p"}, {"b/p", 10, "p"}, {"a/q", 60, "q"}, {"b/q", 30, "q"}}
	if !slices.Equal(r.Tenants, want) || len(r.Pools) != 2 || r.Status != solve.OK {
		t.Errorf("%+v", r)
	}
}

func TestBrokenInput(t *testing.T) {
	f := document.Open("f", io.MultiReader(strings.NewReader(good), &failing{}))
	if _, err := solve.Parse([]*document.File{f}); err == nil || err.Error() != "f: cannot read: torn" {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errors.New("torn") }

// For any bytes: no panic, and a problem that is read can be solved and written.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(head + "kind: Pool, name: pools/p, spec: {capacity: 1e-3, sharing: PROPORTIONAL, alpha: 2}}\n" + head +
		"kind: Tenant, name: tenants/t}\n" + head + "kind: Quota, name: tenants/t/quotas/p, spec: {guaranteed: 9, weight: 0}}")
	f.Add(head + "kind: Pool, name: pools/p}\n" + head + "kind: Demand, spec: {flows: [&a {tenant: *a}, {? [] : {}}]}}")
	f.Fuzz(func(t *testing.T, text string) {
		problems, err := parse(text)
		if err != nil {
			return
		}
		for _, p := range problems {
			solvable(t, p)
		}
	})
}

// solvable solves a problem and writes the result in all formats.
func solvable(t *testing.T, p *solve.Problem) {
	r, err := p.Solve()
	if err != nil {
		if p.Sharing != solve.Proportional {
			t.Fatal(err)
		}
		return
	}
	var asJSON, asYAML, table bytes.Buffer
	if err := errors.Join(r.WriteJSON(&asJSON), r.WriteYAML(&asYAML), r.WriteTable(&table, p, false)); err != nil {
		t.Fatal(err)
	}
	var back, again solve.Result
	if err := errors.Join(json.Unmarshal(asJSON.Bytes(), &back),
		yaml.Unmarshal(asYAML.Bytes(), &again)); err != nil {
		t.Fatal(err)
	}
	feasible(t, p, r)
}
