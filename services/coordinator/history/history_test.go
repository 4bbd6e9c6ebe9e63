package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

var begin = time.Unix(1_790_000_000, 0)

func outcome(admitted float64, pools ...string) *allocation.Outcome {
	o := &allocation.Outcome{}
	for _, name := range pools {
		o.Pools = append(o.Pools, allocation.PoolShare{Pool: name, Admitted: admitted, Demand: 2 * admitted, Capacity: 100,
			Events: allocation.Events{Waiting: 1, Marked: 2, Refused: 3}})
		for i := range 6 {
			o.Flows = append(o.Flows, allocation.FlowShare{Flow: allocation.Flow{Tenant: fmt.Sprint("t", i), Pool: name},
				Share: 9, Admitted: float64(i)})
		}
	}
	return o
}

// A sample is the mean of its step, and the ring keeps an hour.
func TestTheLastHour(t *testing.T) {
	var h History
	if h.Of("api") != nil {
		t.Error("something is known before the first round")
	}
	at := begin
	for i := range Samples + 3 {
		for round := range 40 {
			h.Add(at, outcome(float64(i)+float64(round%2), "api"))
			at = at.Add(250 * time.Millisecond)
		}
	}
	got := h.Of("api")
	if len(got.Samples) != Samples || !got.Since.AsTime().Equal(begin) || got.Step.AsDuration() != Step {
		t.Fatalf("%d samples since %v", len(got.Samples), got.Since.AsTime())
	}
	for i, s := range got.Samples[1:] {
		if apart := s.Time.AsTime().Sub(got.Samples[i].Time.AsTime()); apart < Step || apart > Step+time.Second {
			t.Fatalf("samples %d and %d are %v apart", i, i+1, apart)
		}
	}
	s := got.Samples[len(got.Samples)-1]
	if s.Admitted < Samples || s.Admitted > Samples+2 || s.Demand != 2*s.Admitted || s.Waiting != 1 || s.Marked != 2 ||
		s.Refused != 3 {
		t.Errorf("the last sample: %v", s)
	}
	if len(s.Tenants) != tenants || s.Tenants[0].Tenant != "t2" || s.Tenants[3].Tenant != "t5" || s.Tenants[3].Share != 9 {
		t.Errorf("tenants: %v", s.Tenants)
	}
}

// A pool that goes takes its history along. A later pool has its own beginning, and the number is bounded.
func TestPoolsComeAndGo(t *testing.T) {
	var h History
	var many []string
	for i := range MaxPools + 1 {
		many = append(many, fmt.Sprint("p", i))
	}
	h.Add(begin, outcome(1, many...))
	h.Add(begin.Add(Step), outcome(3, many...))
	if s := h.Of("p0"); len(s.Samples) != 1 || s.Samples[0].Admitted != 2 {
		t.Errorf("%v, want the mean of two rounds", s)
	}
	if h.Of(many[MaxPools]) != nil {
		t.Error("the number of pools has no bound")
	}
	later := begin.Add(Step + time.Second)
	h.Add(later, outcome(5, "p0", "new"))
	h.Add(later.Add(Step), outcome(5, "p0"))
	if h.Of("p1") != nil || len(h.Of("p0").Samples) != 2 {
		t.Error("a pool that is gone is remembered, or one that stays is not")
	}
	if h.Of("new") != nil && len(h.Of("new").Samples) > 1 {
		t.Error("a pool of one round has more than a sample")
	}
}

func BenchmarkRound(b *testing.B) {
	var h History
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint("p", i))
	}
	o, at := outcome(1, many...), begin
	for b.Loop() {
		at = at.Add(250 * time.Millisecond)
		h.Add(at, o)
	}
}
