package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/quota/quotatest"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/store/storetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// present is a moment in which the pool api is full.
type present struct{}

func (present) States(context.Context, []string, []string) quota.States {
	return quota.States{
		Pools: map[string]*quotav1.PoolStatus{"pools/api": {Demand: 410.25, Admitted: 299.9, Price: 0.3333,
			FairRate: 62.5, Epoch: 3}},
		Quotas: map[string]*quotav1.QuotaStatus{"tenants/acme/quotas/api": {Demand: 320, Share: 187.5,
			Admitted: 187.2, BoundBy: quotav1.Bound_POOL, Price: 0.3333, Stale: true}},
	}
}

// Rehearse knows that acme loses in a smaller pool.
func (present) Rehearse(_ context.Context, resources []*quotav1.Resource, _ []string, _ []*quotav1.SupposedDemand) (*quota.Rehearsal, error) {
	r := &quota.Rehearsal{}
	for _, e := range resources {
		if p := e.GetPool(); p.GetName() == "pools/api" {
			r.Pools = append(r.Pools, &quotav1.PoolEffect{Pool: p.Name, Demand: 410, CapacityBefore: 300,
				CapacityAfter: p.Capacity, FairRateBefore: 62.5, FairRateAfter: p.Capacity / 4, PriceBefore: .25,
				PriceAfter: 75 / p.Capacity})
			r.Flows = append(r.Flows, &quotav1.FlowEffect{Tenant: "tenants/acme", Pool: p.Name, DemandBefore: 320,
				DemandAfter: 320, ShareBefore: 187.5, ShareAfter: p.Capacity / 2, OverBefore: 132.5,
				OverAfter: 320 - p.Capacity/2, BoundAfter: quotav1.Bound_POOL})
		}
	}
	return r, nil
}

// Decisions knows one refused request, whose client has chosen a strange name.
func (present) Decisions(_ context.Context, id string) (*quotav1.FindDecisionsResponse, error) {
	out := &quotav1.FindDecisionsResponse{Agents: 2, Remembered: 12, Back: durationpb.New(190 * time.Second)}
	if id == "7d6ac4ae-8f1c-4f0e-9a53-0a3c5f6f2d11" {
		out.Decisions = []*quotav1.Decision{{
			Request: id, Gateway: "gw-1", Tenant: "acme", Client: "app-\x1b7", Pool: "api", Cost: 1,
			Ago: durationpb.New(14 * time.Second), Refused: true, Reason: "client_limit", Limit: "per-client",
			RetryAfter: durationpb.New(250 * time.Millisecond), Revision: 12, Epoch: 3,
			Limits: []*quotav1.LimitStep{{Limit: "per-client", Client: "app-\x1b7", Rate: 3, Burst: 3, Free: .25,
				Wait: durationpb.New(250 * time.Millisecond)}},
			Share: &quotav1.ShareStep{Share: 100, Rate: 50, Demand: .3, Credit: 50},
		}}
	}
	return out, nil
}

func (present) Findings(context.Context) []*quotav1.Finding {
	return []*quotav1.Finding{{Category: "etcd", State: quotav1.Finding_OK, Message: "the session lives"},
		{Category: "security", State: quotav1.Finding_WARNING, Message: "callers show no certificate",
			Advice: "give --tls-ca"}}
}

func (present) InForce(resource.Message) (int, int) { return 2, 3 }

func (present) Gateways() (int64, []*quotav1.Gateway, error) {
	return 90, []*quotav1.Gateway{{Name: "gw-1", Agent: "host-1", Revision: 90},
		{Name: "gw-2", Agent: "host-2", Revision: 80, LeftOut: 3},
		{Name: "gw-3", Agent: "host-2", Refused: 90, Reason: "it is \x1b[31mtoo large"}}, nil
}

// Usage has two pages: one record each.
func (present) Bucket(context.Context, string, string) (*quotav1.Bucket, error) {
	return &quotav1.Bucket{}, nil
}

func (present) History(context.Context, string) (*quotav1.PoolHistory, error) { return nil, nil }

