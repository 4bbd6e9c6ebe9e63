package compile

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/proto/link"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store/resource"
)

// anything draws resources: one value in eight without regard to what is valid, the others
// at its bounds.
type anything struct{ t *rapid.T }

// of draws one of the good values or, one time in eight, one of the bad ones.
func of[T any](a anything, what string, good, bad []T) T {
	if rapid.IntRange(0, 7).Draw(a.t, what+" is bad") == 7 {
		good = bad
	}
	return rapid.SampledFrom(good).Draw(a.t, what)
}

func (a anything) number(what string) float64 {
	return of(a, what, []float64{1, 1.5, 100, 1e6},
		[]float64{0, math.SmallestNonzeroFloat64, 0.1, 0.5, 1e9, 1e9 + 1, 1e12, 1e13, 1e308, -1, math.Inf(1),
			math.NaN()})
}

func (a anything) id(what string) string {
	return of(a, what, []string{"a", "api", "a.b_c-d",
		"x23456789012345678901234567890123456789012345678901234567890123"},
		[]string{"-", "", "A", "*"})
}

func (a anything) enum(what string) int32 { return of(a, what, []int32{0, 1, 2, 3}, []int32{4, 9}) }

func (a anything) duration(what string, good ...time.Duration) *durationpb.Duration {
	at := of(a, what, append(good, 0), []time.Duration{-1, 1, 11 * time.Second, time.Minute + 1, 1 << 62})
	if at == 0 {
		return nil
	}
	return durationpb.New(at)
}

func (a anything) rate() string {
	return of(a, "rate", []string{"0", "0/s", "0.000000001/d", "1/s", "100/min", "1000000000/s"},
		[]string{"1000000001/s", "9999999999999/day", "1e9/s", "x"})
}

func (a anything) queue() *quotav1.Queue {
	if rapid.Bool().Draw(a.t, "no queue") {
		return nil
	}
	return &quotav1.Queue{
		Aqm:         quotav1.Aqm(a.enum("aqm")),
		DelayTarget: a.duration("target", time.Millisecond, 10*time.Second),
		MaxWait:     a.duration("wait", time.Millisecond, time.Minute),
		MaxRequests: of(a, "requests", []uint32{0, 1, 1e6}, []uint32{1e6 + 1, math.MaxUint32}),
	}
}

func (a anything) resource() resource.Message {
	switch rapid.IntRange(0, 4).Draw(a.t, "kind") {
	case 0:
		p := &quotav1.Pool{
			Name: "pools/" + a.id("pool"), Capacity: a.number("capacity"), OnLoss: quotav1.OnLoss(a.enum("loss")),
			HardExpiry: a.duration("expiry", 1, time.Hour), Queue: a.queue(), Alpha: a.number("alpha"),
			Cost: of(a, "cost", []string{"", "output"}, []string{"Out put"}),
		}
		if rapid.Bool().Draw(a.t, "adaptive") {
			p.Adaptive = &quotav1.Adaptive{Min: a.number("min"), Max: a.number("max")}
		}
		return p
	case 4:
		return &quotav1.Plan{Name: "plans/" + a.id("plan"), Weight: a.number("weight")}
	case 1:
		return &quotav1.Tenant{Name: "tenants/" + a.id("tenant"), Weight: a.number("weight")}
	case 2:
		q := &quotav1.Quota{
			Name:       fmt.Sprintf("tenants/%s/quotas/%s", a.id("tenant"), a.id("pool")),
			Guaranteed: a.number("guaranteed"), Mode: quotav1.Mode(a.enum("mode")),
		}
		if rapid.Bool().Draw(a.t, "bounded") {
			q.Max, q.Weight = proto.Float64(a.number("max")), proto.Float64(a.number("weight"))
		}
		return q
	}
	l := &quotav1.Limit{
		Name: fmt.Sprintf("tenants/%s/limits/%s", a.id("tenant"), a.id("limit")),
		Key:  quotav1.Key(a.enum("key")), Rate: a.rate(), Burst: a.number("burst"), Mode: quotav1.Mode(a.enum("mode")),
		Queue: a.queue(), Strict: rapid.Bool().Draw(a.t, "strict"),
		Cost:     of(a, "cost", []string{"", "output"}, []string{"-"}),
		Identity: of(a, "identity", []string{"", "ip"}, []string{"I P"}),
		Classes:  of(a, "classes", [][]string{nil, {"writes", "b"}}, [][]string{{""}, {"A b"}}),
		Pools:    of(a, "pools", [][]string{nil, {"api", "gone"}}, [][]string{{""}, {"a", "a"}}),
	}
	if rapid.IntRange(0, 3).Draw(a.t, "kind") == 0 { // mostly refused, for the other fields
		l.Concurrency = rapid.Int64Range(-1, 1_000_001).Draw(a.t, "concurrency")
		l.Rate, l.Burst = of(a, "rate beside", []string{""}, []string{"1/s"}), 0
		if rapid.Bool().Draw(a.t, "alone") {
			l.Queue, l.Strict, l.Cost = nil, false, ""
		}
	}
	for range rapid.IntRange(0, 2).Draw(a.t, "overrides") {
		l.Overrides = append(l.Overrides, &quotav1.InlineOverride{Client: a.id("client"), Rate: a.rate(),
			Burst: a.number("burst")})
	}
	return l
}

