package answer

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/limiter"
)

func TestRateLimitFields(t *testing.T) {
	for _, c := range []struct {
		a            limiter.Allowance
		policy, left string
	}{
		{limiter.Allowance{Limit: "per-client", Rate: 100, Burst: 100, Remaining: 41.7, Next: 3 * time.Millisecond},
			`"per-client";q=100;w=1`, `"per-client";r=41;t=1`},
		{limiter.Allowance{Limit: "a", Rate: 10.0 / 60, Burst: 10, Remaining: 2.9999999, Next: 6 * time.Second},
			`"a";q=10;w=60`, `"a";r=3;t=6`},
		{limiter.Allowance{Limit: "a", Rate: 100, Burst: 1, Next: 10 * time.Millisecond}, `"a";q=100;w=1`,
			`"a";r=0;t=1`},
		{limiter.Allowance{Limit: "a", Rate: 3, Burst: 10, Remaining: 10}, `"a";q=12;w=4`, `"a";r=10`},
		{limiter.Allowance{Limit: "a", Rate: 1e9, Burst: 1e9, Remaining: 1e9}, `"a";q=1000000000;w=1`, `"a";r=1000000000`},
		{limiter.Allowance{Limit: "none", Rate: 0, Burst: 1}, `"none";q=0`, `"none";r=0`},
		{limiter.Allowance{Limit: "in-flight", Concurrency: 20, Cost: 1, Next: time.Second, Wait: time.Second},
			`"in-flight";q=20;qu="concurrent-requests"`, `"in-flight";r=0;t=1`},
		{limiter.Allowance{Limit: "a\"b\\é", Rate: 1e30, Burst: 1e30, Remaining: math.Inf(1)},
			`"a\"b\\__";q=999999999999999;w=1`, `"a\"b\\__";r=999999999999999`},
	} {
		if p, l := string(AppendPolicy(nil, c.a)), string(AppendRateLimit(nil, c.a)); p != c.policy || l != c.left {
			t.Errorf("%+v:\n%s\n%s", c.a, p, l)
		}
	}
}

func TestPushback(t *testing.T) {
	for want, out := range map[int64]limiter.Outcome{
		1:             {Reason: limiter.ClientLimit, RetryAfter: 1},
		1500:          {Reason: limiter.QueueFull, RetryAfter: 1500 * time.Millisecond},
		math.MaxInt32: {Reason: limiter.QueueFull, RetryAfter: math.MaxInt64 / 2},
		-1:            {Reason: limiter.ClientLimit},
		0:             {Reason: limiter.QueueFull},
	} {
		if got := Pushback(out); got != want {
			t.Errorf("%+v: %d, want %d", out, got, want)
		}
	}
}

// Whatever name and numbers a limit has, both fields parse, and fit into the memory that C
// has for them.
func FuzzRateLimitFields(f *testing.F) {
	f.Add("per-client", 100.0, 10.0, 3.5, int64(1))
	f.Add(strings.Repeat("\"", 200), math.NaN(), math.Inf(1), -1.0, int64(math.MaxInt64))
	item := regexp.MustCompile(`^"([ !#-\[\]-~]|\\["\\])*"(;[qwrt]=\d{1,15})+$`)
	f.Fuzz(func(t *testing.T, name string, rate, burst, left float64, reset int64) {
		a := limiter.Allowance{Limit: name, Rate: rate, Burst: burst, Remaining: left, Next: time.Duration(reset)}
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
	most := limiter.Allowance{
		Limit: strings.Repeat("\x01", 200), Rate: math.MaxFloat64, Burst: math.Inf(1), Remaining: math.MaxFloat64,
		Reset: math.MaxInt64, Wait: math.MaxInt64,
	}
	if b := AppendPeek(nil, limiter.Outcome{}, most); len(b) > 1024 || json.Unmarshal(b, &v) != nil {
		t.Errorf("%d bytes, more than a question has room for, or no JSON: %s", len(b), b)
	}
}

// The numbers of an answer agree with each other and with the engine's next decision, for any limit: r ≤ q; t ≤
// w. After a refusal less is left than the request's cost, and the client is not asked to retry before more is
// there.
func TestRateLimitFieldsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := config.Limit{
			Name:  "l",
			Rate:  rapid.SampledFrom([]float64{0, 1. / 3600, 10. / 60, 0.45, 1, 1.5, 7, 100, 12345.6}).Draw(t, "rate"),
			Burst: rapid.SampledFrom([]float64{0, 1, 2.5, 10, 333}).Draw(t, "burst"),
			Cost:  rapid.SampledFrom([]string{"", "output"}).Draw(t, "the cost that counts"),
		}
		e := limiter.New(limiter.Options{Keys: 1024})
		e.Name(limiter.Names{Costs: [limiter.MaxCosts]string{"output"}})
		tenant := config.Tenant{Name: "a", Limits: []config.Limit{limit}}
		pools := []config.Pool{{Name: "api", Capacity: 1e9}}
		if err := e.Apply(&config.Config{Pools: pools, Tenants: []config.Tenant{tenant}}); err != nil {
			t.Fatal(err)
		}
		now := int64(time.Second)
		for range 30 {
			now += rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "dt")
			cost := rapid.SampledFrom([]float64{0.3, 1, 2.5, 9, 400}).Draw(t, "cost")
			r := &limiter.Request{Tenant: "a", Client: "x", Pool: "api", Cost: cost}
			if limit.Cost != "" {
				r.Cost, r.Costs = 1, &limiter.Costs{cost}
			}
			out := e.Decide(now, r)
			a := e.Allowance(now, r, out.Reason)
			if out.Verdict == limiter.Reject {
				a = RefusalAllowance(a, out)
				if short, ok := e.RefusedAllowance(r, out); ok {
					sameFields(t, RefusalAllowance(short, out), a)
				} else if cost <= 1 && limit.Rate > 0 && cost <= limit.Burst {
					t.Fatalf("%+v: the limit is looked up again", out)
				}
			}
			agree(t, e, now, r, out, a)
		}
	})
}

