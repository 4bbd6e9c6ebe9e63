package read_test

import (
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/lab/simulate/read"
	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
)

// head begins each document.
const head = "- {apiVersion: titrate.dev/v1alpha1, "

// good is a scenario that mistakes are put into.
const good = head + `kind: Pool, name: pools/api, spec: {capacity: 100}}
` + head + `kind: Tenant, name: tenants/acme}
` + head + `kind: Limit, name: tenants/acme/limits/each, spec: {rate: 5/s}}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  spec:
    duration: 10s
    replicas: 3
    clients:
      - {name: app, demand: {constant: 5/s}}
    events:
      - {at: 3s, crash: gw-1}
`

// parse reads the text of one file.
func parse(text string, open read.Open) (*scenario.Scenario, error) {
	return read.Parse([]*document.File{document.Open("f", strings.NewReader(text))}, open)
}

// files are the traces that tests may name.
func files(_, name string) (io.ReadCloser, error) {
	if name == "good.csv" {
		return io.NopCloser(strings.NewReader("t,client,cost\n0.5,alice,1\n0.75,bob\n# later\n1.5 alice 2.5 # dear\n")),
			nil
	}
	if name == "bad.csv" {
		return io.NopCloser(strings.NewReader("0.5,alice\n0.25,bob\n")), nil
	}
	return nil, errors.New("no such file")
}