func (present) Usage(r *quotav1.ListUsageRequest) (*quotav1.ListUsageResponse, error) {
	u := &quotav1.Usage{Id: "17", Limit: "tenants/acme/limits/monthly", Client: "key-1", Period: "2026-11",
		Amount: 1000, Settled: 825, Admitted: 800, Refused: 12}
	if r.GetPageToken() == "" {
		return &quotav1.ListUsageResponse{Usage: []*quotav1.Usage{u}, NextPageToken: "2"}, nil
	}
	u.Id, u.Client, u.Final, u.Lost = "18", "key-\x1b2", true, 1
	return &quotav1.ListUsageResponse{Usage: []*quotav1.Usage{u}}, nil
}

func (present) Overrides(string) int { return 0 }
func (present) Precision(*quotav1.Limit) (quotav1.Precision, string) {
	return quotav1.Precision_PRECISION_UNSPECIFIED, ""
}

func (present) Doubts(m resource.Message) (doubts []quota.Doubt, known bool) {
	if l, ok := m.(*quotav1.Limit); ok && l.Identity == "usr" {
		doubts = append(doubts, quota.Doubt{Field: "identity",
			Message: `identity "usr" is not known to 2 of 2 gateways`})
	}
	return doubts, true
}

func (present) Unknown(_ int, keep func(resource.Message) bool) []string {
	if !keep(&quotav1.Limit{Name: "tenants/acme/limits/output", Cost: "output"}) {
		return nil
	}
	return []string{`tenants/acme/limits/output: cost "output" is not known to 1 of 2 gateways (gw-2): the limit counts no ` +
		"request there."}
}

func (present) Explain(_ context.Context, tenant, pool string) ([]*quotav1.Explanation, error) {
	if tenant != "tenants/acme" || pool != "" && pool != "pools/api" {
		return nil, nil
	}
	return []*quotav1.Explanation{{
		Tenant: tenant, Pool: "pools/api", Capacity: 300, Demand: 320, Limited: true, Weight: 3, Guaranteed: 20,
		FairRate: 62.5, Share: 187.5, BoundBy: quotav1.Bound_POOL, Price: 0.3333, Epoch: 3, Admitted: 187.2,
		Gateways: []*quotav1.GatewayPart{{Gateway: "gw-1", Demand: 200, Admitted: 112.34},
			{Gateway: "gw-2", Demand: 120, Admitted: 74.86}},
	}}, nil
}

func (present) Activity(_ context.Context, s *quotav1.Selection, single bool) (*quotav1.TopResponse, error) {
	window, since := durationpb.New(time.Minute), durationpb.New(190*time.Second)
	out := &quotav1.TopResponse{Agents: 1}
	if s.Tenant != "acme" && s.Tenant != "" || s.Pool != "api" && s.Pool != "" ||
		s.Limit != "per-client" && s.Limit != "" || s.Gateway != "gw-1" && s.Gateway != "" {
		return out, nil
	}
	limit := &quotav1.Activity{Tenant: "acme", Limit: "per-client", Refused: 1180, ClientLimit: 1180, Window: window,
		Since: since}
	flow := &quotav1.Activity{Tenant: "acme", Pool: "api", Admitted: 20, Refused: 1180, ClientLimit: 1180,
		Window: window,
		Since:  since, AdmittedParts: []uint64{4, 4, 4, 0, 4, 2, 2}, RefusedParts: []uint64{96, 396, 296, 0, 196, 148,
			48},
		NewestPart: durationpb.New(4 * time.Second)}
	limit.RefusedParts, limit.AdmittedParts, limit.NewestPart = flow.RefusedParts, make([]uint64, 7), flow.NewestPart
	switch {
	case s.Order == quotav1.Selection_SHADOWED && s.By == quotav1.Selection_CLIENT && s.Tenant == "":
		out.Rows = []*quotav1.Activity{{Tenant: "acme", Limit: "tight", Client: "app-7", Shadowed: 400, Error: 3}, {}}
	case s.Order == quotav1.Selection_SHADOWED && s.By == quotav1.Selection_LIMIT && s.Tenant == "":
		limit.Limit, limit.Shadowed = "tight", 420
		out.Rows, out.Other = []*quotav1.Activity{limit, flow}, &quotav1.Activity{Shadowed: 60, Window: window}
	case s.By == quotav1.Selection_CLIENT:
		out.Rows = []*quotav1.Activity{{Tenant: "acme", Limit: "per-client", Client: "app-\x1b7", Refused: 900,
			Error: 3}}
	case single:
		flow.Gateway, limit.Gateway = "gw-1", "gw-1"
		out.Rows = []*quotav1.Activity{flow, limit}
	case s.By == quotav1.Selection_LIMIT:
		out.Rows = []*quotav1.Activity{limit}
	default:
		flow.Pool = ""
		out.Rows, out.Other = []*quotav1.Activity{flow}, &quotav1.Activity{Admitted: 300, Window: window}
	}
	return out, nil
}

