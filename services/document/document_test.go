package document

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
)

func TestParseReadsEveryField(t *testing.T) {
	f, err := os.Open("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	got, err := Read("all.yaml", f)
	if err != nil {
		t.Fatal(err)
	}
	want := []resource.Message{
		&quotav1.Pool{Name: "pools/api", Capacity: 300, Sharing: quotav1.Sharing_PROPORTIONAL, Alpha: 2,
			Guarantee: quotav1.Guarantee_ADDITIVE, OnLoss: quotav1.OnLoss_SAFE_RATE,
			HardExpiry: durationpb.New(5 * time.Minute),
			Adaptive:   &quotav1.Adaptive{Min: 100, Max: 900}, Cost: "tokens",
			Queue: &quotav1.Queue{Aqm: quotav1.Aqm_DROP_TAIL, DelayTarget: durationpb.New(50 * time.Millisecond),
				MaxWait: durationpb.New(1500 * time.Millisecond), MaxRequests: 64}},
		&quotav1.Tenant{Name: "tenants/acme", Etag: "1f", DisplayName: "Acme & Söhne", Weight: 3, Plan: "gold",
			Resets: []*quotav1.Reset{{Limit: "per-client", Client: "42", Time: &timestamppb.Timestamp{Seconds: 1795824000}}}},
		&quotav1.Quota{Name: "tenants/acme/quotas/api", Guaranteed: 10.5, Max: proto.Float64(20),
			Weight: proto.Float64(2), Mode: quotav1.Mode_OFF,
			Until: timestamppb.New(time.Date(2027, 1, 31, 11, 0, 0, 5e8, time.UTC))},
		&quotav1.Limit{Name: "tenants/-/limits/per-client", Key: quotav1.Key_CLIENT, Rate: "10/min", Burst: 20,
			Pools: []string{"api", "search.v2"}, Strict: true, Identity: "ip", Classes: []string{"writes", "search.v2"},
			Mode:      quotav1.Mode_SHADOW,
			Precision: quotav1.Precision_EXACT, Scope: quotav1.Scope_GLOBAL, Cost: "input.tokens",
			Queue:         &quotav1.Queue{Aqm: quotav1.Aqm_POLICE},
			Until:         timestamppb.New(time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)),
			Plans:         []*quotav1.LimitPlan{{Plan: "gold", Rate: "50/min", Burst: 9}},
			RequestedRate: &quotav1.RequestedRate{Least: "1/min", Most: "100/min"},
			Overrides: []*quotav1.InlineOverride{{Client: "42", Rate: "100/s", Burst: 200}, {Client: "batch", Rate: "1/h",
				Until: timestamppb.New(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))}}},
	}
	if len(got) != len(want) {
		t.Fatalf("%d documents, want %d", len(got), len(want))
	}
	for i, d := range got {
		if !proto.Equal(d.Resource, want[i]) {
			t.Errorf("document %d\n got %v\nwant %v", i, d.Resource, want[i])
		}
		fields := d.Resource.ProtoReflect().Descriptor().Fields()
		for j := range fields.Len() {
			if f := fields.Get(j); !beside[f.Name()] && f.Name() != "concurrency" && f.Name() != "quota" &&
				!d.Resource.ProtoReflect().Has(f) {
				t.Errorf("all.yaml says nothing of %s", f.FullName())
			}
		}
	}
	if got[1].Line != 16 {
		t.Errorf("second document at line %d, want 16", got[1].Line)
	}
}

