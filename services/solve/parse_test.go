package solve_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/solve"
)

// good is a problem that mistakes are put into, a line at a time.
const good = `pools:
  - {name: api, capacity: 100}
tenants:
  - {name: a, uses: {api: 1}}
`

func TestMistakesHaveFileLineAndField(t *testing.T) {
	withPool := func(pool string) string { return strings.Replace(good, "{name: api, capacity: 100}", pool, 1) }
	withTenant := func(tenant string) string { return strings.Replace(good, "{name: a, uses: {api: 1}}", tenant, 1) }
	cases := []struct{ name, text, want string }{
		{"empty", "", "f:1: pools: the file is empty"},
		{"comments only", "# nothing\n---\n", "f:1: pools: the file is empty"},
		{"two documents", good + "---\n" + good, "f:5: a second document"},
		{"list", "- 1", "f:1: pools: want a problem with pools and tenants, found a list"},
		{"syntax", good + "  x: [", "f:"},
		{"no pools", "tenants: [{name: a, demand: 1}]", "f:1: pools: missing"},
		{"no tenants", "pools: [{name: a, capacity: 1}]", "f:1: tenants: missing"},
		{"pools empty", "pools: []\ntenants: [{name: a, demand: 1}]", "f:1: pools: want one at least"},
		{"pools scalar", "pools: 3\ntenants: [{name: a, demand: 1}]", `f:1: pools: want a list, found 3`},
		{"unknown field", good + "shares: 1\n", "f:5: shares: unknown field; known are sharing, alpha"},
		{"unknown field without value", good + "shares:\n", "f:5: shares: unknown field"},
		{"unknown in pool", withPool("{name: api, capacity: 1, weight: 2}"),
			"f:2: pools[0].weight: unknown field; known are name, capacity"},
		{"unknown in tenant", withTenant("{name: a, wieght: 2, uses: {api: 1}}"),
			"f:4: tenants[0].wieght: unknown field"},
		{"field twice", withTenant("{name: a, weight: 2, weight: 3, uses: {api: 1}}"),
			"f:4: tenants[0].weight: given twice"},
		{"sharing", good + "sharing: max_min\n", `f:5: sharing: want MAX_MIN or PROPORTIONAL, found "max_min"`},
		{"guarantee", good + "guarantee: FLOOR\n", `f:5: guarantee: want MINIMUM or ADDITIVE, found "FLOOR"`},
		{"alpha 0", good + "alpha: 0\n", "f:5: alpha: want 0.1 to 10, found 0"},
		{"alpha NaN", good + "alpha: .nan\n", "f:5: alpha: want a finite decimal number, found .nan"},
		{"zero capacity", withPool("{name: api, capacity: 0}"), "f:2: pools[0].capacity: want 1e-15 to 1e+18, found 0"},
		{"negative capacity", withPool("{name: api, capacity: -5}"),
			"f:2: pools[0].capacity: want 1e-15 to 1e+18, found -5"},
		{"no capacity", withPool("{name: api}"), "f:2: pools[0].capacity: missing"},
		{"capacity null", withPool("{name: api, capacity: null}"), "f:2: pools[0].capacity: missing"},
		{"infinite capacity", withPool("{name: api, capacity: .inf}"),
			"f:2: pools[0].capacity: want a finite decimal number, found .inf"},
		{"capacity 1e999", withPool("{name: api, capacity: 1e999}"),
			`f:2: pools[0].capacity: want a number, found "1e999"`},
		{"capacity text", withPool(`{name: api, capacity: "100"}`),
			`f:2: pools[0].capacity: want a number, found "100"`},
		{"capacity octal", withPool("{name: api, capacity: 0100}"),
			"f:2: pools[0].capacity: want a finite decimal number, found 0100"},
		{"pool nameless", withPool("{capacity: 1}"), "f:2: pools[0].name: missing"},
		{"pool number", withPool("{name: 7, capacity: 1}"),
			"f:2: pools[0].name: want text, in quotes if it looks like a number, found 7"},
		{"pool name empty", withPool(`{name: "", capacity: 1}`),
			"f:2: pools[0].name: want a name of printable characters"},
		{"pool name escape", withPool(`{name: "a\e[31m", capacity: 1}`),
			"f:2: pools[0].name: want a name of printable characters"},
		{"pool reserved", withPool(`{name: DEMAND, capacity: 1}`), "f:2: pools[0].name: DEMAND is what boundBy says"},
		{"pool twice", withPool("{name: api, capacity: 100}\n  - {name: api, capacity: 1}"),
			`f:3: pools[1].name: "api" is taken by number 0`},
		{"pool scalar", withPool("api"), `f:2: pools[0]: want a mapping of fields, found "api"`},
		{"tenant twice", good + "  - {name: a, uses: {api: 1}}\n", `f:5: tenants[1].name: "a" is taken by number 0`},
		{"negative weight", withTenant("{name: a, weight: -1, uses: {api: 1}}"),
			"f:4: tenants[0].weight: want 0 or 1e-15 to 1e+15, found -1"},
		{"weight NaN", withTenant("{name: a, weight: .NaN, uses: {api: 1}}"),
			"f:4: tenants[0].weight: want a finite decimal number, found .NaN"},
		{"weight bare NaN", withTenant("{name: a, weight: NaN, uses: {api: 1}}"),
			`f:4: tenants[0].weight: want a number, found "NaN"`},
		{"weight list", withTenant("{name: a, weight: [1], uses: {api: 1}}"),
			"f:4: tenants[0].weight: want a number, found a list"},
		{"weight bool", withTenant("{name: a, weight: true, uses: {api: 1}}"),
			`f:4: tenants[0].weight: want a number, found "true"`},
		{"demand negative", withTenant("{name: a, demand: -1, uses: {api: 1}}"),
			"f:4: tenants[0].demand: want 0 to 1e+18, or no such field for unbounded, found -1"},
		{"max infinite", withTenant("{name: a, max: .inf, uses: {api: 1}}"),
			"f:4: tenants[0].max: want a finite decimal number, or no such field for unbounded, found .inf"},
		{"guaranteed negative", withTenant("{name: a, guaranteed: -.5, uses: {api: 1}}"),
			"f:4: tenants[0].guaranteed: want 0 to 1e+18, found -.5"},
		{"unknown pool", withTenant("{name: a, uses: {db: 1}}"),
			"f:4: tenants[0].uses.db: no pool has this name; pools are api"},
		{"unknown pool at nothing", withTenant("{name: a, uses: {api: 1, db: }}"),
			"f:4: tenants[0].uses.db: no pool has this name"},
		{"negative cost", withTenant("{name: a, uses: {api: -2}}"),
			"f:4: tenants[0].uses.api: want 0 or 1e-15 to 1e+15, found -2"},
		{"use twice", withTenant("{name: a, uses: {api: 1, api: 2}}"), "f:4: tenants[0].uses.api: given twice"},
		{"uses a list", withTenant("{name: a, uses: [api]}"),
			"f:4: tenants[0].uses: want a mapping of fields, found a list"},
		{"no bound", withTenant("{name: a}"),
			"f:4: tenants[0].uses: a tenant that uses no pool and has neither max nor demand"},
		{"alias", "a: &x 1\n" + good, "f:1: a: unknown field"},
		{"alias as value", withTenant("{name: a, weight: &w 1, demand: *w}"),
			"f:4: tenants[0].demand: want a number, found an alias"},
		{"merge", withTenant("{<<: {name: a}, demand: 1}"), "f:4: tenants[0]: want a field's name"},
		{"JSON NaN", `{"pools": [{"name": "p", "capacity": NaN}], "tenants": [{"name": "a", "demand": 1}]}`,
			`f:1: pools[0].capacity: want a number, found "NaN"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := solve.Parse("f", strings.NewReader(c.text))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("error %v\nwant  %s…", err, c.want)
			}
			var place *document.Error
			if !errors.As(err, &place) || place.File != "f" {
				t.Errorf("%T has no place", err)
			}
		})
	}
}

func TestAllMistakesAtOnceUpToTwenty(t *testing.T) {
	var b strings.Builder
	b.WriteString("pools: [{name: api, capacity: 1}]\ntenants:\n")
	for range 30 {
		b.WriteString("  - {weight: 1, demand: 1}\n")
	}
	_, err := solve.Parse("f", strings.NewReader(b.String()))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 21 || lines[20] != "f: and 10 more mistakes" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestAbsentFieldsAndJSON(t *testing.T) {
	// Tabs between the tokens of JSON, a null as absent, cost 0 as no use.
	text := "{\n\t\"pools\": [\n\t\t{\"name\": \"p\", \"capacity\": 10}, {\"name\": \"q\", \"capacity\": 1}],\n" +
		"\t\"tenants\": [{\"name\": \"a\", \"max\": null, \"uses\": {\"p\": 1, \"q\": 0}}, {\"name\": \"b\", " +
		"\"demand\": 3}]}"
	p, err := solve.Parse("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if p.Sharing != solve.MaxMin || p.Guarantee != solve.Minimum || p.Alpha != 1 || p.Tenants[0].Weight != 1 ||
		len(p.Tenants[0].Uses) != 1 {
		t.Errorf("defaults: %+v", p)
	}
	r, err := p.Solve()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.Tenants[0], r.Tenants[1]; a.Share != 10 || a.BoundBy != "p" || b.Share != 3 ||
		b.BoundBy != solve.ByDemand {
		t.Errorf("%+v", r.Tenants)
	}
}

func TestLongAndBrokenInput(t *testing.T) {
	if _, err := solve.Parse("f", io.MultiReader(strings.NewReader(good), &failing{})); err == nil ||
		err.Error() != "f: cannot read: torn" {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errors.New("torn") }

// Whatever bytes come in: no panic, and what is read can be solved and written.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"sharing": "PROPORTIONAL", "alpha": 2, "pools": [{"name": "p", "capacity": 1e-3}], "tenants": [{"name": "t", "guaranteed": 9, "uses": {"p": 1e9}}]}`))
	f.Add([]byte("guarantee: ADDITIVE\n" + good +
		"  - {name: b, weight: 0, guaranteed: 3, max: 2, demand: 1, uses: {api: .5}}\n"))
	f.Add([]byte("pools: [&a {name: *a}]\ntenants: {? [] : {}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := solve.Parse("f", bytes.NewReader(data))
		if err != nil {
			return
		}
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
	})
}