// serveAPI serves the admin API on loopback, on a real store.
func serveAPI(t *testing.T) (address string) {
	t.Helper()
	return serve(t, storetest.Open(t))
}

func serve(t *testing.T, on *store.Store) (address string) {
	t.Helper()
	return quotatest.Serve(t, quota.New(on, present{}), func(to grpc.ServiceRegistrar) {
		quotav1.RegisterAccessServiceServer(to, access.NewServer(nil))
	})
}

// titrate runs a command line against a coordinator.
func titrate(t *testing.T, server, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	t.Setenv(serverEnv, server)
	var out, errs bytes.Buffer
	status = Run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return status, out.String(), errs.String()
}

// must runs a command line that has to succeed, without a word on stderr.
func must(t *testing.T, server, stdin string, args ...string) string {
	t.Helper()
	status, out, errs := titrate(t, server, stdin, args...)
	if status != command.ExitOK || errs != "" {
		t.Fatalf("titrate %v: status %d\n%s", args, status, errs)
	}
	return out
}

// fails runs a command line that has to fail, and wants words in its error.
func fails(t *testing.T, server string, status int, stdin string, words []string, args ...string) {
	t.Helper()
	got, out, errs := titrate(t, server, stdin, args...)
	if got != status || out != "" {
		t.Errorf("titrate %v: status %d, want %d; output %q", args, got, status, out)
	}
	for _, w := range words {
		if !strings.Contains(errs, w) {
			t.Errorf("titrate %v: %q is not in the error:\n%s", args, w, errs)
		}
	}
}

var (
	anyEtag = regexp.MustCompile(`(etag"?: )"?[0-9a-f]+"?`)
	anyTime = regexp.MustCompile(`(updateTime"?: )"[^"]+"`)
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = anyTime.ReplaceAllString(anyEtag.ReplaceAllString(got, `${1}"ETAG"`), `${1}"TIME"`)
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s\n--- got\n%s--- want\n%s", path, got, want)
	}
}

func TestOutput(t *testing.T) {
	server := serveAPI(t)
	golden(t, "apply", must(t, server, "", "apply", "-f", "testdata/demo.yaml"))
	for name, args := range map[string][]string{
		"get":         {"get"},
		"get-wide":    {"get", "-o", "wide"},
		"gateways":    {"get", "gateways"},
		"get-yaml":    {"get", "-o", "yaml"},
		"get-json":    {"get", "pools/api", "tenants/acme/quotas", "-o", "json"},
		"get-tenant":  {"get", "t", "tenants/acme"},
		"why":         {"why", "acme"},
		"why-json":    {"why", "tenants/acme", "pools/api", "-o", "json"},
		"why-yaml":    {"why", "acme", "api", "-o", "yaml"},
		"why-idle":    {"why", "acme", "batch"},
		"why-limit":   {"why", "acme", "per-client"},
		"why-shadow":  {"why", "acme", "--shadow"},
		"why-all":     {"why", "--shadow"},
		"why-request": {"why", "request", "7d6ac4ae-8f1c-4f0e-9a53-0a3c5f6f2d11"},
		"top":         {"top", "--once"},
		"top-limit":   {"top", "--once", "--by", "limit", "--tenant", "acme"},
		"top-client":  {"top", "--once", "--by", "client"},
		"top-json":    {"top", "--once", "-o", "json"},
		"top-idle":    {"top", "--once", "--tenant", "globex"},
		"get-help":    {"get", "--help"},
		"apply-help":  {"apply", "--help"},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, must(t, server, "", args...)) })
	}
	status, out, errs := titrate(t, server, "", "why", "request", "other")
	if status != command.ExitFailed || errs != "" {
		t.Errorf("of a request that no gateway knows: status %d, %s", status, errs)
	}
	golden(t, "why-unknown", out)
}

