package leadership

import (
	"math"
	"testing"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"google.golang.org/protobuf/proto"
)

// FuzzReport gives the leader reports of any content of one agent, next to an honest one. Nothing panics, and the
// leases that the honest one gets are numbers that a gateway can enforce.
func FuzzReport(f *testing.F) {
	honest := &controlv1.Report{Replicas: []*controlv1.Replica{{Name: "gw", Weight: 1}},
		Flows: []*controlv1.FlowReport{{Tenant: "a", Pool: "api", Demand: 10, Served: 10}}}
	seed, _ := proto.Marshal(honest)
	worst, _ := proto.Marshal(&controlv1.Report{Replicas: []*controlv1.Replica{{Name: "x", Weight: math.Inf(1)}},
		Flows: []*controlv1.FlowReport{{Tenant: "b", Pool: "api", Demand: math.NaN(), Served: -1, Waiting: math.MaxFloat64}}})
	f.Add(seed, worst)
	f.Add(worst, seed)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		now := time.Unix(1_700_000_000, 0)
		l := New(Options{Params: allocation.Defaults(), Expiry: time.Second})
		l.Begin(now, 1, false)
		l.Configure(&allocation.Config{Revision: 1, Pools: []allocation.Pool{{Name: "api", Capacity: 100}},
			Tenants: map[string]float64{"a": 1, "b": 1}, Quotas: map[allocation.Flow]allocation.Quota{}})
		receiver := l.Hello(now, &controlv1.Hello{Agent: "honest"})
		l.Hello(now, &controlv1.Hello{Agent: "hostile"})
		for _, b := range [][]byte{first, second, first} {
			r := &controlv1.Report{}
			if proto.Unmarshal(b, r) != nil {
				return
			}
			l.Report(now, "hostile", r)
			l.Report(now, "honest", honest)
			now = now.Add(time.Second)
			l.Step(now)
			for _, m := range l.Next(now, receiver) {
				for _, lease := range m.Leases().GetLeases() {
					if s := lease.GetShare(); !(s >= 0 && s <= 101) {
						t.Fatalf("%s has a share of %v of 100", lease.GetTenant(), s)
					}
				}
			}
			l.View(now)
		}
	})
}
