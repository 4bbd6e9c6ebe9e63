package process

import (
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/heavyhitters"
	"github.com/titrate/titrate/proto/link"
)

// The longest report fits into a record of the link; a longer record would break the link. The report has all
// limits and one part of the clients, with the longest names and the largest counts, and other clients in this
// minute than in the minute before.
func TestTheLongestReportFits(t *testing.T) {
	const tenants = 1000
	long := func(n int) string { return fmt.Sprintf("%0*d", 2*heavyhitters.NameBytes, n)[heavyhitters.NameBytes:] }
	c := &config.Config{Revision: 1, Pools: []config.Pool{{Name: "api", Capacity: 1e6}}}
	for i := range tenants {
		c.Tenants = append(c.Tenants, config.Tenant{Name: long(i),
			Limits: []config.Limit{{Name: long(1), Rate: 1e-3, Burst: 1}}})
	}
	e := limiter.New(limiter.Options{Keys: 4 * tenants})
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	const minute = int64(60e9)
	o := &observer{}
	for i := range tenants {
		r := &limiter.Request{Tenant: long(i), Client: long(i), Pool: long(2), Cost: 1}
		e.Decide(minute, r)
		o.Refused(minute*int64(1+2*i/tenants), r, e.Decide(minute, r).Limit)
	}
	var r exchange.Report
	e.Report(2*minute, &r)
	for i := range r.Limits {
		for _, n := range r.Limits[i].Counts.Fields() {
			*n = math.MaxUint64
		}
	}
	most := 0
	for part := range heavyhitters.Parts {
		o.report(2*minute, part, &r)
		most = max(most, len(r.Clients))
		if err := link.NewWriter(io.Discard).Write(&r); err != nil {
			t.Fatalf("%d limits and %d clients: %v", len(r.Limits), len(r.Clients), err)
		}
	}
	if most != heavyhitters.PerPart || len(r.Limits) == 0 || len(r.Limits[0].Tenant) != heavyhitters.NameBytes {
		t.Errorf("%d clients in a part, %d limits: not the longest report", most, len(r.Limits))
	}
}