func TestApplyAgainAndEdited(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	for _, format := range []string{"yaml", "json"} {
		out := must(t, server, "", "get", "-o", format)
		again := must(t, server, out, "apply", "-f", "-")
		if n := strings.Count(again, " unchanged\n"); n != 7 || n != strings.Count(again, "\n") {
			t.Errorf("applying what get printed as %s:\n%s", format, again)
		}
	}
	out := must(t, server, "", "get", "pools/api", "-o", "yaml")
	edited := strings.Replace(out, "capacity: 300", "capacity: 400", 1)
	if got := must(t, server, edited, "apply", "-f", "-", "--dry-run"); got != "pools/api updated (dry run)\n" {
		t.Errorf("dry run: %q", got)
	}
	if got := must(t, server, edited, "apply", "-f", "-"); got != "pools/api updated\n" {
		t.Errorf("after a dry run: %q", got)
	}
	if got := must(t, server, "", "get", "pools/api"); !strings.Contains(got, "400/s") {
		t.Errorf("after the change:\n%s", got)
	}
}

func TestApplyADirectory(t *testing.T) {
	dir := t.TempDir()
	all, err := os.ReadFile("testdata/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i, doc := range strings.Split(string(all), "---\n") {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", 9-i)), []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := must(t, serveAPI(t), "", "apply", "-f", dir); strings.Count(got, " created") != 7 {
		t.Errorf("%s", got)
	}
	fails(t, "127.0.0.1:1", command.ExitFailed, "", []string{"no .yaml"}, "apply", "-f", t.TempDir())
}

// A limit says its burst where it is written and where it is read.
func TestBursts(t *testing.T) {
	server := serve(t, storetest.Open(t))
	const one = head + "kind: Limit\nname: tenants/-/limits/new\nspec: {rate: 100/min}\n"
	if got := must(t, server, one, "apply", "-f", "-"); !strings.Contains(got,
		"created: burst 100, the amount of 100/min") {
		t.Errorf("apply: %s", got)
	}
	if got := must(t, server, "", "get", "limits"); !strings.Contains(got, "100/min    100") {
		t.Errorf("get: %s", got)
	}
}

// A name that gateways do not know is said by apply, with its place, and by get;
// --strict refuses it.
func TestUnknownNamesAreSaid(t *testing.T) {
	server := serveAPI(t)
	const text = head + "kind: Limit\nname: tenants/-/limits/l\nspec:\n  rate: 1/s\n  identity: usr\n"
	fails(t, server, command.ExitFailed, text, []string{"nothing was applied", "<stdin>:6: spec.identity",
		"not known to 2 of 2"}, "apply", "--strict", "-f", "-")
	code, out, errs := titrate(t, server, text, "apply", "-f", "-")
	if code != command.ExitOK || !strings.Contains(out, "created") ||
		!strings.Contains(errs, "warning: <stdin>:6: spec.identity") {
		t.Errorf("apply: %d %s%s", code, out, errs)
	}
	if got := must(t, server, "", "get", "limits"); !strings.Contains(got,
		"WARNINGS\ntenants/-/limits/l: identity \"usr\"") {
		t.Errorf("get: %s", got)
	}
}

