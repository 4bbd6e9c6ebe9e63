package read_test

import (
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/fairshare"

	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/simulate/read"
	"github.com/titrate/titrate/services/simulate/scenario"
)

// good is a scenario that mistakes are put into.
const good = `duration: 10s
replicas: 3
pools:
  - {name: api, capacity: 100}
tenants:
  - {name: acme, limits: [{name: each, rate: 5/s}]}
clients:
  - {name: app, demand: {constant: 5/s}}
events:
  - {at: 3s, crash: gw-1}
`

// files are the traces that tests may name.
func files(name string) (io.ReadCloser, error) {
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
		{"empty", "", "f:1: duration: the file is empty; want a scenario with duration"},
		{"list", "[1]", "f:1: duration: want a scenario with duration, replicas, tenants and clients, found a list"},
		{"two documents", good + "---\n" + good, "f:11: a second document; one file holds a scenario"},
		{"syntax", "duration: [", "f:"},
		{"unknown field", good + "gosip: {}\n", "f:11: gosip: unknown field; known are name, duration"},
		{"no duration", put("duration: 10s\n", ""), "f:1: duration: missing"},
		{"duration without unit", put("10s", "10"),
			"f:1: duration: want a time with its unit, such as 50ms, 2s or 1m30s, found 10"},
		{"warmup", good + "warmup: 10s\n", "f:11: warmup: want 0s to a second less than the duration (9s), found 10s"},
		{"no replicas", put("replicas: 3\n", ""), "f:1: replicas: missing"},
		{"half a replica", put("replicas: 3", "replicas: 2.5"), "f:2: replicas: want a whole number, found 2.5"},
		{"many replicas", put("replicas: 3", "replicas: 1e9"), "f:2: replicas: want 1 to 1000, found 1e9"},
		{"replica twice", put("replicas: 3", "replicas: [{name: gw-1}, {name: gw-1}, {name: gw-2}]"),
			`f:2: replicas[1].name: "gw-1" is taken`},
		{"replica weight", put("replicas: 3", "replicas: [{name: gw-1, weight: -1}, {name: gw-2}]"),
			"f:2: replicas[0].weight: want 1e-06 to 1e+06, found -1"},
		{"loss NaN", good + "gossip: {loss: .nan}\n", "f:11: gossip.loss: want a finite decimal number, found .nan"},
		{"loss", good + "gossip: {loss: 1.5}\n", "f:11: gossip.loss: want 0 to 1, found 1.5"},
		{"split", good + "gossip: {splitAfter: 400ms}\n", "f:11: gossip.splitAfter: want 500ms to 1h0m0s, found 400ms"},
		{"coordinator", good + "coordinator: {round: 1h}\n", "f:11: coordinator.round: want 10ms to 2s, found 1h"},
		{"capacity", put("capacity: 100", "capacity: -1"), "f:4: pools[0].capacity: want 1e-06 to 1e+09, found -1"},
		{"capacity missing", put(", capacity: 100", ""), "f:4: pools[0].capacity: missing"},
		{"sharing", put("capacity: 100", "capacity: 100, sharing: FAIR"),
			`f:4: pools[0].sharing: want MAX_MIN or PROPORTIONAL, found "FAIR"`},
		{"aqm", put("capacity: 100", "capacity: 100, queue: {aqm: RED}"),
			`f:4: pools[0].queue.aqm: want VARIABLE_STRUCTURE or DROP_TAIL or POLICE or CODEL, found "RED"`},
		{"weight", put("name: acme,", "name: acme, weight: -2,"),
			"f:6: tenants[0].weight: want 1e-09 to 1e+09, found -2"},
		{"quota of no pool", put("name: acme,", "name: acme, quotas: [{pool: db}],"),
			`f:6: tenants[0].quotas[0].pool: no pool has the name "db"; known are api`},
		{"max below guaranteed", put("name: acme,", "name: acme, quotas: [{guaranteed: 5, max: 3}],"),
			"f:6: tenants[0].quotas[0].max: want at least the guaranteed 5, found 3"},
		{"rate without unit", put("rate: 5/s", "rate: 5"), `f:6: tenants[0].limits[0].rate: rate "5" has no unit`},
		{"negative rate", put("rate: 5/s", "rate: -5/s"),
			`f:6: tenants[0].limits[0].rate: rate "-5/s" must not be negative`},
		{"limit twice", put("{name: each, rate: 5/s}", "{name: each, rate: 5/s}, {name: each, rate: 6/s}"),
			`f:6: tenants[0].limits[1].name: "each" is taken`},
		{"unknown tenant", client("{name: app, tenant: bolt, demand: {constant: 5/s}}"),
			`f:8: clients[0].tenant: no tenant has the name "bolt"; known are acme`},
		{"unknown pool", client("{name: app, pool: db, demand: {constant: 5/s}}"),
			`f:8: clients[0].pool: no pool has the name "db"; known are api`},
		{"no demand", client("{name: app}"), "f:8: clients[0].demand: missing"},
		{"two demands", demand("{constant: 5/s, poisson: 5/s}"),
			"f:8: clients[0].demand: want one of constant, poisson, onOff, step, ramp, trace, found constant and " +
				"poisson"},
		{"empty demand", demand("{}"), "f:8: clients[0].demand: want one of constant"},
		{"misspelt demand", demand("{constnat: 5/s}"), "f:8: clients[0].demand.constnat: unknown field"},
		{"demand number", demand("50"), "f:8: clients[0].demand: want a mapping of fields, found 50"},
		{"negative demand", demand("{constant: -5/s}"), `f:8: clients[0].demand.constant: rate "-5/s"`},
		{"huge demand", demand("{constant: 1e10/s}"), "f:8: clients[0].demand.constant: rate"},
		{"step back", demand("{step: [{at: 2s, rate: 1/s}, {at: 1s, rate: 1/s}]}"),
			"f:8: clients[0].demand.step[1].at: want times that rise: more than 2s, found 1s"},
		{"onOff", demand("{onOff: {rate: 5/s, on: 1s}}"), "f:8: clients[0].demand.onOff.off: missing"},
		{"arrivals", demand("{poisson: 5/s, arrivals: EVEN}"),
			"f:8: clients[0].demand.arrivals: belongs to onOff, step and ramp"},
		{"no trace", demand("{trace: none.csv}"), "f:8: clients[0].demand.trace: cannot read the trace: no such file"},
		{"bad trace", demand("{trace: bad.csv}"),
			"f:8: clients[0].demand.trace: bad.csv:2: time 0.25 is before the line above"},
		{"pinned to nobody", client("{name: app, demand: {constant: 5/s}, route: {pinned: gw-9}}"),
			`f:8: clients[0].route.pinned: no replica has the name "gw-9"; known are gw-1, gw-2, gw-3`},
		{"spread weight", client("{name: app, demand: {constant: 5/s}, route: {spread: {gw-1: -1}}}"),
			"f:8: clients[0].route.spread.gw-1: want 0 to 1e+09, found -1"},
		{"spread to nobody", client("{name: app, demand: {constant: 5/s}, route: {spread: {gw-1: 1, gw-7: 1}}}"),
			`f:8: clients[0].route.spread.gw-7: no replica has the name`},
		{"two routes", client("{name: app, demand: {constant: 5/s}, route: {moving: 5s, pinned: gw-1}}"),
			"f:8: clients[0].route: want one of spread, pinned, moving, roundRobin, found pinned and moving"},
		{"event too late", event("{at: 10s, crash: gw-1}"),
			"f:10: events[0].at: want 0s to less than the duration (10s), found 10s"},
		{"event of nobody", event("{at: 1s, crash: gw-4}"),
			`f:10: events[0].crash: no replica that is up then has the name "gw-4"`},
		{"event without kind", event("{at: 1s}"), "f:10: events[0]: want one of partition, heal"},
		{"partition", event("{at: 1s, partition: [[gw-1], [gw-9]]}"),
			`f:10: events[0].partition: no replica has the name "gw-9"`},
		{"heal", event("{at: 1s, heal: false}"), "f:10: events[0].heal: want true"},
		{"coordinator", event("{at: 1s, coordinator: DEAD}"),
			`f:10: events[0].coordinator: want LOST or BACK, found "DEAD"`},
		{"limit of nobody", event("{at: 1s, limit: {name: all, rate: 1/s}}"),
			`f:10: events[0].limit.name: no limit of tenant acme has the name "all"; known are each`},
		{"capacity", event("{at: 1s, pool: {capacity: 0}}"),
			"f:10: events[0].pool.capacity: want 1e-06 to 1e+09, found 0"},
		{"JSON", `{"duration": "10s", "replicas": 1}`, "f:1: tenants: missing; want a list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read.Parse("f", strings.NewReader(c.text), files)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("error %v\nwant  %s…", err, c.want)
			}
			var place *tree.Error
			if !errors.As(err, &place) || place.File != "f" {
				t.Errorf("%T has no place", err)
			}
			if lines := strings.Count(err.Error(), "\n"); lines > 0 && c.name != "JSON" {
				t.Errorf("one mistake, told %d times:\n%v", lines+1, err)
			}
		})
	}
}