func TestMistakesHaveFileLineAndField(t *testing.T) {
	put := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	client := func(c string) string { return put("{name: app, demand: {constant: 5/s}}", c) }
	demand := func(d string) string { return client("{name: app, demand: " + d + "}") }
	event := func(e string) string { return put("{at: 3s, crash: gw-1}", e) }
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f: no document of kind Scenario; want one, whose spec has duration"},
		{"no documents", "[1]", "f:1: want a document with apiVersion, kind, name and spec, found 1"},
		{"two scenarios", good + good[strings.Index(good, "- apiVersion"):], "f:13: kind: a second Scenario; want one"},
		{"no spec", good[:strings.Index(good, "  spec:\n")], "f:4: spec: missing; want such as"},
		{"syntax", "duration: [", "f:"},
		{"unknown field", good + "    gosip: {}\n", "f:13: spec.gosip: unknown field; known are duration, warmup"},
		{"no duration", put("    duration: 10s\n", ""), "f:7: spec.duration: missing"},
		{"mistake in a resource", put("capacity: 100", "capacity: -1"), "f:1: spec.capacity: must be greater than 0"},
		{"sharing", put("capacity: 100", "capacity: 100, sharing: FAIR"),
			`f:1: spec.sharing: want one of MAX_MIN, PROPORTIONAL, found "FAIR"`},
		{"rate without unit", put("rate: 5/s", `rate: "5"`), `f:3: spec.rate: rate "5" has no unit`},
		{"resource twice", put(head+"kind: Limit", head+"kind: Limit, name: tenants/acme/limits/each, spec: {rate: 1/s}}\n"+
			head+"kind: Limit"), `f:4: name: "tenants/acme/limits/each" is taken`},
		{"quota of no pool", put(head+"kind: Limit", head+"kind: Quota, name: tenants/acme/quotas/db}\n"+head+"kind: Limit"),
			"f:3: name: it needs pools/db, of which there is no document"},
		{"quota that is off", put(head+"kind: Limit", head+
			`kind: Quota, name: tenants/acme/quotas/api, spec: {mode: "OFF"}}`+"\n"+head+"kind: Limit"),
			"f:3: spec.mode: a quota that is OFF is not played"},
		{"identity", client("{name: app, identities: {ip: 5}, demand: {constant: 5/s}}"),
			"f:10: spec.clients[0].identities.ip: want text, in quotes if it looks like a number"},
		{"upstream of a fixed pool", good + "    upstreams: [{capacity: 5}]\n",
			`f:13: spec.upstreams[0].pool: no adaptive pool has the name "api"; known are none`},
		{"apply of nothing", event("{at: 1s, apply: {spec: {rate: 1/s}}}"),
			"f:12: spec.events[0].apply.kind: missing; want one of Pool, Plan, Tenant, Quota, Limit, Override"},
		{"apply with a mistake", event("{at: 1s, apply: {kind: Limit, name: tenants/acme/limits/each, spec: {rtae: 1/s}}}"),
			"f:12: spec.events[0].apply.spec.rtae: unknown field"},
		{"apply of a wrong value", event("{at: 1s, apply: {kind: Pool, name: pools/api, spec: {capacity: 0}}}"),
			"f:12: spec.events[0].apply.spec.capacity: must be greater than 0"},
		{"apply of what is not there",
			event("{at: 1s, apply: {kind: Limit, name: tenants/acme/limits/all, spec: {rate: 1/s}}}"),
			`f:12: spec.events[0].apply.name: no resource has the name "tenants/acme/limits/all"; known are pools/api`},
		{"apply of another limit",
			event("{at: 1s, apply: {kind: Limit, name: tenants/acme/limits/each, spec: {rate: 1/s, key: TENANT}}}"),
			"f:12: spec.events[0].apply.spec: what a limit counts, and its mode, stay as they are"},
		{"upstream without a rate", strings.Replace(event("{at: 1s, upstream: {pool: api}}"), "capacity: 100",
			"capacity: 100, adaptive: {min: 1, max: 200}", 1),
			"f:12: spec.events[0].upstream.capacity: missing"},
		{"duration without unit", put("10s", "10"),
			"f:7: spec.duration: want a time with its unit, such as 50ms, 2s or 1m30s, found 10"},
		{"warmup", good + "    warmup: 10s\n", "f:13: spec.warmup: want 0s to a second less than the duration (9s), found 10s"},
		{"no replicas", put("    replicas: 3\n", ""), "f:7: spec.replicas: missing"},
		{"half a replica", put("replicas: 3", "replicas: 2.5"), "f:8: spec.replicas: want a whole number, found 2.5"},
		{"many replicas", put("replicas: 3", "replicas: 1e9"), "f:8: spec.replicas: want 1 to 1000, found 1e9"},
		{"replica twice", put("replicas: 3", "replicas: [{name: gw-1}, {name: gw-1}, {name: gw-2}]"),
			`f:8: spec.replicas[1].name: "gw-1" is taken`},
		{"replica weight", put("replicas: 3", "replicas: [{name: gw-1, weight: -1}, {name: gw-2}]"),
			"f:8: spec.replicas[0].weight: want 0.000001 to 1000000, found -1"},
		{"loss NaN", good + "    gossip: {loss: .nan}\n", "f:13: spec.gossip.loss: want a finite decimal number, found .nan"},
		{"loss", good + "    gossip: {loss: 1.5}\n", "f:13: spec.gossip.loss: want 0 to 1, found 1.5"},
		{"link", good + "    link: {delay: 2s}\n", "f:13: spec.link.delay: want 0s to 1s, found 2s"},
		{"late", good + "    late: {agent: {delay: 2ms}}\n", "f:13: spec.late.agent: unknown field; known are gateways, agents"},
		{"split", good + "    gossip: {splitAfter: 400ms}\n", "f:13: spec.gossip.splitAfter: want 500ms to 1h0m0s, found 400ms"},
		{"coordinator", good + "    coordinator: {round: 1h}\n", "f:13: spec.coordinator.round: want 10ms to 2s, found 1h"},
		{"unknown tenant", client("{name: app, tenant: bolt, demand: {constant: 5/s}}"),
			`f:10: spec.clients[0].tenant: no tenant has the name "bolt"; known are acme`},
		{"unknown pool", client("{name: app, pool: db, demand: {constant: 5/s}}"),
			`f:10: spec.clients[0].pool: no pool has the name "db"; known are api`},
		{"no demand", client("{name: app}"), "f:10: spec.clients[0].demand: missing"},
		{"two demands", demand("{constant: 5/s, poisson: 5/s}"),
			"f:10: spec.clients[0].demand: want one of constant, poisson, onOff, step, ramp, trace, found constant and " +
				"poisson"},
		{"empty demand", demand("{}"), "f:10: spec.clients[0].demand: want one of constant"},
		{"misspelt demand", demand("{constnat: 5/s}"), "f:10: spec.clients[0].demand.constnat: unknown field"},
		{"demand number", demand("50"), "f:10: spec.clients[0].demand: want a mapping of fields, found 50"},
		{"negative demand", demand("{constant: -5/s}"), `f:10: spec.clients[0].demand.constant: rate "-5/s"`},
		{"huge demand", demand("{constant: 1e10/s}"), "f:10: spec.clients[0].demand.constant: rate"},
		{"step back", demand("{step: [{at: 2s, rate: 1/s}, {at: 1s, rate: 1/s}]}"),
			"f:10: spec.clients[0].demand.step[1].at: want times that rise: more than 2s, found 1s"},
		{"onOff", demand("{onOff: {rate: 5/s, on: 1s}}"), "f:10: spec.clients[0].demand.onOff.off: missing"},
		{"arrivals", demand("{poisson: 5/s, arrivals: EVEN}"),
			"f:10: spec.clients[0].demand.arrivals: belongs to onOff, step and ramp"},
		{"no trace", demand("{trace: none.csv}"), "f:10: spec.clients[0].demand.trace: cannot read the trace: no such file"},
		{"bad trace", demand("{trace: bad.csv}"),
			"f:10: spec.clients[0].demand.trace: bad.csv:2: time 0.25 is before the line above"},
		{"pinned to nobody", client("{name: app, demand: {constant: 5/s}, route: {pinned: gw-9}}"),
			`f:10: spec.clients[0].route.pinned: no replica has the name "gw-9"; known are gw-1, gw-2, gw-3`},
		{"spread weight", client("{name: app, demand: {constant: 5/s}, route: {spread: {gw-1: -1}}}"),
			"f:10: spec.clients[0].route.spread.gw-1: want 0 to 1000000000, found -1"},
		{"spread to nobody", client("{name: app, demand: {constant: 5/s}, route: {spread: {gw-1: 1, gw-7: 1}}}"),
			`f:10: spec.clients[0].route.spread.gw-7: no replica has the name`},
		{"two routes", client("{name: app, demand: {constant: 5/s}, route: {moving: 5s, pinned: gw-1}}"),
			"f:10: spec.clients[0].route: want one of spread, pinned, moving, roundRobin, found pinned and moving"},
		{"event too late", event("{at: 10s, crash: gw-1}"),
			"f:12: spec.events[0].at: want 0s to less than the duration (10s), found 10s"},
		{"event of nobody", event("{at: 1s, crash: gw-4}"),
			`f:12: spec.events[0].crash: no replica that is up then has the name "gw-4"`},
		{"event without kind", event("{at: 1s}"), "f:12: spec.events[0]: want one of partition, heal"},
		{"partition", event("{at: 1s, partition: [[gw-1], [gw-9]]}"),
			`f:12: spec.events[0].partition: no replica has the name "gw-9"`},
		{"heal", event("{at: 1s, heal: false}"), "f:12: spec.events[0].heal: want true"},
		{"coordinator", event("{at: 1s, coordinator: DEAD}"),
			`f:12: spec.events[0].coordinator: want LOST or BACK, found "DEAD"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.text, files)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("error %v\nwant  %s…", err, c.want)
			}
			var place *tree.Error
			if !errors.As(err, &place) || place.File != "f" {
				t.Errorf("%T has no place", err)
			}
			if lines := strings.Count(err.Error(), "\n"); lines > 0 {
				t.Errorf("one mistake, noted %d times:\n%v", lines+1, err)
			}
		})
	}
}

// Mistakes of form and of meaning come together.
func TestAllMistakesAtOnce(t *testing.T) {
	text := head + `kind: Pool, name: pools/api, spec: {capacity: .nan}}
` + head + `kind: Tenant, name: tenants/a, spec: {weight: -1, wieght: 2}}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  spec:
    duration: 10s
    replicas: 2
    seed: x
    clients:
      - {name: one, pool: apo, demand: {constant: 1/s}}
      - {name: one, tenant: b, demand: {constant: 1/s}}