// A rate or a max of 0 is accepted, and said to block.
func TestZeroBlocks(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	got := must(t, server, head+"kind: Limit\nname: tenants/acme/limits/none\nspec: {rate: 0}\n---\n"+
		head+"kind: Quota\nname: tenants/globex/quotas/api\nspec: {max: 0}\n", "apply", "-f", "-")
	if strings.Count(got, "created: blocks: every request") != 2 {
		t.Errorf("apply: %s", got)
	}
	table := must(t, server, "", "get")
	for _, want := range []string{"0 (blocked)", "0/s (blocked)"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
	yaml := must(t, server, "", "get", "tenants/acme/limits/none", "-o", "yaml")
	if got := must(t, server, yaml, "apply", "-f", "-"); !strings.Contains(got, "unchanged") {
		t.Errorf("%s, given back:\n%s", got, yaml)
	}
}

// What was read, edited and given back is refused if somebody else was faster, and
// the error says how to go on.
func TestApplyOfAnOlderTextIsAConflict(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	for _, output := range []string{"yaml", "json"} {
		read := must(t, server, "", "get", "tenants/-/limits/per-client", "-o", output)
		theirs := strings.Replace(read, "600/min", "700/min", 1)
		mine := strings.Replace(read, "600/min", "800/min", 1)
		must(t, server, theirs, "apply", "-f", "-")
		fails(t, server, command.ExitFailed, mine, []string{"nothing was applied", "<stdin>:1", "etag does not match",
			"titrate get NAME", "--overwrite"},
			"apply", "-f", "-")
		if got := must(t, server, mine, "apply", "--overwrite", "-f", "-"); !strings.Contains(got, "updated") {
			t.Errorf("--overwrite: %s", got)
		}
		if got := must(t, server, mine, "apply", "-f", "-"); !strings.Contains(got, "unchanged") {
			t.Errorf("given again, with an old etag and nothing to change: %s", got)
		}
		must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	}
}

const head = "apiVersion: titrate.dev/v1alpha1\n"

func TestApplyNothingOfABadFile(t *testing.T) {
	server := serveAPI(t)
	good := head + "kind: Pool\nname: pools/api\nspec: {capacity: 1}\n---\n"
	for _, c := range []struct {
		name, bad string
		words     []string
	}{
		{"unknown field", head + "kind: Pool\nname: pools/b\nspec: {capactiy: 2}\n",
			[]string{"nothing was applied", "<stdin>:9: spec.capactiy: unknown field"}},
		{"a field of a later release", head + "kind: Limit\nname: tenants/a/limits/l\nspec: {rate: 1/s, span: WIDE}\n",
			[]string{"nothing was applied", "spec.span: unknown field"}},
		{"value", head + "kind: Pool\nname: pools/b\nspec:\n  capacity: -2\n",
			[]string{"<stdin>:10: spec.capacity: must be greater than 0"}},
		{"reference", head + "kind: Quota\nname: tenants/acme/quotas/api\n",
			[]string{"nothing was applied",
				"<stdin>:8: name: names something that does not exist: tenants/acme"}},
		{"etag", head + "kind: Pool\nname: pools/b\netag: \"1\"\nspec: {capacity: 1}\n",
			[]string{"<stdin>:6: pools/b: etag does not match"}},
		{"twice", good, []string{"<stdin>:8: name: pools/api stands at <stdin>:1 already"}},
		{"syntax", "kind: [\n", []string{"nothing was applied", "<stdin>:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fails(t, server, command.ExitFailed, good+c.bad, c.words, "apply", "-f", "-")
		})
	}
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "---\n%skind: Tenant\nname: tenants/t%d\n", head, i)
	}
	wrong := strings.Replace(many.String(), "tenants/t299\n", "tenants/T299\n", 1)
	fails(t, server, command.ExitFailed, wrong, []string{"<stdin>:", "T299"}, "apply", "-f", "-")
	status, out, _ := titrate(t, server, "", "get")
	if status != command.ExitOK || out != "" {
		t.Errorf("something was applied:\n%s", out)
	}
	if got := must(t, server, many.String(), "apply", "-f", "-"); strings.Count(got, " created\n") != 300 {
		t.Errorf("of 300 documents in one step: %.200s", got)
	}
}

// The same documents can be applied, played and worked out: apply passes over a Scenario.
func TestApplyPassesOverAScenario(t *testing.T) {
	server := serveAPI(t)
	const scenario = "../../lab/examples/simulate-4-partition.yaml"
	if got := must(t, server, "", "apply", "-f", scenario); strings.Count(got, " created") != 4 {
		t.Errorf("%s", got)
	}
	played := filepath.Join(t.TempDir(), "scenario.yaml")
	text := head + "kind: Scenario\nspec: {duration: 2s, replicas: 1, clients: [{name: x, tenant: acme, demand: " +
		"{constant: 40/s}}]}\n"
	if err := os.WriteFile(played, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, server, command.ExitFailed, "", []string{"no document of a resource in " + played}, "apply", "-f", played)
}