// sameFields checks that the fields written without a look at the key equal the fields written after a look.
func sameFields(t *rapid.T, got, want limiter.Allowance) {
	for _, write := range []func([]byte, limiter.Allowance) []byte{AppendPolicy, AppendRateLimit} {
		if g, w := write(nil, got), write(nil, want); string(g) != string(w) {
			t.Fatalf("%s, and with a look at the key %s", g, w)
		}
	}
}

// field is the number of a parameter in a field's value; −1: it is not there.
func field(value []byte, name string) int64 {
	m := regexp.MustCompile(`;` + name + `=(\d+)`).FindSubmatch(value)
	if m == nil {
		return -1
	}
	n, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return n
}

func agree(t *rapid.T, e *limiter.Engine, now int64, r *limiter.Request, out limiter.Outcome, a limiter.Allowance) {
	policy, left, after := AppendPolicy(nil, a), AppendRateLimit(nil, a), string(AppendRetryAfter(nil, out))
	quota, window, more := field(policy, "q"), field(policy, "w"), field(left, "t")
	have := field(left, "r")
	switch {
	case have > quota:
		t.Fatalf("%s beside %s: more is left than the quota", left, policy)
	case more > window:
		t.Fatalf("%s beside %s: more comes after the window only", left, policy)
	}
	if more > 0 {
		_, later := e.Peek(now+more*int64(time.Second), r)
		if later.Remaining <= a.Remaining {
			t.Fatalf("%s: after that time %v is left", left, later.Remaining)
		}
	}
	if out.Verdict != limiter.Reject {
		return
	}
	never := a.Rate == 0 || a.Cost > a.Burst
	seconds, _ := strconv.ParseInt(after, 10, 64)
	switch {
	case float64(have) >= a.Cost:
		t.Fatalf("%s of a refused cost of %v", left, a.Cost)
	case never != (after == ""):
		t.Fatalf("Retry-After %q of cost %v to a burst of %v at %v/s", after, a.Cost, a.Burst, a.Rate)
	case never:
		return
	case seconds < more:
		t.Fatalf("Retry-After %s before %s", after, left)
	}
	if again, _ := e.Peek(now+seconds*int64(time.Second), r); again.Verdict != limiter.Admit {
		t.Fatalf("after Retry-After %s: %+v", after, again)
	}
}

// A refusal has Retry-After if and only if waiting helps.
func TestRetryAfterOnlyWhereWaitingHelps(t *testing.T) {
	for want, out := range map[string]limiter.Outcome{
		"":  {Verdict: limiter.Reject, Reason: limiter.ClientLimit},
		"1": {Verdict: limiter.Reject, Reason: limiter.NotConfigured},
		"3": {Verdict: limiter.Reject, Reason: limiter.TenantShare, RetryAfter: 2100 * time.Millisecond},
	} {
		if got := string(AppendRetryAfter(nil, out)); got != want {
			t.Errorf("%+v: %q, want %q", out, got, want)
		}
	}
}
