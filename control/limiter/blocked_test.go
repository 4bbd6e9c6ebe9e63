package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// A quota with a max of 0 and a limit of rate 0 refuse at once: nothing waits, and
// no answer has a time to come back.
func TestBlockedIsRefusedAtOnce(t *testing.T) {
	queue := config.Queue{MaxRequests: 10, MaxWait: time.Second}
	for _, law := range []config.Law{config.VariableStructure, config.DropTail, config.Police, config.CoDel} {
		share := simple(100, config.Queue{Law: law})
		share.Tenants[0].Quotas = []config.Quota{{Pool: "api", Max: 0}}
		limit := simple(100, config.Queue{Law: law}, config.Limit{Name: "l", Rate: 0, Queue: queue})
		for name, c := range map[string]*config.Config{"max 0": share, "rate 0": limit} {
			e := New(Options{Keys: 1024})
			mustApply(t, e, c)
			want := Outcome{Verdict: Reject, Reason: TenantShare, Limit: ShareName}
			if name == "rate 0" {
				want = Outcome{Verdict: Reject, Reason: ClientLimit, Limit: "l"}
			}
			r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}
			for i := range 3 {
				now := sec + int64(i)*sec
				peeked, left := e.Peek(now, r)
				held, h := e.Enqueue(now, r, 1)
				if got := e.Decide(now, r); got != want || held != want || h != 0 || peeked != want {
					t.Errorf("%v, %s: %+v, enqueued %+v, peeked %+v, want %+v", law, name, got, held, peeked, want)
				}
				if left.Rate != 0 || left.Remaining != 0 || left.Next != 0 {
					t.Errorf("%v, %s: %+v is left, want nothing", law, name, left)
				}
			}
		}
	}
}

// What waits when its tenant is blocked is refused at the next tick.
func TestBlockingRefusesWhatWaits(t *testing.T) {
	e := New(Options{Keys: 1024})
	c := simple(2, config.Queue{MaxWait: 10 * time.Second}, config.Limit{Name: "l", Rate: 1, Burst: 3,
		Queue: config.Queue{MaxRequests: 9, MaxWait: 9 * time.Second}})
	mustApply(t, e, c)
	held := 0
	for i := range 8 {
		if out, _ := e.Enqueue(sec, &Request{Tenant: "a", Client: "x", Pool: "api"}, uint64(i)+1); out.Verdict == Wait {
			held++
		}
	}
	if held < 3 {
		t.Fatalf("%d wait, want some for the share and some for the limit", held)
	}
	c = simple(2, config.Queue{})
	c.Tenants[0].Quotas = []config.Quota{{Pool: "api", Max: 0}}
	mustApply(t, e, c)
	events := e.Tick(sec+5*ms, nil)
	for _, ev := range events {
		ev.Outcome.Waited = 0
		if ev.Outcome != blocked {
			t.Errorf("%+v, want %+v", ev.Outcome, blocked)
		}
	}
	if len(events) != held {
		t.Errorf("%d of %d are refused at the next tick", len(events), held)
	}
}

// The wait that a refusal advises begins with the refusal, not with the request.
func TestRetryAfterCountsFromTheAnswer(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{
		Name: "all", PerTenant: true, Rate: 10, Burst: 1, Queue: config.Queue{MaxRequests: 10,
			MaxWait: 300 * time.Millisecond},
	}))
	patient := &Request{Tenant: "a", Client: "patient", Pool: "api"}
	e.Decide(sec, patient)
	if out, _ := e.Enqueue(sec, patient, 1); out.Verdict != Wait {
		t.Fatalf("%+v, want to wait for the limit", out)
	}
	for now := sec; now < 2*sec; now += 5 * ms {
		e.Decide(now, &Request{Tenant: "a", Client: "quick", Pool: "api"}) // takes what there is, each time
		for _, ev := range e.Tick(now, nil) {
			o := ev.Outcome
			if o.Reason != QueueTimeout || o.RetryAfter <= 0 || o.RetryAfter > 100*time.Millisecond {
				t.Errorf("%+v, want a timeout and at most the 100 ms in which the limit refills", o)
			}
			return
		}
	}
	t.Error("it still waits")
}
