package translate_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
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

// translated are the resources of descriptors of the domain d, and of the domain e, if any.
func translated(t *testing.T, domains ...string) (*translate.Result, map[string]*quotav1.Limit) {
	t.Helper()
	c := &ratelimitconfig.Config{}
	for i, descriptors := range domains {
		text := fmt.Sprintf("domain: %c\ndescriptors:\n%s", 'd'+i, descriptors)
		if err := c.Add("f", strings.NewReader(text), ratelimitconfig.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	r, limits := translate.Resources(c, translate.Options{}), map[string]*quotav1.Limit{}
	for _, m := range r.Resources {
		if l, ok := m.(*quotav1.Limit); ok {
			limits[strings.TrimPrefix(l.GetName(), "tenants/")] = l
		}
	}
	return r, limits
}

// limitOf is a descriptor with a limit.
func limitOf(key, value, more string) string {
	return fmt.Sprintf("  - {key: %s, value: %q, rate_limit: {unit: minute, requests_per_unit: 5}%s}\n", key, value, more)
}

// The numbers of single values stay if the limit of all values is too large for a Limit.
func TestValuesBesideALimitThatIsLeftOutStay(t *testing.T) {
	r, limits := translated(t, "  - {key: user, rate_limit: {unit: second, requests_per_unit: 4294967295}}\n"+
		limitOf("user", "bad", "")+"  - {key: user, value: good, rate_limit: {unlimited: true}}\n")
	bad := limits["d/limits/user_bad"]
	if len(limits) != 1 || bad.GetRate() != "5/min" || bad.GetKey() != quotav1.Key_TENANT ||
		fmt.Sprint(bad.GetClasses()) != "[user-bad]" {
		t.Errorf("%v", limits)
	}
	if changed, leftOut := r.Count(); changed != 0 || leftOut != 1 || len(r.Notes) != 1 {
		t.Errorf("%d changed, %d left out: %v", changed, leftOut, r.Notes)
	}
}

// A class has one meaning, whatever values look alike, and a meaning has one class in all domains.
func TestAClassHasOneMeaning(t *testing.T) {
	r, limits := translated(t, limitOf("path", "/api", "")+limitOf("path", "/api*", ", share_threshold: true")+
		limitOf("path", "/A", "")+limitOf("path", "/a", "")+limitOf("a-b", "c", "")+limitOf("a", "b-c", "")+
		"  - {key: User, rate_limit: {unit: day, requests_per_unit: 1}}\n"+
		"  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n", limitOf("path", "/A", ""))
	class := func(limit string) string { return fmt.Sprint(limits[limit].GetClasses(), limits[limit].GetIdentity()) }
	for limit, want := range map[string]string{"d/limits/path_-api": "[path-api]", "d/limits/path_-api-2": "[path-api-2]",
		"d/limits/path_-a": "[path-a]", "d/limits/path_-a-2": "[path-a-2]", "e/limits/path_-a": "[path-a]",
		"d/limits/a-b_c": "[a-b-c]", "d/limits/a_b-c": "[a-b-c-2]", "d/limits/user": "[]user",
		"d/limits/user-2": "[]user-2"} {
		if got := class(limit); got != want {
			t.Errorf("%s has the class and identity %s, want %s", limit, got, want)
		}
	}
	want := `[{path-api path="/api"} {path-api-2 path="/api*"} {path-a path="/A"} {path-a-2 path="/a"} ` +
		`{a-b-c a-b="c"} {a-b-c-2 a="b-c"}] [{user the value of User} {user-2 the value of user}]`
	if got := fmt.Sprint(r.Classes, r.Identities); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// Where ratelimit takes one of several limits, and Titrate holds all of them, a note says so.
func TestLimitsThatRatelimitTakesAloneAreNoted(t *testing.T) {
	const share, user = ", share_threshold: true", "  - {key: path, value: %q, descriptors: [{key: user, value: bob, " +
		"rate_limit: {unit: day, requests_per_unit: 1}}]}\n"
	all := "  - {key: path, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	besides := func(who, whom string) string {
		return "d.path_" + who + " applies besides d.path" + whom + ": ratelimit takes d.path_" + who + " alone"
	}
	for _, c := range []struct {
		name, text string
		kind       translate.Kind
		want       string // of the only note; "": there is none
	}{
		{"a value fits a pattern", limitOf("path", "/search", "") + limitOf("path", "/s*", ""), translate.Changed,
			besides("/search", "_/s*")},
		{"so does one behind it", limitOf("path", "/s*", share) + limitOf("path", "/search", ""), translate.Changed,
			besides("/search", "_/s*")},
		{"patterns: the first is taken", limitOf("path", "/s*", share) + limitOf("path", "/se*", share), translate.Changed,
			besides("/s*", "_/se*")},
		{"patterns that cross", limitOf("path", "/s*x", share) + limitOf("path", "*y*", share), translate.Changed,
			besides("/s*x", "_*y*")},
		{"patterns that do not", limitOf("path", "/s*x", share) + limitOf("path", "*y", share), "", ""},
		{"a value fits none", limitOf("path", "/api", "") + limitOf("path", "/s*", ""), "", ""},
		{"another key", limitOf("path", "/search", "") + limitOf("host", "/s*", ""), "", ""},
		{"an override", all + limitOf("path", "/search", "") + limitOf("path", "*ch", ", shadow_mode: true"),
			translate.Changed, besides("/search", "_*ch") + "|" + besides("*ch", "")},
		{"unlimited", "  - {key: path, value: /search, rate_limit: {unlimited: true}}\n" + limitOf("path", "/s*", ""),
			translate.LeftOut, "d.path_/search is unlimited, and the limit of d.path_/s* applies to it"},
		{"below", fmt.Sprintf(user+user, "/search", "/s*"), translate.Changed,
			besides("/search.user_bob", "_/s*.user_bob")},
		{"below one that it does not fit", fmt.Sprintf(user+user, "/api", "/s*"), "", ""},
		{"below, shared", fmt.Sprintf(user, "/search") + strings.Replace(fmt.Sprintf(user, "/s*"), ", descriptors",
			share+", descriptors", 1), translate.Changed, besides("/search.user_bob", "_/s*.user_bob")},
	} {
		r, _ := translated(t, c.text)
		var want []string
		if c.want != "" {
			want = strings.Split(c.want, "|")
		}
		if len(r.Notes) != len(want) {
			t.Errorf("%s: %v, want %v", c.name, r.Notes, want)
			continue
		}
		for i, n := range r.Notes {
			if n.Kind != c.kind || !strings.HasPrefix(n.Text, want[i]) {
				t.Errorf("%s: got %v, want %s: %s", c.name, n, c.kind, want[i])
			}
		}
	}
}

// A value or a pattern without a limit has none in ratelimit, whatever its siblings have. A value is an override of
// their limit; of all others a note says that the limit applies.
func TestNodesWithoutALimit(t *testing.T) {
	all := limitOf("user", "", "")
	r, limits := translated(t, all+"  - {key: user, value: free}\n  - {key: user, value: below, descriptors: "+
		"[{key: path, rate_limit: {unit: day, requests_per_unit: 1}}]}\n")
	var free []string
	for _, o := range limits["d/limits/user"].GetOverrides() {
		free = append(free, o.GetClient()+" "+o.GetRate())
	}
	if changed, leftOut := r.Count(); fmt.Sprint(free) != "[free 1000000000/s below 1000000000/s]" || changed+leftOut != 0 {
		t.Errorf("overrides %v, notes %v", free, r.Notes)
	}
	for name, text := range map[string]string{
		"a pattern":                            all + "  - {key: user, value: x*}\n",
		"a value beside a pattern":             limitOf("user", "x*", ", share_threshold: true") + "  - {key: user, value: xy}\n",
		"a pattern before a pattern that fits": "  - {key: user, value: x*}\n" + limitOf("user", "xy*", ", share_threshold: true"),
	} {
		r, _ := translated(t, text)
		if changed, leftOut := r.Count(); changed != 1 || leftOut != 0 || len(r.Notes) != 1 ||
			!strings.Contains(r.Notes[0].Text, `applies to what is under "user=x`) {
			t.Errorf("%s: %v", name, r.Notes)
		}
	}
	for name, text := range map[string]string{
		"a pattern after a pattern": limitOf("user", "x*", ", share_threshold: true") + "  - {key: user, value: xy*}\n",
		"no value beside a value":   limitOf("user", "xy", "") + "  - {key: user}\n",
		"another key":               all + "  - {key: path, value: x*}\n",
	} {
		if r, _ := translated(t, text); len(r.Notes) != 0 {
			t.Errorf("%s: %v", name, r.Notes)
		}
	}
}

// Weeks, months and years become quotas of the calendar, with their overrides, unless a value needs another period.
func TestWeeksMonthsAndYearsBecomeQuotas(t *testing.T) {
	of := func(value, unit string, n int) string {
		return fmt.Sprintf("  - {key: user, value: %q, rate_limit: {unit: %s, requests_per_unit: %d}}\n", value, unit, n)
	}
	for _, c := range []struct{ name, text, want, note string }{
		{"month", of("", "month", 9), "quota:{amount:9 per:MONTH}", "each month begins on its first day"},
		{"week and overrides", of("", "week", 9) + of("bob", "week", 4) + "  - {key: user, value: eve}\n",
			`overrides:{client:"bob" amount:4} overrides:{client:"eve" amount:1e+12} quota:{amount:9 per:WEEK}`,
			"each week begins on Monday"},
		{"another period beside it", of("", "week", 9) + of("bob", "day", 4),
			`rate:"9/w" overrides:{client:"bob" rate:"4/d"}`, "stays a bucket"},
		{"a blocked value", of("", "month", 9) + of("bob", "month", 0),
			`rate:"9/30d" overrides:{client:"bob" rate:"0"}`, "stays a bucket"},
		{"a bucket with a monthly value", of("", "day", 9) + of("bob", "month", 4),
			`rate:"9/d" overrides:{client:"bob" rate:"4/30d"}`, ""},
		{"nothing per month", of("", "month", 0), `rate:"0"`, ""},
		{"year", of("", "year", 9), "quota:{amount:9 per:YEAR}", "each year begins on 1 January"},
	} {
		r, limits := translated(t, c.text)
		l := limits["d/limits/user"]
		l.Name, l.Key, l.Identity = "", 0, ""
		if got := strings.ReplaceAll(l.String(), "  ", " "); got != c.want || len(limits) != 1 {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if (c.note == "") != (len(r.Notes) == 0) || c.note != "" && !strings.Contains(r.Notes[0].String(), c.note) {
			t.Errorf("%s: notes %v, want %s", c.name, r.Notes, c.note)
		}
	}
}