func TestDelete(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	fails(t, server, command.ExitFailed, "", []string{"still in use", "tenants/acme/quotas/api", "force"}, "delete",
		"tenants/acme")
	if got := must(t, server, "", "delete", "tenants/acme", "--force"); got != "tenants/acme deleted\n" {
		t.Errorf("%q", got)
	}
	fails(t, server, command.ExitFailed, "", []string{"tenants/acme", "not found"}, "delete", "tenants/acme")
	got := must(t, server, "", "delete", "-f", "testdata/demo.yaml", "--allow-missing")
	if strings.Count(got, " deleted\n") != 7 || !strings.HasPrefix(got, "tenants/") ||
		!strings.HasSuffix(got, "pools/batch deleted\n") {
		t.Errorf("%s", got)
	}
	if status, out, errs := titrate(t, server, "", "get"); status != command.ExitOK || out != "" ||
		!strings.Contains(errs, "titrate apply") {
		t.Errorf("an empty get: status %d, %q, %q", status, out, errs)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"gte"}, []string{`unknown command "gte"`, "did you mean get?"}},
		{[]string{"get", "-o", "xml"}, []string{"table, wide, json or yaml", "titrate get --help"}},
		{[]string{"get", "api"}, []string{"pools/api or tenants/api"}},
		{[]string{"get", "pools/A"}, []string{`"A" is not an ID`}},
		{[]string{"get", "--nonsense"}, []string{"--nonsense"}},
		{[]string{"get", "--server", "somewhere"}, []string{"host:port"}},
		{[]string{"get", "--timeout", "0s"}, []string{"above 0"}},
		{[]string{"get", "--tls-cert", "x"}, []string{"--tls-key"}},
		{[]string{"get", "--tls-ca", "/nonexistent"}, []string{"/nonexistent"}},
		{[]string{"apply"}, []string{`"file" not set`}},
		{[]string{"apply", "-f", "x", "y"}, []string{`"y"`, "-f FILE"}},
		{[]string{"agent", "--period", "5s"}, []string{"--period 5s: want 10ms to 1s", "titrate agent --help"}},
		{[]string{"delete"}, []string{"give names or -f"}},
		{[]string{"delete", "pools"}, []string{"not a name"}},
		{[]string{"why"}, []string{"want a TENANT"}},
		{[]string{"why", "pools/api"}, []string{"names a Pool, want a Tenant"}},
	} {
		t.Run(strings.Join(c.args, " "),
			func(t *testing.T) { fails(t, "127.0.0.1:1", command.ExitUsage, "", c.words, c.args...) })
	}
	status, help, _ := titrate(t, "127.0.0.1:1", "")
	for _, want := range []string{"titrate why acme", "\n  agent ", "\n  coordinator ", "titrate-lab"} {
		if status != command.ExitOK || !strings.Contains(help, want) {
			t.Errorf("titrate alone: status %d, no %q\n%s", status, want, help)
		}
	}
	out := must(t, "127.0.0.1:1", "", "version")
	flag := must(t, "127.0.0.1:1", "", "--version")
	if !strings.HasPrefix(out, "titrate v"+command.Release+"-dev") || flag != out {
		t.Errorf("%q, --version %q", out, flag)
	}
}

func TestCompletion(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	for line, want := range map[string]string{"get pools/": "pools/api\n", "why te": "tenants/acme\n",
		"why acme po": "pools/batch\n"} {
		status, out, _ := titrate(t, server, "", append([]string{"__complete"}, strings.Fields(line)...)...)
		if status != command.ExitOK || !strings.Contains(out, want) {
			t.Errorf("completing %q gave %q", line, out)
		}
	}
	if out := must(t, server, "", "completion", "bash"); !strings.Contains(out, "__start_titrate") {
		t.Error("no completion script")
	}
}
