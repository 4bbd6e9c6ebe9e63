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

// BenchmarkMemory fills the memory with decisions as they come from a gateway, with short names and
// two limits for each request.
func BenchmarkMemory(b *testing.B) {
	var wire bytes.Buffer
	w, r := link.NewWriter(&wire), link.NewReader(&wire)
	w.SetVersion(link.Version)
	var before, after runtime.MemStats
	for b.Loop() {
		s := &Store{}
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := 0; i < 2*parts*perPart; i += 128 {
			if err := w.Write(refusals(i, 128)); err != nil {
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
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(parts*perPart), "B/decision")
		runtime.KeepAlive(s)
	}
}

// refusals are so many from the number first on, of 1000 tenants.
func refusals(first, number int) *exchange.Decisions {
	out := &exchange.Decisions{}
	for i := first; i < first+number; i++ {
		client := fmt.Sprint("client-", i)
		out.List = append(out.List, exchange.Decision{Request: fmt.Sprintf("0f7e6d5c-1b2a-4c3d-8e9f-%012d", i),
			Tenant: fmt.Sprint("tenant-", i%1000), Client: client, Pool: "api", Refused: true, Reason: "client_limit",
			Limit: "per-client", Limits: []exchange.LimitStep{{Name: "per-client", Client: client, Rate: 3},
				{Name: "per-client-hourly", Client: client, Rate: 3}}})
	}
	return out
}
