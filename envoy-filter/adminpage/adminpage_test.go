package adminpage

import (
	"encoding/json"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/heavyhitters"
)

// source is a gateway with one tenant, whose client alice has used up a limit.
func source(t testing.TB) *Source {
	t.Helper()
	e := limiter.New(limiter.Options{Keys: 1024, Start: 1})
	names := limiter.Names{}
	names.Identities[2], names.Classes[5] = "user", "write"
	e.Name(names)
	now := int64(1e9)
	s := &Source{
		Engine: e, Refused: &heavyhitters.Sketch{}, Held: &heavyhitters.Sketch{}, Replica: "gw-1", Started: time.Now(),
		Link: func() Link { return Link{Connected: true, Sessions: 1} }, Names: func() limiter.Names { return names },
		Now: func() int64 { return now }, Panics: func() uint64 { return 0 },
	}
	err := e.Apply(&config.Config{
		Revision: 7, Pools: []config.Pool{{Name: "api", Capacity: 100, Adaptive: true}, {Name: "other", Capacity: 5}},
		Tenants: []config.Tenant{{Name: "acme", Limits: []config.Limit{
			{Name: "per-client", Rate: 2, Burst: 4, Pools: []string{"api"}},
			{Name: "per-user", Rate: 1, Burst: 3, Identity: "user", Classes: []string{"write"}, Mode: config.Shadow},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		r := &limiter.Request{Tenant: "acme", Client: "alice", Pool: "api"}
		if out := e.Decide(now, r); out.Verdict == limiter.Reject {
			s.Refused.Add(now, heavyhitters.Name{Tenant: r.Tenant, Client: r.Client, Pool: r.Pool, Limit: "per-client"}, 1)
		}
	}
	s.Held.Add(now, heavyhitters.Name{Tenant: "acme", Client: "bob\n<b>", Pool: "api"}, 1.5)
	return s
}

func ask(t *testing.T, s *Source, path string, status int) string {
	t.Helper()
	got, body := s.Answer(path)
	if got != status {
		t.Fatalf("%s: status %d, want %d: %s", path, got, status, body)
	}
	return string(body)
}

func wants(t *testing.T, body string, pieces ...string) {
	t.Helper()
	for _, p := range pieces {
		if !strings.Contains(body, p) {
			t.Errorf("no %q in\n%s", p, body)
		}
	}
}

func TestOverview(t *testing.T) {
	s := source(t)
	wants(t, ask(t, s, "/titrate", 200), `gateway "gw-1"`, "revision 7", "linked", "1 gateways", "connected",
		"POOL", "api", "REFUSED MOST", "alice", "acme", `"bob\n<b>"`, "1.5")
	var o Overview
	if err := json.Unmarshal([]byte(ask(t, s, "/titrate?format=json", 200)), &o); err != nil {
		t.Fatal(err)
	}
	if o.Revision != 7 || !o.Link.Connected || o.Standing.Isolation != "connected" || len(o.Leases) != 1 ||
		o.Leases[0].Tenant != "acme" || o.Leases[0].Share != 100 || o.Pools[0].Admitted != 4 ||
		o.Pools[0].Refused["client_limit"] != 2 || o.Pools[0].InFlight == nil || o.Refused[0].Client != "alice" ||
		o.Refused[0].Count != 2 || o.HeldMost[0].Client != "bob\n<b>" {
		t.Errorf("%+v", o)
	}
	s.Link = func() Link {
		return Link{RefusedRevision: 8, RefusedReason: "limiter: pools[api].capacity is -1",
			LimitsLeftOut: 1, LeftOut: []string{`tenant "acme", limit "daily": field "days" is unknown`}}
	}
	s.Engine.SetShares(&exchange.Shares{Epoch: 3, Stale: true})
	s.Engine.SetSums(2e9, &exchange.Sums{Full: true, Replicas: 3, TotalWeight: 3, Weight: 1, Isolation: exchange.Split,
		Lag: 80 * time.Millisecond})
	wants(t, ask(t, s, "/titrate", 200), "NOT LINKED", "REFUSED configuration revision 8", "capacity is -1",
		"epoch 3, STALE", "3 gateways", "split", "80 ms")
}

// Each table says of which time its numbers are, and older entries are not listed.
func TestNumbersSayTheirTime(t *testing.T) {
	s := source(t)
	s.Started = time.Now().Add(-5*time.Minute - time.Second/2)
	wants(t, ask(t, s, "/titrate", 200), "up 5m0s", "now            0 requests held", "since start    0 decisions",
		"since the start, 5m0s ago; HELD, IN FLIGHT: now", "SHARE/s to HELD: now; ADMITTED, REFUSED: requests since",
		"of the last 1m0s to 2m0s and nothing older")
	now := s.Now()
	s.Now = func() int64 { return now + heavyhitters.Window.Nanoseconds() }
	body := ask(t, s, "/titrate", 200)
	if strings.Contains(body, "alice") || strings.Contains(body, "bob") {
		t.Errorf("clients of two minutes ago:\n%s", body)
	}
	wants(t, ask(t, s, "/titrate?format=json", 200), `"topSeconds": 120`, `"topRefused": []`)
	wants(t, ask(t, s, "/titrate?tenant=acme", 200), "all as of now")
}

// The page has the mode of each limit and of each lease, as the engine has it now.
func TestModesInForce(t *testing.T) {
	s := source(t)
	var o Overview
	if err := json.Unmarshal([]byte(ask(t, s, "/titrate?format=json", 200)), &o); err != nil {
		t.Fatal(err)
	}
	want := []InForce{{"acme", "per-client", "ENFORCE", []string{"api"}}, {"acme", "per-user", "SHADOW", nil}}
	if !reflect.DeepEqual(o.Limits, want) || o.Leases[0].Mode != "ENFORCE" {
		t.Errorf("%+v, %+v; want %+v", o.Limits, o.Leases, want)
	}
	body := strings.Join(strings.Fields(ask(t, s, "/titrate", 200)), " ")
	wants(t, body, "LIMIT TENANT MODE POOLS per-client acme ENFORCE api per-user acme SHADOW all")
	if body := ask(t, s, "/titrate?limit=1", 200); strings.Contains(body, "per-user") {
		t.Errorf("more limits than asked for:\n%s", body)
	}
	err := s.Engine.Apply(&config.Config{Revision: 8, Pools: []config.Pool{{Name: "api", Capacity: 100}},
		Defaults: []config.Limit{{Name: "every", Rate: 1, Burst: 1, Mode: config.Off}},
		Tenants:  []config.Tenant{{Name: "acme", Quotas: []config.Quota{{Pool: "api", Max: 9, Mode: config.Shadow}}}}})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, ask(t, s, "/titrate?format=json", 200), `"limit": "every",
      "mode": "OFF"`, `"mode": "SHADOW",
      "share"`)
}

func TestOneClientExplained(t *testing.T) {
	s := source(t)
	body := ask(t, s, "/titrate?tenant=acme&client=alice", 200)
	wants(t, body, `pool "api": refused by limit "per-client": 0 free of a burst of 4, `+
		`refilled at 2/s over all gateways; 1 passes in 500ms`,
		`pool "other": admitted`, "SHARE/s", "PASSES")
	if strings.Contains(body, "per-user") {
		t.Errorf("a limit of a class that was not asked for:\n%s", body)
	}
	var a Explanation
	if err := json.Unmarshal([]byte(ask(t, s,
		"/titrate?tenant=acme&client=alice&pool=api&cost=2&class=write&identity.user=u1&format=json", 200)),
		&a); err != nil {
		t.Fatal(err)
	}
	p := a.Pools[0]
	if len(a.Pools) != 1 || p.Verdict != "reject" || p.Reason != "client_limit" || p.Limit != "per-client" ||
		p.RetryAfter != 1 || len(p.Limits) != 2 ||
		p.Limits[0].Passes || p.Limits[1].Client != "u1" || !p.Limits[1].Passes || p.Limits[1].Free != 3 ||
		p.Share.Share != 100 {
		t.Errorf("%+v", a)
	}
	wants(t, ask(t, s, "/titrate?tenant=ghost", 200), "no such tenant")
	wants(t, ask(t, s, "/titrate?tenant=acme&identity.device=1", 200),
		"identity.device: no filter of this Envoy has an identity of that name")
	wants(t, ask(t, s, "/titrate?tenant=acme&class=read", 200), `class "read"`)
	s.Engine = limiter.New(limiter.Options{Boot: limiter.BootClosed})
	wants(t, ask(t, s, "/titrate?tenant=acme", 200), "no configuration has arrived")
}

func TestWrongQueries(t *testing.T) {
	s := source(t)
	for path, piece := range map[string]string{
		"/titrate?tennant=acme":                           `"tennant" is unknown`,
		"/titrate?client=alice":                           "tenant is missing",
		"/titrate?tenant=a&tenant=b":                      "tenant is given 2 times",
		"/titrate?tenant=a&cost=0":                        `cost is "0"`,
		"/titrate?tenant=a&cost=nan":                      `cost is "nan"`,
		"/titrate?limit=0":                                `limit is "0"`,
		"/titrate?limit=1001":                             `limit is "1001"`,
		"/titrate?format=xml":                             `format is "xml"`,
		"/titrate?tenant=%zz":                             "not readable",
		"/titrate?identity.=x&tenant=acme":                `"identity." is unknown`,
		"/titrate?tenant=" + strings.Repeat("x", longest): "at most",
	} {
		wants(t, ask(t, s, path, http.StatusBadRequest), piece)
	}
	for _, path := range []string{"/titrated", "/titrate/more", "", "/"} {
		ask(t, s, path, http.StatusNotFound)
	}
	ask(t, s, "/titrate/", 200)
}

// Every request gets a page, or an error with its reason. JSON pages are valid JSON. A
// request for the page changes no decision.
func FuzzAnswer(f *testing.F) {
	for _, path := range []string{"/titrate", "/titrate?tenant=acme&client=alice&format=json",
		"/titrate?tenant=acme&cost=1e300&pool=api",
		"/titrate?identity.user=x&tenant=acme&class=write", "/titrate?limit=9&format=text", "/titrate?%00=%ff;&&=="} {
		f.Add(path)
	}
	s := source(f)
	before := limiter.Stats{}
	s.Engine.Stats(1e9, &before)
	f.Fuzz(func(t *testing.T, path string) {
		status, body := s.Answer(path)
		switch {
		case !slices.Contains([]int{200, 400, 404}, status) || len(body) == 0:
			t.Fatalf("%d: %s", status, body)
		case status == 200:
			if q, err := parse(path); err != nil || q.json && !json.Valid(body) {
				t.Fatalf("%v, no JSON: %s", err, body)
			}
		}
		after := limiter.Stats{}
		s.Engine.Stats(1e9, &after)
		if after.Keys != before.Keys || after.Pools[0].Admitted != before.Pools[0].Admitted {
			t.Fatalf("asking changed %+v into %+v", before, after)
		}
	})
}

func TestNumbers(t *testing.T) {
	for in, want := range map[float64]string{
		math.Inf(1): "null", math.NaN(): "null", 0: "0", 1.0 / 3: "0.333333", 123456789: "123457000", -2.5: "-2.5",
		1e-320: "1e-320", 1e300: "1e+300",
	} {
		b, err := json.Marshal(number(in))
		if err != nil || string(b) != want {
			t.Errorf("%v is %s, %v, want %s", in, b, err, want)
		}
	}
}
