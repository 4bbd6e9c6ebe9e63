package stats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
)

// fake sums the counters and keeps the gauges.
type fake struct {
	counts map[string]uint64
	gauges map[Metric]uint64
	calls  int
}

func (f *fake) Count(m Metric, delta uint64, labels ...string) {
	if len(labels) != len(Table[m].Labels) {
		panic(fmt.Sprintf("%s with labels %v", Table[m].Name, labels))
	}
	f.calls++
	f.counts[Table[m].Name+"/"+strings.Join(labels, "/")] += delta
}

func (f *fake) Set(m Metric, v uint64, labels ...string) {
	if len(labels) != len(Table[m].Labels) || Table[m].Kind != Gauge {
		panic(fmt.Sprintf("%s with labels %v", Table[m].Name, labels))
	}
	f.gauges[m] = v
}

func (f *fake) Observe(m Metric, value, times uint64, labels ...string) {
	if len(labels) != len(Table[m].Labels) || Table[m].Kind != Histogram {
		panic(fmt.Sprintf("%s with labels %v", Table[m].Name, labels))
	}
	f.counts[fmt.Sprintf("%s/%s/%d", Table[m].Name, strings.Join(labels, "/"), value)] += times
}

func TestPublish(t *testing.T) {
	e := limiter.New(limiter.Options{Keys: 1024, Start: 1})
	now := int64(1)
	f := &fake{counts: map[string]uint64{}, gauges: map[Metric]uint64{}}
	m := New(e, f, func() int64 { return now })
	ask := func(tenant, client string) {
		e.Decide(now, &limiter.Request{Tenant: tenant, Client: client, Pool: "api", Cost: 1})
	}
	ask("acme", "a")
	err := e.Apply(&config.Config{
		Revision: 4, Pools: []config.Pool{{Name: "api", Capacity: 1000}},
		Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: []config.Limit{{Name: "l", Rate: 0.001, Burst: 3}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.SetShares(&exchange.Shares{Epoch: 9, Flows: []exchange.Share{{Tenant: "acme", Pool: "api", Share: 1e6}}})
	for range 5 {
		ask("acme", "a")
	}
	ask("nobody", "a")
	m.Publish(Process{Panics: 2, LinkConnected: true})
	want := map[string]uint64{
		"titrate_requests_total/-/booted":         1,
		"titrate_requests_total/-/unknown_tenant": 1,
		"titrate_requests_total/api/admitted":     3,
		"titrate_requests_total/api/client_limit": 2,
		"titrate_panics_total/":                   2,
	}
	if len(f.counts) != len(want) {
		t.Errorf("published %v", f.counts)
	}
	for series, n := range want {
		if f.counts[series] != n {
			t.Errorf("%s is %d, want %d", series, f.counts[series], n)
		}
	}
	if f.gauges[ConfigRevision] != 4 || f.gauges[SharesEpoch] != 9 || f.gauges[LinkConnected] != 1 ||
		f.gauges[Keys] != 1 {
		t.Errorf("gauges %v", f.gauges)
	}
	calls := f.calls
	m.Publish(Process{Panics: 2})
	if f.calls != calls {
		t.Errorf("nothing happened, yet %d counters moved", f.calls-calls)
	}
	if f.gauges[LinkConnected] != 0 {
		t.Error("a lost link is not published")
	}
}

func TestTableIsComplete(t *testing.T) {
	for m, d := range Table {
		if !strings.HasPrefix(d.Name, "titrate_") || strings.HasSuffix(d.Name, "_total") != (d.Kind == Counter) {
			t.Errorf("metric %d is %+v", m, d)
		}
	}
}