`
	_, err := parse(text, nil)
	for _, want := range []string{"f:1: spec.capacity", "f:2: spec.wieght", "f:8: spec.seed", "f:10: spec.clients[0].pool",
		"f:11: spec.clients[1].name", "f:11: spec.clients[1].tenant"} {
		if err == nil || !strings.Contains(err.Error(), want+": ") {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// A scenario may have its resources in other files, each of which has its own mistakes.
func TestSeveralFiles(t *testing.T) {
	at := strings.Index(good, "- apiVersion")
	open := func(resources, scenario string) []*document.File {
		return []*document.File{document.Open("a", strings.NewReader(resources)),
			document.Open("b", strings.NewReader(scenario))}
	}
	s, err := read.Parse(open(good[:at], good[at:]), nil)
	if err != nil || len(s.Resources) != 3 {
		t.Errorf("%+v: %v", s, err)
	}
	_, err = read.Parse(open(strings.Replace(good[:at], "5/s", "5/x", 1), strings.Replace(good[at:], "10s", "ten", 1)), nil)
	if err == nil || !strings.Contains(err.Error(), "a:3: spec.rate: ") || !strings.Contains(err.Error(),
		"b:4: spec.duration: ") {
		t.Errorf("%v", err)
	}
}

// everything has every field of the format once.
const everything = head + `kind: Pool, name: pools/api, spec: {capacity: 300, sharing: PROPORTIONAL, alpha: 2}}
` + head + `kind: Pool, name: pools/db, spec: {capacity: 1e3, adaptive: {min: 1, max: 1e4}}}
` + head + `kind: Tenant, name: tenants/acme, spec: {weight: 2}}
` + head + `kind: Quota, name: tenants/acme/quotas/api, spec: {guaranteed: 10, max: 200, weight: 0}}
` + head + `kind: Limit, name: tenants/acme/limits/each, spec: {rate: 30/min, burst: 4, mode: SHADOW}}
- apiVersion: titrate.dev/v1alpha1
  kind: Scenario
  name: all
  spec:
    duration: 1m
    warmup: 2s
    lead: 0
    seed: 7
    replicas: [{name: eu, weight: 2}, {name: us}]
    gossip: {period: 100ms, delay: 20ms, jitter: 5ms, loss: 0.01, splitAfter: 4s, exactWithin: 1ms}
    link: {delay: 1ms, jitter: 2ms}
    late: {gateways: {delay: 3ms}, agents: {jitter: 4ms}}
    coordinator: {round: 500ms, delay: 1ms, softExpiry: 5s, settle: 1s}
    upstreams: [{pool: db, capacity: 900, takes: 20ms}]
    clients:
      - {name: a, count: 5, tenant: acme, pool: api, cost: 2, patience: 1s, demand: {poisson: 20/s}, route: {pinned: us}}
      - {name: b, pool: db, demand: {onOff: {rate: 60/min, on: 2s, off: 3s}, arrivals: POISSON}, route: {moving: 5s}}
      - {name: c, pool: db, demand: {ramp: [{at: 5s, rate: 0}, {at: 20s, rate: 90/s}]}, route: {spread: {eu: 6, us: 3}}}
      - {name: d, pool: db, demand: {trace: good.csv}, route: {roundRobin: true}, identities: {ip: "10"}, classes: [writes]}
    events:
      - {at: 1s, partition: [[eu], [us, coordinator]]}
      - {at: 2s, heal: true}
      - {at: 3s, join: ap}
      - {at: 4s, leave: eu}
      - {at: 5s, restart: us}
      - {at: 6s, coordinator: LOST}
      - {at: 7s, coordinator: BACK}
      - {at: 8s, apply: {kind: Limit, name: tenants/acme/limits/each, spec: {rate: 1/s, burst: 3, mode: SHADOW}}}
      - {at: 9s, upstream: {pool: db, capacity: 500}}