// Mistakes of form and of meaning come together.
func TestAllMistakesAtOnce(t *testing.T) {
	text := `duration: 10s
replicas: 2
seed: x
pools: [{name: api, capacity: .nan}]
tenants: [{name: a, weight: -1, wieght: 2}]
clients:
  - {name: one, pool: apo, demand: {constant: 1/s}}
  - {name: one, tenant: b, demand: {constant: 1/s}}
`
	_, err := read.Parse("f", strings.NewReader(text), nil)
	for _, want := range []string{"f:3: seed", "f:4: pools[0].capacity", "f:5: tenants[0].weight",
		"f:5: tenants[0].wieght", "f:7: clients[0].pool", "f:8: clients[1].name", "f:8: clients[1].tenant"} {
		if err == nil || !strings.Contains(err.Error(), want+": ") {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// everything has every field of the format once.
const everything = `name: all
duration: 1m
warmup: 2s
lead: 0
seed: 7
replicas: [{name: eu, weight: 2}, {name: us}]
gossip: {period: 100ms, delay: 20ms, jitter: 5ms, loss: 0.01, splitAfter: 4s}
coordinator: {round: 500ms, delay: 1ms, softExpiry: 5s, settle: 1s}
pools:
  - {name: api, capacity: 300, sharing: PROPORTIONAL, alpha: 2, queue: {aqm: DROP_TAIL, delayTarget: 20ms, maxWait: 3s, maxRequests: 9}, onLoss: SAFE_RATE, hardExpiry: 30s}
  - {name: db, capacity: 1e3, guarantee: ADDITIVE}
tenants:
  - name: acme
    weight: 2
    quotas: [{pool: api, guaranteed: 10, max: 200, weight: 0}, {pool: db}]
    limits:
      - {name: each, rate: 30/min, burst: 4, pools: [db], overrides: [{client: bob, rate: 2/s}], mode: SHADOW, strict: true}
      - {name: all, key: TENANT, rate: 100/s, queue: {maxWait: 2s}}
clients:
  - {name: a, count: 5, tenant: acme, pool: api, cost: 2, patience: 1s, demand: {poisson: 20/s}, route: {pinned: us}}
  - {name: b, pool: db, demand: {onOff: {rate: 60/min, on: 2s, off: 3s}, arrivals: POISSON}, route: {moving: 5s}}
  - {name: c, pool: db, demand: {ramp: [{at: 5s, rate: 0}, {at: 20s, rate: 90/s}]}, route: {spread: {eu: 6, us: 3}}}
  - {name: d, pool: db, demand: {trace: good.csv}, route: {roundRobin: true}}
events:
  - {at: 1s, partition: [[eu], [us, coordinator]]}
  - {at: 2s, heal: true}
  - {at: 3s, join: ap}
  - {at: 4s, leave: eu}
  - {at: 5s, restart: us}
  - {at: 6s, coordinator: LOST}
  - {at: 7s, coordinator: BACK}
  - {at: 8s, limit: {name: each, rate: 1/s, burst: 3}}
  - {at: 9s, pool: {name: db, capacity: 500}}
`

func TestEveryField(t *testing.T) {
	s, err := read.Parse("f", strings.NewReader(everything), files)
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	want := &scenario.Scenario{
		Name: "all", Duration: time.Minute, Warmup: 2 * time.Second, Seed: 7,
		Replicas: []scenario.Replica{{Name: "eu", Weight: 2}, {Name: "us", Weight: 1}},
		Gossip: scenario.Gossip{Period: 100 * ms, Delay: 20 * ms, Jitter: 5 * ms, Loss: .01,
			SplitAfter: 4 * time.Second, ForgetAfter: 6 * time.Second},
		Control: scenario.Control{Round: 500 * ms, Delay: ms, SoftExpiry: 5 * time.Second, Settle: time.Second},
		Pools: []scenario.Pool{
			{Name: "api", Capacity: 300, Sharing: allocation.Proportional, Alpha: 2,
				Queue: config.Queue{Law: config.DropTail, DelayTarget: 20 * ms, MaxWait: 3 * time.Second,
					MaxRequests: 9}, OnLoss: config.SafeRate, HardExpiry: 30 * time.Second},
			{Name: "db", Capacity: 1000, Alpha: 1, Guarantee: fairshare.Additive},
		},
		Tenants: []scenario.Tenant{{
			Name: "acme", Weight: 2,
			Quotas: []scenario.Quota{{Pool: "api", Guaranteed: 10, Max: 200},
				{Pool: "db", Max: math.Inf(1), Weight: -1}},
			Limits: []config.Limit{
				{Name: "each", Rate: .5, Burst: 4, Pools: []string{"db"},
					Overrides: map[string]config.RateBurst{"bob": {Rate: 2, Burst: 2}},
					Queue:     config.Queue{Law: config.Police}, Mode: config.Shadow, Strict: true},
				{Name: "all", PerTenant: true, Rate: 100, Burst: 100,
					Queue: config.Queue{DelayTarget: 50 * ms, MaxWait: 2 * time.Second, MaxRequests: 1024}},
			},
		}},
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
				Route: scenario.Route{Kind: scenario.RoundRobin}},
		},
		Events: []scenario.Event{
			{At: 1 * time.Second, Kind: scenario.Partition, Groups: [][]string{{"eu"}, {"us", "coordinator"}}},
			{At: 2 * time.Second, Kind: scenario.Heal},
			{At: 3 * time.Second, Kind: scenario.Join, Replica: "ap"},
			{At: 4 * time.Second, Kind: scenario.Leave, Replica: "eu"},
			{At: 5 * time.Second, Kind: scenario.Restart, Replica: "us"},
			{At: 6 * time.Second, Kind: scenario.CoordinatorLost},
			{At: 7 * time.Second, Kind: scenario.CoordinatorBack},
			{At: 8 * time.Second, Kind: scenario.ChangeLimit, Tenant: "acme", Limit: "each", Rate: 1, Burst: 3},
			{At: 9 * time.Second, Kind: scenario.ChangeCapacity, Pool: "db", Rate: 500},
		},
	}
	if q := &s.Tenants[0].Quotas[1]; math.IsNaN(q.Weight) { // NaN, the tenant's weight, equals nothing
		q.Weight = -1
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v\nwant\n%+v", s, want)
	}
}

// Whatever bytes come in: no panic, and what is read passes its own check.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(everything)
	f.Add(`{"duration": "5s", "replicas": [{"name": "a"}], "tenants": [{"name": "t"}], "clients": [{"name": "c", "demand": {"step": [{"at": "0s", "rate": "1/s"}]}}]}`)
	f.Add("duration: 1s\nreplicas: 1\ntenants: [&a {name: *a}]\nclients: {? [] : {}}\nevents: [{at: 0, partition: " +
		"[[]]}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := read.Parse("f", strings.NewReader(text), files)
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
