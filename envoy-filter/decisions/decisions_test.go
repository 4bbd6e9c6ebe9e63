package decisions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
)

// engine has tenants t0, t1, … whose clients have one request.
func engine(t testing.TB, tenants int) *limiter.Engine {
	t.Helper()
	e := limiter.New(limiter.Options{Keys: 1 << 12, Start: 1})
	c := &config.Config{Revision: 7, Pools: []config.Pool{{Name: "api", Capacity: 100}}}
	for i := range tenants {
		c.Tenants = append(c.Tenants, config.Tenant{Name: fmt.Sprint("t", i), Weight: 1,
			Limits: []config.Limit{{Name: "per-client", Rate: .5, Burst: 1}}})
	}
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	e.SetShares(&exchange.Shares{Epoch: 3, Flows: []exchange.Share{{Tenant: "t0", Pool: "api", Share: 20}}})
	return e
}

func decide(b *Buffer, e *limiter.Engine, now int64, id, tenant string) {
	r := &limiter.Request{Tenant: tenant, Client: "alice\xff" + strings.Repeat("x", 500), Pool: "api", Cost: 1}
	if out := e.Decide(now, r); out.Verdict == limiter.Reject {
		b.Note(now, id, r, out, "", e)
	}
}

// A refused request is reported with the limit that refused it, and its age; an admitted request is not.
func TestNote(t *testing.T) {
	b, e := &Buffer{}, engine(t, 1)
	decide(b, e, 1e9, "r-0", "t0")
	decide(b, e, 1e9, "r-1", "t0")
	if d := b.Take(2e9); d != nil {
		t.Fatalf("no agent takes decisions, and there are %+v", d)
	}
	b.Want(true)
	decide(b, e, 1e9, "r-2", "t0")
	decide(b, e, 1e9, "", "t0") // has no ID
	d := b.Take(3e9)
	if d == nil || len(d.List) != 1 {
		t.Fatalf("%+v", d)
	}
	got := d.List[0]
	if got.Request != "r-2" || got.Tenant != "t0" || got.Pool != "api" || !got.Refused || got.Reason != "client_limit" ||
		got.Limit != "per-client" || got.Age != 2*time.Second || got.Cost != 1 || got.RetryAfter.Round(time.Millisecond) != 2*time.Second ||
		got.Revision != 7 || got.Epoch != 3 || len(got.Client) > longest || !strings.HasPrefix(got.Client, "alice?x") {
		t.Errorf("%+v", got)
	}
	if len(got.Limits) != 1 || got.Limits[0].Passes || got.Limits[0].Free != 0 || got.Limits[0].Burst != 1 ||
		!got.Share.Known || got.Share.Share != 20 {
		t.Errorf("%+v", got)
	}
	if b.Take(3e9) != nil || b.Lost() != 0 {
		t.Error("it is sent twice, or lost")
	}
}

// A tenant with many refusals leaves room for the others; decisions without room are counted.
func TestRoom(t *testing.T) {
	const tenants = 40
	b, e := &Buffer{}, engine(t, tenants)
	b.Want(true)
	for i := range 1000 { // the first one is admitted
		decide(b, e, 1e9, fmt.Sprint("r-", i), "t0")
	}
	for i := range tenants {
		decide(b, e, 1e9, "first", fmt.Sprint("t", i))
		decide(b, e, 1e9, "second", fmt.Sprint("t", i))
	}
	sent := map[string]int{}
	list := b.Take(1e9).List
	for _, d := range list {
		sent[d.Tenant]++
	}
	if sent["t0"] != PerTenant || len(sent) < tenants*3/4 || b.Lost() != uint64(999+2+tenants-1-len(list)) {
		t.Errorf("sent %v, %d lost", sent, b.Lost())
	}
	marked := limiter.Outcome{Verdict: limiter.Admit, Mark: true}
	for range Most {
		b.Note(1e9, "m", &limiter.Request{Tenant: "t0", Pool: "api", Cost: 1}, marked, "", e)
	}
	if got := len(b.Take(1e9).List); got != PerTenant/2 {
		t.Errorf("%d marked requests are sent, want %d", got, PerTenant/2)
	}
}

// BenchmarkNote measures a refused request that is noted, and one without room.
func BenchmarkNote(b *testing.B) {
	e := engine(b, 1)
	r := &limiter.Request{Tenant: "t0", Client: "alice", Pool: "api", Cost: 1}
	e.Decide(1e9, r)
	out := e.Decide(1e9, r)
	b.Run("noted", func(b *testing.B) {
		buffer := &Buffer{}
		buffer.Want(true)
		for i := 0; b.Loop(); i++ {
			if i%PerTenant == 0 {
				buffer.Take(1e9)
			}
			buffer.Note(1e9, "0f7e6d5c-1b2a-4c3d-8e9f-001122334455", r, out, "", e)
		}
	})
	b.Run("no-room", func(b *testing.B) {
		buffer := &Buffer{}
		buffer.Want(true)
		for b.Loop() {
			buffer.Note(1e9, "0f7e6d5c-1b2a-4c3d-8e9f-001122334455", r, out, "", e)
		}
	})
}

// Decisions noted for an earlier agent are not sent to an agent that takes no decisions.
func TestDecisionsOfAnEarlierAgent(t *testing.T) {
	var b Buffer
	b.Want(true)
	b.list = []noted{{}}
	b.Want(false)
	if d := b.Take(1); d != nil {
		t.Errorf("%+v", d)
	}
}