`

func TestEveryField(t *testing.T) {
	s, err := parse(everything, files)
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	want := &scenario.Scenario{
		Name: "all", Duration: time.Minute, Warmup: 2 * time.Second, Seed: 7,
		Replicas: []scenario.Replica{{Name: "eu", Weight: 2}, {Name: "us", Weight: 1}},
		Gossip: scenario.Gossip{Period: 100 * ms, Delay: 20 * ms, Jitter: 5 * ms, Loss: .01,
			SplitAfter: 4 * time.Second, ForgetAfter: 6 * time.Second,
			ExactWithin: time.Millisecond},
		Link: scenario.Delay{Delay: ms, Jitter: 2 * ms},
		Late: scenario.Late{Gateways: scenario.Delay{Delay: 3 * ms, Jitter: ms / 5},
			Agents: scenario.Delay{Delay: ms / 5, Jitter: 4 * ms}},
		Control: scenario.Control{Round: 500 * ms, Delay: ms, SoftExpiry: 5 * time.Second, Settle: time.Second},
		Resources: []resource.Message{
			&quotav1.Pool{Name: "pools/api", Capacity: 300, Sharing: quotav1.Sharing_PROPORTIONAL, Alpha: 2},
			&quotav1.Pool{Name: "pools/db", Capacity: 1000, Adaptive: &quotav1.Adaptive{Min: 1, Max: 1e4}},
			&quotav1.Tenant{Name: "tenants/acme", Weight: 2},
			&quotav1.Quota{Name: "tenants/acme/quotas/api", Guaranteed: 10, Max: proto.Float64(200),
				Weight: proto.Float64(0)},
			&quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "30/min", Burst: 4, Mode: quotav1.Mode_SHADOW},
		},
		Upstreams: []scenario.Upstream{{Pool: "db", Capacity: 900, Takes: 20 * ms}},
		Clients: []scenario.Client{
			{Name: "a", Count: 5, Tenant: "acme", Pool: "api", Cost: 2, Patience: time.Second,
				Demand: scenario.Poisson(20), Route: scenario.Route{Kind: scenario.Pinned, Replica: "us"}},
			{Name: "b", Count: 1, Tenant: "acme", Pool: "db", Cost: 1,
				Demand: scenario.Demand{Points: []scenario.Point{{At: 0, Rate: 1}, {At: 2 * time.Second}},
					Repeat: 5 * time.Second, Random: true},
				Route: scenario.Route{Kind: scenario.Moving, Every: 5 * time.Second}},
			{Name: "c", Count: 1, Tenant: "acme", Pool: "db", Cost: 1,
				Demand: scenario.Demand{Points: []scenario.Point{{At: 5 * time.Second},
					{At: 20 * time.Second, Rate: 90}}, Ramp: true},
				Route: scenario.Route{Weights: map[string]float64{"eu": 6, "us": 3}}},
			{Name: "d", Count: 1, Tenant: "acme", Pool: "db", Cost: 1,
				Demand: scenario.Demand{Points: []scenario.Point{{}},
					Trace: []scenario.Arrival{{At: 500 * ms, Client: "alice", Cost: 1},
						{At: 750 * ms, Client: "bob", Cost: 1}, {At: 1500 * ms, Client: "alice", Cost: 2.5}}},
				Route: scenario.Route{Kind: scenario.RoundRobin}, Identities: map[string]string{"ip": "10"},
				Classes: []string{"writes"}},
		},
		Events: []scenario.Event{
			{At: 1 * time.Second, Kind: scenario.Partition, Groups: [][]string{{"eu"}, {"us", "coordinator"}}},
			{At: 2 * time.Second, Kind: scenario.Heal},
			{At: 3 * time.Second, Kind: scenario.Join, Replica: "ap"},
			{At: 4 * time.Second, Kind: scenario.Leave, Replica: "eu"},
			{At: 5 * time.Second, Kind: scenario.Restart, Replica: "us"},
			{At: 6 * time.Second, Kind: scenario.CoordinatorLost},
			{At: 7 * time.Second, Kind: scenario.CoordinatorBack},
			{At: 8 * time.Second, Kind: scenario.Apply},
			{At: 9 * time.Second, Kind: scenario.Serve, Pool: "db", Capacity: 500},
		},
	}
	slower := &quotav1.Limit{Name: "tenants/acme/limits/each", Rate: "1/s", Burst: 3, Mode: quotav1.Mode_SHADOW}
	if e := &s.Events[7]; !proto.Equal(e.Resource, slower) {
		t.Errorf("%v, want %v", e.Resource, slower)
	}
	s.Events[7].Resource = nil
	if !slices.EqualFunc(s.Resources, want.Resources, func(a, b resource.Message) bool { return proto.Equal(a, b) }) {
		t.Errorf("%v\nwant\n%v", s.Resources, want.Resources)
	}
	s.Resources, want.Resources = nil, nil
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v\nwant\n%+v", s, want)
	}
}

// For any bytes: no panic, and a scenario that is read passes its own check.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(everything)
	f.Add(`[{"apiVersion": "titrate.dev/v1alpha1", "kind": "Tenant", "name": "tenants/t"}, {"apiVersion": "titrate.dev/v1alpha1", "kind": "Scenario", "spec": {"duration": "5s", "replicas": [{"name": "a"}], "clients": [{"name": "c", "demand": {"step": [{"at": "0s", "rate": "1/s"}]}}]}}]`)
	f.Add(head + "kind: Scenario, spec: {duration: 1s, replicas: 1, clients: {? [] : {}}, events: [{at: 0, partition: [[]]}]}}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text, files)
		if err == nil && len(s.Check()) > 0 {
			t.Fatal(s.Check())
		}
	})
}

func FuzzTrace(f *testing.F) {
	f.Add("t,client,cost\n0.5,alice,1\n0.75 bob # x\n")
	f.Fuzz(func(t *testing.T, text string) {
		arrivals, err := read.Trace(strings.NewReader(text))
		if (err == nil) != (len(arrivals) > 0) {
			t.Fatal(len(arrivals), err)
		}
	})
}
