package decisions

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
)

func one(request, tenant string, age time.Duration) *exchange.Decisions {
	return &exchange.Decisions{List: []exchange.Decision{{Request: request, Tenant: tenant, Age: age, Refused: true,
		Reason: "client_limit", Limit: "per-client", Limits: []exchange.LimitStep{{Name: "per-client", Rate: 3}}}}}
}

func find(s *Store, now time.Duration, id string) *controlv1.Answer {
	return s.Answer(now, &controlv1.Question{Id: 9, Request: id})
}

// A request is found by its ID, the latest decision first; others are not.
func TestFind(t *testing.T) {
	s := &Store{}
	if a := find(s, time.Second, "r-1"); a.Id != 9 || a.GetRemembered() != 0 || a.Back != nil || len(a.Decisions) != 0 {
		t.Errorf("nothing is known: %v", a)
	}
	s.Add(time.Second, "gw-1", one("r-1", "acme", 200*time.Millisecond))
	s.Add(3*time.Second, "gw-2", one("r-1", "acme", 0))
	s.Add(3*time.Second, "gw-2", one("r-2", "bolt", time.Hour)) // impossible
	a := find(s, 4*time.Second, "r-1")
	if len(a.Decisions) != 2 || a.GetRemembered() != 3 || a.Back.AsDuration() != time.Minute+time.Second {
		t.Fatalf("%v", a)
	}
	d, earlier := a.Decisions[0], a.Decisions[1]
	if d.Gateway != "gw-2" || d.Ago.AsDuration() != time.Second || earlier.Ago.AsDuration() != 3200*time.Millisecond ||
		d.Tenant != "acme" || !d.Refused || d.Limit != "per-client" || len(d.Limits) != 1 || d.Share != nil ||
		d.Waited != nil {
		t.Errorf("%v", a)
	}
	if a := find(s, 4*time.Second, "r-3"); len(a.Decisions) != 0 || a.GetRemembered() != 3 {
		t.Errorf("a request that nobody decided: %v", a)
	}
}

// The memory is bounded; a tenant with many refusals displaces its own, and few of others.
func TestBound(t *testing.T) {
	s := &Store{}
	const tenants = 64
	for i := range tenants {
		s.Add(0, "gw", one("early", fmt.Sprint("t-", i), 0))
	}
	for i := range 2 * perPart {
		s.Add(time.Second, "gw", one(fmt.Sprint("r-", i), "busy", 0))
	}
	if len(find(s, time.Second, "r-0").Decisions) != 0 ||
		len(find(s, time.Second, fmt.Sprint("r-", 2*perPart-1)).Decisions) != 1 {
		t.Error("the latest decisions are not those that are kept")
	}
	early := 0
	for i := range s.parts {
		for _, d := range s.parts[i].list {
			if d.Request == "early" {
				early++
			}
		}
	}
	if a := find(s, time.Second, "early"); len(a.Decisions) != mostFound || early < tenants/2 ||
		a.GetRemembered() != int64(perPart+early) {
		t.Errorf("%d of %d early ones are left, %d told, %d in all", early, tenants, len(a.Decisions), a.GetRemembered())
	}
}

// BenchmarkAnswer is one question to an agent whose memory is full.
func BenchmarkAnswer(b *testing.B) {
	s := &Store{}
	for i := range 2 * parts * perPart {
		s.Add(0, "gw", one(fmt.Sprintf("0f7e6d5c-1b2a-4c3d-8e9f-%012d", i), fmt.Sprint("t-", i%1000), 0))
	}
	for b.Loop() {
		find(s, time.Second, "0f7e6d5c-1b2a-4c3d-8e9f-000000000000")
	}
}

// BenchmarkMemory fills the memory with decisions as they come from a gateway: with short names and two
// limits for each request, and with the most.
func BenchmarkMemory(b *testing.B) {
	for name, c := range map[string]struct{ limits, letters int }{"usual": {2, 0}, "most": {16, 128}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(memory(b, c.limits, c.letters)/(parts*perPart), "B/decision")
			}
		})
	}
}

// memory returns the size of a full store, bytes.
func memory(b *testing.B, limits, letters int) float64 {
	b.Helper()
	var wire bytes.Buffer
	w, r, s := link.NewWriter(&wire), link.NewReader(&wire), &Store{}
	w.SetVersion(link.Version)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := 0; i < 2*parts*perPart; i += 128 {
		if err := w.Write(refusals(i, limits, letters)); err != nil {
			b.Fatal(err)
		}
		m, err := r.Next()
		if err != nil {
			b.Fatal(err)
		}
		s.Add(0, "gw", m.(*exchange.Decisions))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(s)
	return float64(after.HeapAlloc - before.HeapAlloc)
}

// refusals are 128 from the number first on, of 1000 tenants, with so many limits each. Names have at
// least so many letters.
func refusals(first, limits, letters int) *exchange.Decisions {
	out := &exchange.Decisions{}
	long := func(name string, i int) string { return fmt.Sprintf("%s-%0*d", name, max(0, letters-len(name)-1), i) }
	for i := first; i < first+128; i++ {
		d := exchange.Decision{Request: fmt.Sprintf("0f7e6d5c-1b2a-4c3d-8e9f-%012d", i), Tenant: long("tenant", i%1000),
			Client: long("client", i), Pool: long("api", 1), Refused: true, Reason: "client_limit", Limit: long("limit", 1)}
		for l := range limits {
			d.Limits = append(d.Limits, exchange.LimitStep{Name: long("limit", l), Client: d.Client, Rate: 3})
		}
		out.List = append(out.List, d)
	}
	return out
}
