package limiter

import (
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

func TestModeOfARequest(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(1e6, config.Queue{}, config.Limit{Name: "l", Rate: 1, Burst: 2}))
	ask := func(mode config.Mode) Outcome {
		return e.Decide(sec, &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1, Mode: mode})
	}
	for i, want := range []struct {
		mode config.Mode
		out  Outcome
	}{
		{config.Off, Outcome{}}, {config.Off, Outcome{}}, {config.Off, Outcome{}}, // charges nothing
		{config.Shadow, Outcome{}}, {config.Shadow, Outcome{}}, // charges what passes
		{config.Shadow, Outcome{Reason: ClientLimit, Shadow: true, Limit: "l", RetryAfter: time.Second}},
		{config.Enforce, Outcome{Verdict: Reject, Reason: ClientLimit, Limit: "l", RetryAfter: time.Second}},
		{config.Off, Outcome{}},
	} {
		out := ask(want.mode)
		out.RetryAfter = out.RetryAfter.Round(time.Microsecond)
		if out != want.out {
			t.Errorf("request %d, %v: %+v, want %+v", i, want.mode, out, want.out)
		}
	}
	var s Stats
	e.Stats(sec, &s)
	if p := s.Pools[0]; p.Admitted != 7 || p.Shadowed != 1 || p.Rejected[ClientLimit] != 1 {
		t.Errorf("counted %+v", p)
	}
}

// SHADOW never acts, whatever would: an unknown tenant, a full share, no
// configuration.
func TestShadowNeverActs(t *testing.T) {
	for what, tc := range map[string]struct {
		o      Options
		c      *config.Config
		tenant string
		why    Reason
	}{
		"no configuration": {Options{Boot: BootClosed}, nil, "a", NotConfigured},
		"unknown tenant":   {Options{Unknown: UnknownReject}, simple(10, config.Queue{}), "b", UnknownTenant},
		"police":           {Options{}, simple(0.1, config.Queue{Law: config.Police}), "a", TenantShare},
		"queue":            {Options{}, simple(0.1, config.Queue{}), "a", TenantShare},
	} {
		tc.o.Keys = 1024
		e := New(tc.o)
		if tc.c != nil {
			mustApply(t, e, tc.c)
		}
		var last Outcome
		for i := range 50 {
			r := &Request{Tenant: tc.tenant, Pool: "api", Cost: 1, Mode: config.Shadow}
			if last = e.Decide(sec, r); last.Verdict != Admit {
				t.Fatalf("%s, request %d: %+v", what, i, last)
			}
			if out, h := e.Enqueue(sec, r, 1); out.Verdict != Admit || h != 0 {
				t.Fatalf("%s: held %+v", what, out)
			}
		}
		if !last.Shadow || last.Reason != tc.why {
			t.Errorf("%s: %+v, want a shadow outcome with %v", what, last, tc.why)
		}
	}
}

// A SHADOW limit says why it would have refused, also of requests that waited.
func TestShadowReasons(t *testing.T) {
	e := New(Options{Keys: 1024})
	mustApply(t, e, simple(20, config.Queue{Law: config.DropTail, DelayTarget: time.Second},
		config.Limit{Name: "watched", Rate: 0.001, Burst: 1, Mode: config.Shadow}))
	r := &Request{Tenant: "a", Client: "x", Pool: "api", Cost: 1}
	e.Decide(sec, r)
	want := Outcome{Reason: ClientLimit, Shadow: true, Limit: "watched"}
	if out := e.Decide(sec, r); out != want {
		t.Errorf("%+v, want %+v", out, want)
	}
	for e.Decide(sec, r).Verdict == Admit {
	}
	if out, _ := e.Enqueue(sec, r, 1); out.Verdict != Wait {
		t.Fatalf("not held: %+v", out)
	}
	ev := e.Tick(sec+200*ms, nil)
	want.Waited = 200 * time.Millisecond
	if len(ev) != 1 || ev[0].Outcome != want {
		t.Errorf("%+v, want %+v", ev, want)
	}
}
