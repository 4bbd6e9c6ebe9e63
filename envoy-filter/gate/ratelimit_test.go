package gate

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/limiter"
)

func TestRateLimitFields(t *testing.T) {
	for _, c := range []struct {
		a            limiter.Allowance
		policy, left string
	}{
		{limiter.Allowance{Limit: "per-client", Rate: 100, Burst: 100, Remaining: 41.7, Reset: 583 * time.Millisecond},
			`"per-client";q=100;w=1`, `"per-client";r=41;t=1`},
		{limiter.Allowance{Limit: "a", Rate: 10.0 / 60, Burst: 10, Remaining: 2.9999999, Reset: 42 * time.Second},
			`"a";q=10;w=60`, `"a";r=3;t=42`},
		{limiter.Allowance{Limit: "a", Rate: 100, Burst: 1, Reset: time.Second}, `"a";q=100;w=1`, `"a";r=0;t=1`},
		{limiter.Allowance{Limit: "a", Rate: 3, Burst: 10, Remaining: 10}, `"a";q=9;w=3`, `"a";r=10;t=0`},
		{limiter.Allowance{Limit: "none", Rate: 0, Burst: 1, Remaining: 1}, `"none";q=0`, `"none";r=1;t=0`},
		{limiter.Allowance{Limit: "a\"b\\é", Rate: 1e30, Burst: 1e30, Remaining: math.Inf(1)},
			`"a\"b\\__";q=999999999999999;w=1`, `"a\"b\\__";r=999999999999999;t=0`},
	} {
		if p, l := string(AppendPolicy(nil, c.a)), string(AppendRateLimit(nil, c.a)); p != c.policy || l != c.left {
			t.Errorf("%+v:\n%s\n%s", c.a, p, l)
		}
	}
}

func TestPushback(t *testing.T) {
	for want, out := range map[string]limiter.Outcome{
		"1":    {Reason: limiter.ClientLimit, RetryAfter: 1},
		"1500": {Reason: limiter.QueueFull, RetryAfter: 1500 * time.Millisecond},
		"-1":   {Reason: limiter.ClientLimit},
		"":     {Reason: limiter.QueueFull},
	} {
		if got := string(AppendPushback(nil, out)); got != want {
			t.Errorf("%+v: %q, want %q", out, got, want)
		}
	}
}

// Whatever a limit is called and says, both fields parse, and fit where C has
// room for them.
func FuzzRateLimitFields(f *testing.F) {
	f.Add("per-client", 100.0, 10.0, 3.5, int64(1))
	f.Add(strings.Repeat("\"", 200), math.NaN(), math.Inf(1), -1.0, int64(math.MaxInt64))
	item := regexp.MustCompile(`^"([ !#-\[\]-~]|\\["\\])*"(;[qwrt]=\d{1,15})+$`)
	f.Fuzz(func(t *testing.T, name string, rate, burst, left float64, reset int64) {
		a := limiter.Allowance{Limit: name, Rate: rate, Burst: burst, Remaining: left, Reset: time.Duration(reset)}
		for _, b := range [][]byte{AppendPolicy(nil, a), AppendRateLimit(nil, a)} {
			if !item.Match(b) || len(b) > 192 {
				t.Fatalf("%q", b)
			}
		}
	})
}

func TestPeekBody(t *testing.T) {
	a := limiter.Allowance{Limit: "per-client", Rate: 2, Burst: 10, Remaining: 7.25, Reset: 1375 * time.Millisecond}
	var v map[string]any
	if err := json.Unmarshal(AppendPeek(nil, limiter.Outcome{}, a), &v); err != nil {
		t.Fatal(err)
	}
	if v["verdict"] != "admit" || v["limit"] != "per-client" || v["remaining"] != 7.25 || v["reset"] != 1.375 {
		t.Errorf("%v", v)
	}
	if err := json.Unmarshal(AppendPeek(nil, limiter.Outcome{}, limiter.Allowance{}), &v); err != nil {
		t.Error(err)
	}
	most := limiter.Allowance{Limit: strings.Repeat("\x01", 200), Rate: math.MaxFloat64, Burst: math.Inf(1), Remaining: math.MaxFloat64, Reset: math.MaxInt64, Wait: math.MaxInt64}
	if b := AppendPeek(nil, limiter.Outcome{}, most); len(b) > 1024 || json.Unmarshal(b, &v) != nil {
		t.Errorf("%d bytes, more than a question has room for, or no JSON: %s", len(b), b)
	}
}

// A pool's own policy for loss comes before the process's when a decision fails.
func TestPanicObeysThePool(t *testing.T) {
	for _, c := range []struct {
		loss limiter.OnLoss
		boot limiter.BootPolicy
		want limiter.Verdict
	}{
		{limiter.Freeze, limiter.BootOpen, limiter.Admit}, {limiter.Freeze, limiter.BootClosed, limiter.Reject},
		{limiter.Open, limiter.BootClosed, limiter.Admit}, {limiter.SafeRate, limiter.BootOpen, limiter.Reject},
	} {
		e := limiter.New(limiter.Options{Keys: 1024, Start: Now()})
		if err := e.Apply(&limiter.Config{Pools: []limiter.Pool{{Name: "api", Capacity: 1, OnLoss: c.loss}}}); err != nil {
			t.Fatal(err)
		}
		g := New(Options{Engine: e, Fail: c.boot})
		var out limiter.Outcome
		func() {
			defer g.barrier(&out, &acme)
			panic("x")
		}()
		if out.Verdict != c.want {
			t.Errorf("%v, %v: %+v", c.loss, c.boot, out)
		}
	}
}