// What the API accepts, resource by resource, compiles without anything left out, and
// a gateway applies it as it comes over the link.
func TestWhatTheAPIAcceptsAGatewayApplies(t *testing.T) {
	kinds := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		var accepted []*quotav1.Resource
		for range rapid.IntRange(1, 12).Draw(t, "resources") {
			m := anything{t}.resource()
			if valid.Resource(m) == nil {
				accepted = append(accepted, resource.Of(m))
				kinds[fmt.Sprintf("%T", m)]++
			}
		}
		gateway(t, accepted)
	})
	t.Logf("accepted: %v", kinds)
	if len(kinds) < 4 {
		t.Errorf("only %v were accepted, want some of each kind", kinds)
	}
}

// gateway returns the engine of a gateway that has applied the resources.
func gateway(t interface {
	Helper()
	Fatalf(string, ...any)
}, resources []*quotav1.Resource) *limiter.Engine {
	t.Helper()
	compiled, left, err := whole(resources)
	if err != nil || len(left) > 0 {
		t.Fatalf("refused: %v, left out: %+v", err, left)
	}
	received := overTheLink(t, compiled)
	if left := received.LeaveOut(); len(left) > 0 {
		t.Fatalf("a gateway leaves out %+v", left)
	}
	e := limiter.New(limiter.Options{Keys: 1024})
	if err := e.Apply(received); err != nil {
		t.Fatalf("a gateway refuses it: %v", err)
	}
	return e
}

// overTheLink is a configuration as a gateway receives it.
func overTheLink(t interface {
	Helper()
	Fatalf(string, ...any)
}, c *config.Config) *config.Config {
	t.Helper()
	var wire bytes.Buffer
	if err := link.NewWriter(&wire).Write(c); err != nil {
		t.Fatalf("it cannot be sent: %v", err)
	}
	m, err := link.NewReader(&wire).Next()
	received, ok := m.(*config.Config)
	if err != nil || !ok {
		t.Fatalf("it arrives as %T: %v", m, err)
	}
	return received
}

// A rate of 0 and a max of 0 in a document block at once: nothing waits, and no answer
// says when to come back.
func TestDocumentsThatBlock(t *testing.T) {
	documents, err := document.Parse("blocked.yaml", []byte(`
apiVersion: titrate.dev/v1alpha1
kind: Pool
name: pools/api
spec: { capacity: 1000 }
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/acme/limits/none
spec: { rate: 0, queue: { maxWait: 10s } }
---
apiVersion: titrate.dev/v1alpha1
kind: Quota
name: tenants/bolt/quotas/api
spec: { max: 0 }
`))
	if err != nil {
		t.Fatal(err)
	}
	var resources []*quotav1.Resource
	for _, d := range documents {
		if err := valid.Resource(d.Resource); err != nil {
			t.Fatalf("%s: %v", d.Name(), err)
		}
		resources = append(resources, resource.Of(d.Resource))
	}
	e := gateway(t, resources)
	for tenant, want := range map[string]limiter.Outcome{
		"acme": {Verdict: limiter.Reject, Reason: limiter.ClientLimit, Limit: "none"},
		"bolt": {Verdict: limiter.Reject, Reason: limiter.TenantShare, Limit: limiter.ShareName},
	} {
		r := &limiter.Request{Tenant: tenant, Client: "x", Pool: "api", Cost: 1}
		if out := e.Decide(1e9, r); out != want {
			t.Errorf("%s: %+v, want %+v", tenant, out, want)
		}
		if out, h := e.Enqueue(1e9, r, 1); out != want || h != 0 {
			t.Errorf("%s is held: %+v, want %+v", tenant, out, want)
		}
	}
}