// A concurrency stands in the place of a rate.
func TestParseReadsConcurrency(t *testing.T) {
	const text = "apiVersion: titrate.dev/v1alpha1\nkind: Limit\nname: tenants/a/limits/l\n" +
		"spec: {concurrency: 7, overrides: [{client: b, concurrency: 2}]}\n"
	got, err := Parse("f.yaml", []byte(text))
	want := &quotav1.Limit{Name: "tenants/a/limits/l", Concurrency: 7,
		Overrides: []*quotav1.InlineOverride{{Client: "b", Concurrency: 2}}}
	if err != nil || len(got) != 1 || !proto.Equal(got[0].Resource, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// So does a quota.
func TestParseReadsQuota(t *testing.T) {
	const text = "apiVersion: titrate.dev/v1alpha1\nkind: Limit\nname: tenants/a/limits/l\n" +
		"spec: {quota: {amount: 7, per: WEEK, zone: Europe/Berlin, startsOn: SUN, soft: [0.5, 1], onLoss: CLOSED}, " +
		"overrides: [{client: b, amount: 2}]}\n"
	got, err := Parse("f.yaml", []byte(text))
	want := &quotav1.Limit{Name: "tenants/a/limits/l", Quota: &quotav1.CalendarQuota{Amount: 7,
		Per: quotav1.CalendarQuota_WEEK, Zone: "Europe/Berlin", StartsOn: "SUN", Soft: []float64{.5, 1},
		OnLoss: quotav1.CalendarQuota_CLOSED}, Overrides: []*quotav1.InlineOverride{{Client: "b", Amount: 2}}}
	if err != nil || len(got) != 1 || !proto.Equal(got[0].Resource, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// A List of Kubernetes stands for what is in it.
func TestAListIsItsItems(t *testing.T) {
	const text = "apiVersion: v1\nkind: List\nmetadata: {}\nitems:\n- " + "apiVersion: titrate.dev/v1alpha1\n" +
		"  kind: Tenant\n  name: tenants/a\n- {apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/b}\n"
	got, err := Parse("f.yaml", []byte(text))
	if err != nil || len(got) != 2 || got[0].Name() != "tenants/a" || got[1].Line != 8 {
		t.Errorf("%v %v", got, err)
	}
}

const head = "apiVersion: titrate.dev/v1alpha1\n"

func TestErrorsNameTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", head + "kind: Pool\nname: pools/api\nspec:\n  capactiy: 3\n",
			"f.yaml:5: spec.capactiy: unknown field; known are capacity, sharing"},
		{"unknown nested field", head +
			"kind: Pool\nname: pools/api\nspec:\n  capacity: 1\n  queue:\n    maxwait: 1s\n",
			"f.yaml:7: spec.queue.maxwait: unknown field"},
		{"unknown part", head + "kind: Pool\nname: pools/api\nspecs: {}\n", "f.yaml:4: specs: unknown field"},
		{"metadata", head + "kind: Pool\nmetadata: {name: api}\n",
			"f.yaml:3: metadata: unknown field; name stands at the top"},
		{"name in spec", head + "kind: Pool\nname: pools/api\nspec: {name: x}\n", "f.yaml:4: spec.name: unknown field"},
		{"twice", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 1\n  capacity: 2\n",
			"f.yaml:6: spec.capacity: given twice"},
		{"twice in two spellings", head +
			"kind: Pool\nname: pools/api\nspec: {capacity: 1, onLoss: OPEN, on_loss: OPEN}\n",
			"f.yaml:4: spec.on_loss: given twice"},
		{"text for a number", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: \"3\"\n",
			`f.yaml:5: spec.capacity: want a number, found "3"`},
		{"infinite", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: .inf\n",
			`f.yaml:5: spec.capacity: want a number`},
		{"number for text", head + "kind: Limit\nname: tenants/a/limits/b\nspec:\n  rate: 1/s\n  overrides:\n  - " +
			"rate: 1/s\n    client: 42\n", `f.yaml:8: spec.overrides[0].client: want text, in quotes`},
		{"enum", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 1\n  sharing: max_min\n",
			`f.yaml:6: spec.sharing: want one of MAX_MIN, PROPORTIONAL, found "max_min"`},
		{"duration", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 1\n  hardExpiry: 5\n",
			`f.yaml:6: spec.hardExpiry: want a duration with its unit`},
		{"negative count", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 1\n  queue: {maxRequests: -1}\n",
			`f.yaml:6: spec.queue.maxRequests: want a whole number`},
		{"bool", head + "kind: Limit\nname: tenants/a/limits/b\nspec:\n  rate: 1/s\n  strict: yes\n",
			`f.yaml:6: spec.strict: want true or false`},
		{"list", head + "kind: Limit\nname: tenants/a/limits/b\nspec:\n  rate: 1/s\n  pools: api\n",
			`f.yaml:6: spec.pools: want a list`},
		{"mapping", head + "kind: Pool\nname: pools/api\nspec: [1]\n",
			`f.yaml:4: spec: want a mapping of fields, found a list`},
		{"kind", head + "kind: pool\nname: pools/api\n",
			`f.yaml:2: kind: "pool" should be one of Pool, Plan, Tenant, Quota, Limit, Override`},
		{"kind and name", head + "kind: Pool\nname: tenants/api\n",
			`f.yaml:3: name: "tenants/api" names a Tenant, but kind is Pool`},
		{"bare name", head + "kind: Pool\nname: api\n", `f.yaml:3: name: "api" lacks what it is a name of: want such as pools/api`},
		{"no name", head + "kind: Pool\nspec: {capacity: 1}\n", `f.yaml:1: name: missing`},
		{"version", "apiVersion: v1\nkind: Pool\nname: pools/api\nspec: {capacity: 1}\n",
			`f.yaml:1: apiVersion: "v1" should be "titrate.dev/v1alpha1"`},
		{"value", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: -1\n",
			`f.yaml:5: spec.capacity: must be greater than 0`},
		{"missing value", head + "kind: Pool\nname: pools/api\nspec: {}\n",
			`f.yaml:4: spec.capacity: missing; must be greater than 0`},
		{"value in a list", head + "kind: Limit\nname: tenants/a/limits/b\nspec:\n  rate: 1/s\n  overrides:\n  - " +
			"client: x\n    rate: 5\n", `f.yaml:8: spec.overrides[0].rate: want a rate with its unit, such as 5/s`},
		{"meaning in a list", head + "kind: Limit\nname: tenants/a/limits/b\nspec:\n  rate: 1/s\n  overrides:\n  - " +
			"client: x\n    rate: 5/fortnight\n", `f.yaml:8: spec.overrides[0].rate: rate "5/fortnight": unknown unit`},
		{"burst of 0", head + "kind: Limit\nname: tenants/a/limits/b\nspec:\n  rate: 1/s\n  burst: 0\n",
			`f.yaml:6: spec.burst: 0 must be at least 1, or no request ever passes; left out it is the amount`},
		{"burst of 0 in a list", head + "kind: Limit\nname: tenants/a/limits/b\nspec:\n  rate: 1/s\n  overrides:\n  - " +
			"client: x\n    rate: 5/s\n    burst: 0.0\n", `f.yaml:9: spec.overrides[0].burst: 0 must be at least 1`},
		{"maxRequests of 0", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 1\n  queue: {maxRequests: 0}\n",
			`f.yaml:6: spec.queue.maxRequests: 0 must be at least 1; left out it is 1024, and aqm POLICE lets no`},
		{"weight of 0", head + "kind: Tenant\nname: tenants/a\nspec: {weight: 0}\n", `f.yaml:4: spec.weight: 0 must be above 0`},
		{"Deployment", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api}\nspec: {replicas: 2}\n",
			`f.yaml:2: kind: a Deployment of Kubernetes (apps/v1) is no document: a document has apiVersion ` +
				`titrate.dev/v1alpha1`},
		{"Secret", "kind: Secret\napiVersion: v1\n",
			`f.yaml:1: kind: a Secret of Kubernetes is no document; give each file that stands under its data`},
		{"kind with a slip and another version", "apiVersion: v1\nkind: Pol\nname: pools/api\n",
			`f.yaml:2: kind: "Pol" should be one of Pool, Plan, Tenant, Quota, Limit, Override, Scenario, Demand; did you mean Pool?`},
		{"List with another field", "apiVersion: v1\nkind: List\nitems: []\nitem: {}\n",
			`f.yaml:4: item: unknown field; a List has apiVersion, kind, metadata and items`},
		{"wrong in a List", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n",
			`f.yaml:5: kind: a Deployment of Kubernetes (apps/v1)`},
		{"a number that is two", head + "kind: Pool\nname: pools/api\nspec:\n  capacity: 010\n",
			`f.yaml:5: spec.capacity: want a number without a 0 in front (010 is 8 in YAML 1.1 and 10 in YAML 1.2), ` +
				`found 010`},
		{"a whole number that is two", head +
			"kind: Pool\nname: pools/api\nspec: {capacity: 1, queue: {maxRequests: 010}}\n",
			`f.yaml:4: spec.queue.maxRequests: want a number without a 0 in front`},
		{"ConfigMap", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata: {limits.yaml: \"\"}\n",
			`f.yaml:2: kind: a ConfigMap of Kubernetes is no document; give each file that stands under its data`},
		{"alias", head + "kind: Pool\nname: &n pools/api\nspec: {capacity: *n}\n", `alias`},
		{"syntax", head + "kind: [Pool\nname: x\n", `f.yaml:1: did not find expected`},
		{"second document", head + "kind: Pool\nname: pools/api\nspec: {capacity: 1}\n---\n" + head +
			"kind: Pool\nname: pools/b\nspec:\n  capacity: x\n", `f.yaml:10: spec.capacity`},
		{"ratelimit", "domain: shop\ndescriptors: []\n", `f.yaml:1: this is a configuration of envoyproxy/ratelimit: titrate ` +
			`import ratelimit f.yaml turns it into documents`},
		{"scalar", "hello\n", `f.yaml:1: want a document`},
		{"etag", head + "kind: Pool\nname: pools/api\netag: 12\nspec: {capacity: 1}\n", `f.yaml:4: etag: want text`},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs, err := Parse("f.yaml", []byte(c.text))
			if err == nil {
				t.Fatalf("read %v", docs)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error\n     %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	_, err := Parse("f.yaml", []byte(head+"kind: Pool\nname: pools/api\nspec:\n  capacity: x\n  colour: red\n---\n"+
		head+"kind: Poll\nname: pools/b\n"))
	if n := strings.Count(err.Error(), "f.yaml:"); n != 3 {
		t.Errorf("%d mistakes, want 3:\n%v", n, err)
	}
	// What depends on a field that could not be read is not judged; all else is, in the order of the lines.
	_, err = Parse("f.yaml", []byte("kind: Pool\nname: api\nspec:\n  capactiy: 3\n  weight: 1\n"+
		"  queue: {maxWait: 5, delayTarget: 2s}\n  adaptive: {min: 9, max: 5}\n---\n"+head+
		"kind: Limit\nname: tenants/a/limits/b\nspec: {rate: 5, burst: .5, pools: [pools/api]}\n"))
	var places []string
	for line := range strings.Lines(err.Error()) {
		places = append(places, strings.Join(strings.SplitN(line, ": ", 3)[:2], " "))
	}
	want := "f.yaml:1 apiVersion, f.yaml:2 name, f.yaml:4 spec.capactiy, f.yaml:5 spec.weight, f.yaml:6 " +
		"spec.queue.maxWait, f.yaml:7 spec.adaptive, f.yaml:12 spec.rate, f.yaml:12 spec.burst, f.yaml:12 spec.pools[0]"
	if got := strings.Join(places, ", "); got != want {
		t.Errorf("mistakes at\n     %s\nwant %s\n%v", got, want, err)
	}
}

// A zero that would become a default is one mistake, a value of the wrong type is one, and null is absent.
func TestZerosAndNullsAreSaidOnce(t *testing.T) {
	tenant, pool := head+"kind: Tenant\nname: tenants/a\nspec: ", head+"kind: Pool\nname: pools/a\nspec: "
	for _, c := range []struct{ text, want string }{
		{tenant + "{weight: 0}", "f:4: spec.weight: 0 must be above 0; left out it follows the plan, or is 1"},
		{tenant + "{weight: three}", `f:4: spec.weight: want a number, found "three"`},
		{tenant + "{weight: }", ""},
		{pool + "{capacity: 1, alpha: 0}", "f:4: spec.alpha: 0 must be 0.1 to 10; left out it is 1"},
		{pool + "{capacity: 1, alpha: [0]}", "f:4: spec.alpha: want a number, found a list"},
		{pool + "{capacity: 1, alpha: }", ""},
		{pool + "\n  alpha: 1\n  capacity:\n", "f:6: spec.capacity: missing; must be greater than 0"},
	} {
		got := ""
		if _, err := Parse("f", []byte(c.text)); err != nil {
			got = err.Error()
		}
		if strings.Contains(got, "\n") || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s\n%s\nwant %s", c.text, got, c.want)
		}
	}
}

// 100,000 unreadable fields and as many missing ones: each one compared with each would take minutes.
func TestManyMistakesTakeLinearTime(t *testing.T) {
	_, err := Parse("f", []byte(head+"kind: Limit\nname: tenants/a/limits/b\nspec: {rate: 1/s, overrides: ["+
		strings.Repeat("{burst: 0},\n", 100_000)+"]}\n"))
	if err == nil || !strings.Contains(err.Error(), "f:4: spec.overrides[0].burst: 0 must be at least 1") ||
		!strings.Contains(err.Error(), " more mistakes") {
		t.Errorf("%v", err)
	}
}

func TestEmptyAndListed(t *testing.T) {
	if docs, err := Parse("f", []byte("# nothing\n---\n\n---\n")); err != nil || len(docs) != 0 {
		t.Errorf("%v (%v)", docs, err)
	}
	docs, err := Parse("f.json", []byte("[\n\t{\"apiVersion\": \"titrate.dev/v1alpha1\", \"kind\": \"Tenant\", "+
		"\"name\": \"tenants/a\",\n\t\t\"spec\": {\"displayName\": \"\\ud83d\\ude00 \\\\ud83d\"}, \"status\": "+
		"{\"any\": 1}}\n]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := docs[0].Resource.(*quotav1.Tenant).DisplayName; got != "😀 \\ud83d" {
		t.Errorf("display name %q", got)
	}
}

// Documents of other kinds are kept unread, for callers that want them.
func TestExtras(t *testing.T) {
	text := head + "kind: Tenant\nname: tenants/a\n---\n" + head + "kind: Scenario\nname: two words\nspec: {x: 1}\n---\n" +
		head + "kind: Demand\n"
	f := Open("f", strings.NewReader(text))
	if len(f.Documents) != 1 || len(f.Extras) != 2 || f.Err() != nil {
		t.Fatalf("%+v: %v", f, f.Err())
	}
	if e := f.Extras[0]; e.Kind != Scenario || e.Name != "two words" || e.Spec == nil || e.Line != 5 {
		t.Errorf("%+v", e)
	}
	if e := f.Extras[1]; e.Kind != Demand || e.Spec != nil {
		t.Errorf("%+v", e)
	}
	if docs, err := Parse("f", []byte(text)); err != nil || len(docs) != 1 {
		t.Errorf("%v (%v)", docs, err)
	}
	if _, err := Parse("f", []byte(head+"kind: Scenario\nspce: {}\n")); err == nil {
		t.Error("a Scenario with an unknown field is read")
	}
}

func TestUnique(t *testing.T) {
	one := head + "kind: Tenant\nname: tenants/a\n"
	a, err := Parse("a.yaml", []byte(one))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse("b.yaml", []byte(one))
	if err != nil {
		t.Fatal(err)
	}
	err = Unique(append(a, b...))
	if err == nil || err.Error() != "b.yaml:3: name: tenants/a stands at a.yaml:1 already" {
		t.Errorf("%v", err)
	}
	if err := Unique(a); err != nil {
		t.Error(err)
	}
}

func TestTooLong(t *testing.T) {
	_, err := Read("f", strings.NewReader(strings.Repeat("#", MaxBytes+1)))
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%v", err)
	}
}

func TestOutputShowsStatus(t *testing.T) {
	m := &quotav1.Quota{Name: "tenants/acme/quotas/api", Guaranteed: 10, Mode: quotav1.Mode_OFF, Etag: "1f",
		UpdateTime: timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		Status:     &quotav1.QuotaStatus{Demand: 12.5, Share: 11, BoundBy: quotav1.Bound_POOL, Stale: true}}
	var y, j bytes.Buffer
	if err := errors.Join(WriteYAML(&y, m), WriteJSON(&j, m)); err != nil {
		t.Fatal(err)
	}
	wantYAML := `apiVersion: titrate.dev/v1alpha1
kind: Quota
name: tenants/acme/quotas/api
spec:
  guaranteed: 10
  mode: "OFF"
status:
  demand: 12.5
  share: 11
  boundBy: POOL
  stale: true
  etag: 1f
  updateTime: "2026-01-02T03:04:05Z"
`
	if y.String() != wantYAML {
		t.Errorf("YAML\n%s\nwant\n%s", y.String(), wantYAML)
	}
	wantJSON := `{
  "apiVersion": "titrate.dev/v1alpha1",
  "kind": "Quota",
  "name": "tenants/acme/quotas/api",
  "spec": {
    "guaranteed": 10,
    "mode": "OFF"
  },
  "status": {
    "demand": 12.5,
    "share": 11,
    "boundBy": "POOL",
    "stale": true,
    "etag": "1f",
    "updateTime": "2026-01-02T03:04:05Z"
  }
}
`
	if j.String() != wantJSON {
		t.Errorf("JSON\n%s\nwant\n%s", j.String(), wantJSON)
	}
}

func roundTrip(t interface{ Fatalf(string, ...any) }, ms []resource.Message) {
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return WriteYAML(b, ms...) },
		func(b *bytes.Buffer) error { return WriteJSON(b, ms...) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("write: %v", err)
		}
		docs, err := Parse("f", b.Bytes())
		if err != nil || len(docs) != len(ms) {
			t.Fatalf("%d of %d read back (%v) from\n%s", len(docs), len(ms), err, b.String())
		}
		for i, d := range docs {
			if want := resource.Spec(ms[i]); !proto.Equal(d.Resource, want) {
				t.Fatalf("read back %v\nwant %v\nfrom %s", d.Resource, want, b.String())
			}
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		positive := rapid.Float64Range(1, 1e9)
		limit := &quotav1.Limit{Name: "tenants/-/limits/x",
			Rate:  rapid.SampledFrom([]string{"1/s", "0.5/min", "1000/d"}).Draw(t, "rate"),
			Burst: positive.Draw(t, "burst"), Strict: rapid.Bool().Draw(t, "strict"),
			Mode: quotav1.Mode(rapid.IntRange(0, 3).Draw(t, "mode")),
			Pools: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?`), 0, 3,
				rapid.ID).Draw(t, "pools")}
		for _, client := range rapid.SliceOfNDistinct(rapid.StringN(1, 64, 256), 0, 3, rapid.ID).Draw(t, "clients") {
			limit.Overrides = append(limit.Overrides, &quotav1.InlineOverride{Client: client, Rate: "3/s"})
		}
		pool := &quotav1.Pool{Name: "pools/api", Capacity: positive.Draw(t, "capacity"),
			Queue: &quotav1.Queue{DelayTarget: durationpb.New(time.Duration(rapid.Int64Range(1e6, 1e9).Draw(t,
				"target")))}}
		tenant := &quotav1.Tenant{Name: "tenants/a", DisplayName: rapid.StringN(0, 60, 256).Draw(t, "display"),
			Weight: positive.Draw(t, "weight") / 1e3}
		quota := &quotav1.Quota{Name: "tenants/a/quotas/api",
			Weight: proto.Float64(rapid.Float64Range(0, 1e6).Draw(t, "w")),
			Status: &quotav1.QuotaStatus{Demand: positive.Draw(t, "demand")}}
		roundTrip(t, []resource.Message{pool, tenant, quota, limit})
	})
}

func FuzzParse(f *testing.F) {
	all, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(all)
	f.Add([]byte(`[{"apiVersion":"titrate.dev/v1alpha1","kind":"Tenant","name":"tenants/a","spec":{"displayName":"\ud83d\ude00"}}]`))
	f.Add([]byte("a: &a [*a]\n<<: *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := Parse("f", data)
		if err != nil {
			return
		}
		var ms []resource.Message
		for _, d := range docs {
			resource.SetOutput(d.Resource, "", nil)
			ms = append(ms, d.Resource)
		}
		if len(ms) > 0 {
			roundTrip(t, ms)
		}
	})
}

// A message has the field's name that the document has, and repeats little of a long text.
func TestMessagesRepeatTheDocument(t *testing.T) {
	const head = "apiVersion: titrate.dev/v1alpha1\n"
	long := strings.Repeat("x", 1e6)
	for text, want := range map[string]string{
		head + "kind: Pool\nname: pools/a\nspec: {capacity: 5, queue: {delayTarget: 3s, maxWait: 2s}}": "must not be above " +
			"maxWait, which is 2s",
		head + "kind: Pool\nname: pools/a\nspec: {capacity: 5, queue: {delay_target: 3s, max_wait: 2s}}": "must not be above " +
			"max_wait, which is 2s",
		head + "kind: Pool\nname: pools/a\nspec: {capacity: 5, queue: {delayTarget: 3s}}": "must not be above maxWait, ",
		head + "kind: Pool\nname: pools/a\nspec: {capacity: 5, onLoss: SAFE_RATE}":        "with onLoss SAFE_RATE",
		head + "kind: Limit\nname: tenants/-/limits/a\nspec: {rate: 5/s, classes: [max_wait, max_wait]}": `"max_wait" ` +
			`is named twice`,
		head + "kind: Limit\nname: tenants/-/limits/a\nspec: {rate: .nan}": "want a rate with its unit, such as 100/s, " +
			"100/min or 100/h, found .nan",
		head + "kind: Pool\nname: pools/a\nspec: {capacity: 5, alpha: 0}":            "0 must be 0.1 to 10; left out it is 1",
		head + "kind: Pool\nname: pools/" + long:                                     `xxx"…`,
		head + "kind: Pool\nname: " + long:                                           `xxx"…`,
		head + "kind: " + long:                                                       `xxx"…`,
		"apiVersion: " + long + "\nkind: Pool\nname: pools/a":                        `xxx"…`,
		"apiVersion: " + long + "\nkind: " + long:                                    "xxx…",
		head + "kind: Pool\nname: pools/a\nspec: {" + long[:900] + ": 5}":            "xxx…: unknown field",
		head + "kind: Pool\nname: pools/a\n" + long[:900] + ": 5":                    "xxx…: unknown field",
		head + "kind: Pool\nname: pools/a\nspec: {capacity: " + long + "}":           `xxx"…`,
		head + "kind: Pool\nname: pools/a\nspec: *" + long:                           "xxx…",
		head + "kind: Limit\nname: tenants/-/limits/a\nspec: {rate: 5/" + long + "}": `xxx"…`,
		head + "kind: Limit\nname: tenants/-/limits/a\nspec: {rate: 5/s, pools: [" + long + "], classes: [" + long +
			"], identity: " + long + "}": `xxx"…`,
	} {
		_, err := Parse("f.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%.200s: %.1000v; want %s", text, err, want)
		}
	}
}

// A time needs its zone. With and without quotes it is the same.
func TestTimes(t *testing.T) {
	for value, want := range map[string]string{
		`2026-12-01T00:00:00Z`:        "",
		`"2026-12-01T01:00:00+01:00"`: "",
		`2026-12-01`:                  "want a time with its zone, such as 2026-12-01T00:00:00Z",
		`"2026-12-01T00:00:00"`:       "want a time with its zone",
		`2026-12-01 00:00:00Z`:        "want a time with its zone",
		`1796083200`:                  "want a time with its zone",
		`{seconds: 3}`:                "want a time with its zone",
		`1h`:                          "want a time with its zone",
	} {
		got, err := Parse("x.yaml", []byte("{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/a/limits/b, "+
			"spec: {rate: 1/s, until: "+value+"}}"))
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "spec.until") {
				t.Errorf("%s: %v, want %s", value, err, want)
			}
		case err != nil:
			t.Errorf("%s: %v", value, err)
		case got[0].Resource.(*quotav1.Limit).GetUntil().GetSeconds() != 1796083200:
			t.Errorf("%s is read as %v", value, got[0].Resource)
		}
	}
}

// A long text is read in pieces: documents and mistakes are at the lines of the whole, and what follows a text that is
// no YAML is not read.
func TestALongTextIsReadInPieces(t *testing.T) {
	const count = 20_000
	lines := make([]string, 0, 3*count)
	for i := range count {
		lines = append(lines, "---", "# a tenant", fmt.Sprintf(
			"{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/t%d, spec: {weight: 2}}", i))
	}
	wrong := func(n int, spec string) { lines[3*n+2] = strings.Replace(lines[3*n+2], "weight: 2", spec, 1) }
	read := func() *File { return Open("f", strings.NewReader(strings.Join(lines, "\n"))) }
	f := read()
	if f.Err() != nil || len(f.Documents) != count {
		t.Fatalf("%d documents, %v", len(f.Documents), f.Err())
	}
	for i, d := range f.Documents {
		if d.Line != 3*i+3 || d.Name() != fmt.Sprintf("tenants/t%d", i) {
			t.Fatalf("document %d is %s at line %d", i, d.Name(), d.Line)
		}
	}
	f.Documents[count-1].Note("weight", "too much")
	if want := "f:60000: spec.weight: too much"; f.Err() == nil || f.Err().Error() != want {
		t.Errorf("noted later: %v, want %s", f.Err(), want)
	}
	wrong(3, "wait: 1")
	wrong(12_000, "weight: -1")
	wrong(15_000, "weight: 2}")
	wrong(19_000, "wait: 1")
	whole := tree.New("f")
	whole.Roots([]byte(strings.Join(lines, "\n")))
	f = read()
	got := strings.Split(f.Err().Error(), "\n")
	if len(got) != 3 || !strings.HasPrefix(got[0], "f:12: spec.wait: unknown") ||
		!strings.HasPrefix(got[1], "f:36003: spec.weight: ") || got[2] != whole.Err().Error() {
		t.Errorf("mistakes:\n%s", strings.Join(got, "\n"))
	}
	if n := len(f.Documents); n != 15_001 {
		t.Errorf("%d documents before the text that is no YAML", n)
	}
}
