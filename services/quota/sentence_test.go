package quota

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

func TestSentence(t *testing.T) {
	full := func(change func(*quotav1.Explanation)) *quotav1.Explanation {
		e := &quotav1.Explanation{Tenant: "tenants/acme", Pool: "pools/api", Capacity: 300, Demand: 120,
			Weight: 3, FairRate: 25, Share: 75, BoundBy: quotav1.Bound_POOL, Price: 0.25}
		change(e)
		return e
	}
	for _, c := range []struct {
		name string
		e    *quotav1.Explanation
		g    quotav1.Guarantee
		want string
	}{
		{"pool", full(func(*quotav1.Explanation) {}), quotav1.Guarantee_MINIMUM,
			"Now acme gets 75.0/s of pool api: its demand 120.0/s is above the fair share 25.0/s × weight 3 = 75.0/s; " +
				"the pool's capacity of 300.0/s is used up (price 0.25)."},
		{"pool, demand cut short", full(func(e *quotav1.Explanation) { e.Demand, e.Limited = 74, true }),
			quotav1.Guarantee_MINIMUM,
			"Now acme gets 75.0/s of pool api: its demand 74.0/s (limited in the last round, so it may want more) is " +
				"above the fair share 25.0/s × weight 3 = 75.0/s; the pool's capacity of 300.0/s is used up (price " +
				"0.25)."},
		{"additive", full(func(e *quotav1.Explanation) { e.Guaranteed, e.Share = 10, 85 }), quotav1.Guarantee_ADDITIVE,
			"Now acme gets 85.0/s of pool api: its demand 120.0/s is above its guarantee 10.0/s + the fair share 25.0/s " +
				"× weight 3 = 85.0/s; the pool's capacity of 300.0/s is used up (price 0.25)."},
		{"guarantee", full(func(e *quotav1.Explanation) {
			e.Guaranteed, e.Share, e.BoundBy = 90, 90, quotav1.Bound_GUARANTEED
		}), quotav1.Guarantee_MINIMUM,
			"Now acme gets its guarantee of 90.0/s of pool api: its demand 120.0/s is above it, and the fair share " +
				"25.0/s × weight 3 = 75.0/s is no more; the pool's capacity of 300.0/s is used up (price 0.25)."},
		{"max", full(func(e *quotav1.Explanation) { e.Share, e.BoundBy = 50, quotav1.Bound_MAX }),
			quotav1.Guarantee_MINIMUM,
			"Now acme gets 50.0/s of pool api, the max of its quota: its demand 120.0/s is above it, and so is the fair " +
				"share 25.0/s × weight 3 = 75.0/s."},
		{"max in a slack pool", full(func(e *quotav1.Explanation) {
			e.Share, e.FairRate, e.BoundBy = 50, 0, quotav1.Bound_MAX
		}), quotav1.Guarantee_MINIMUM,
			"Now acme gets 50.0/s of pool api, the max of its quota: its demand 120.0/s is above it, and the pool's " +
				"capacity of 300.0/s is not used up."},
		{"demand", full(func(e *quotav1.Explanation) { e.Demand, e.Share, e.BoundBy = 40, 40, quotav1.Bound_DEMAND }),
			quotav1.Guarantee_MINIMUM,
			"Now acme gets 40.0/s of pool api, all that it asks for: its demand 40.0/s is within the fair share 25.0/s × " +
				"weight 3 = 75.0/s."},
		{"demand within the guarantee", full(func(e *quotav1.Explanation) {
			e.Demand, e.Share, e.Guaranteed, e.BoundBy = 80, 80, 90, quotav1.Bound_DEMAND
		}), quotav1.Guarantee_MINIMUM,
			"Now acme gets 80.0/s of pool api, all that it asks for: its demand 80.0/s is within its guarantee of 90.0/s."},
		{"demand in a slack pool", full(func(e *quotav1.Explanation) {
			e.Demand, e.Share, e.FairRate, e.BoundBy = 40, 40, 0, quotav1.Bound_DEMAND
		}), quotav1.Guarantee_MINIMUM,
			"Now acme gets 40.0/s of pool api, all that it asks for: its demand is 40.0/s, and the pool's capacity of " +
				"300.0/s is not used up."},
		{"room beyond the demand", full(func(e *quotav1.Explanation) {
			e.Demand, e.Share, e.FairRate, e.BoundBy = 8.1, 227, 0, quotav1.Bound_DEMAND
		}), quotav1.Guarantee_MINIMUM,
			"Now acme gets all that it asks for of pool api and may take 227.0/s: its demand is 8.1/s, and the pool's " +
				"capacity of 300.0/s is not used up."},
		{"stale", full(func(e *quotav1.Explanation) {
			e.Demand, e.Share, e.BoundBy, e.Stale, e.Epoch = 0, 0.01, quotav1.Bound_DEMAND, true, 7
		}), quotav1.Guarantee_MINIMUM,
			"In the coordinator's last round acme asked for nothing of pool api; its share stands at 36.0/h; the share is stale: it was granted " +
				"in epoch 7, has not been renewed, and stays as it is."},
		{"idle at its max", full(func(e *quotav1.Explanation) {
			e.Demand, e.Share, e.BoundBy = 0, 20,
				quotav1.Bound_MAX
		}), quotav1.Guarantee_MINIMUM,
			"In the coordinator's last round acme asked for nothing of pool api; its share stands at 20.0/s, the max of its quota."},
		{"idle at its guarantee", full(func(e *quotav1.Explanation) {
			e.Demand, e.Share, e.BoundBy = 0, 90,
				quotav1.Bound_GUARANTEED
		}), quotav1.Guarantee_MINIMUM,
			"In the coordinator's last round acme asked for nothing of pool api; its share stands at 90.0/s, its guarantee."},
		{"blocked", full(func(e *quotav1.Explanation) {
			e.Max, e.Share, e.BoundBy = new(float64), 0,
				quotav1.Bound_MAX
		}), quotav1.Guarantee_MINIMUM,
			"Now acme is blocked from pool api: the max of its quota is 0, so all that it asks for, 120.0/s, is refused " +
				"at once."},
		{"nothing", &quotav1.Explanation{Tenant: "tenants/acme", Pool: "pools/api"}, quotav1.Guarantee_MINIMUM,
			"Now acme has no share of pool api yet: no round has counted it."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sentence(c.e, c.g); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestRoundKeepsThreeDigits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-9, 1e9).Draw(t, "x")
		if r := round(x); r < x*0.994 || r > x*1.006 {
			t.Fatalf("round(%g) = %g", x, r)
		}
	})
}

// A limit that was applied a moment ago is not compared with what the tenant did in the minute before.
func TestNewLimitIsNotComparedWithTheMinuteBefore(t *testing.T) {
	w := &seen{who: "acme", total: &quotav1.Activity{Admitted: 6000, Window: durationpb.New(time.Minute)}}
	e := &quotav1.LimitExplanation{Limit: "tenants/acme/limits/new", Rate: 1, Burst: 5,
		Activity: &quotav1.Activity{ClientLimit: 69, Window: durationpb.New(5 * time.Second)}}
	got := limitSentence(w, e, &quotav1.Limit{})
	if !strings.HasPrefix(got, "Of requests of acme in the last 5 s limit new refused 69 at once") {
		t.Error(got)
	}
	e.Activity.Window = durationpb.New(55 * time.Second)
	if got := limitSentence(w, e, &quotav1.Limit{}); !strings.HasPrefix(got, "Of 6000 requests of acme") {
		t.Error(got)
	}
}

// A limit that is EXACT says how often requests waited for owners, how long, and how often owners did not answer; one
// in SHADOW that its ledgers count.
func TestExactSentence(t *testing.T) {
	minute := durationpb.New(time.Minute)
	w := &seen{who: "acme", total: &quotav1.Activity{Admitted: 900, Refused: 100, Window: minute}}
	e := &quotav1.LimitExplanation{Limit: "tenants/acme/limits/exact", Rate: 10, Burst: 10, Activity: &quotav1.Activity{
		ClientLimit: 100, OwnerWaited: 20, OwnerWaitedSeconds: .028, OwnerSilent: 3, Window: minute}}
	exact := &quotav1.Limit{Precision: quotav1.Precision_EXACT}
	want := "Of 1000 requests of acme in the last 60 s limit exact refused 100 (10 %) at once, made 20 (2 %) wait for " +
		"the owner of their key (1.4 ms in the mean), left 3 (0.3 %) to the ledger, as the owner of their key did " +
		"not answer: it lets each client have 10.0/s, burst 10; it is EXACT: one bucket over all gateways."
	if got := limitSentence(w, e, exact); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	e.Mode, e.Activity = quotav1.Mode_SHADOW, nil
	if got := limitSentence(w, e, exact); !strings.Contains(got, "in SHADOW each gateway's ledger counts") {
		t.Error(got)
	}
}

// Beside the numbers of the last minute stand those of its last seconds, if they are fewer.
func TestSecondsStandBesideTheMinute(t *testing.T) {
	a := &quotav1.Activity{Admitted: 20, Refused: 1180, ClientLimit: 1180, Window: durationpb.New(64 * time.Second),
		AdmittedParts: []uint64{4, 4, 4, 0, 4, 2, 2}, RefusedParts: []uint64{96, 396, 296, 0, 196, 148, 48},
		NewestPart: durationpb.New(4 * time.Second)}
	const want = " Of 1200 requests in the last 64 s: 20 admitted, 1180 refused by limits. Of these in the last 14 s: " +
		"4 admitted, 196 refused."
	if got := traffic(a); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	for _, c := range []struct {
		atOnce, waited uint64
		want           string
	}{
		{1180, 0, "refused 1180 at once: it lets each client have 1.0/s, burst 5. In the last 14 s it refused 196."},
		{0, 1180, "refused 1180 after they had waited for too long: it lets each client have 1.0/s, burst 5. In the last " +
			"14 s it refused 196."},
		{1000, 180, "refused 1000 at once, refused 180 after they had waited for too long: it lets each client have " +
			"1.0/s, burst 5. In the last 14 s it refused 196."},
		{1000, 0, "refused 1000 at once: it lets each client have 1.0/s, burst 5."}, // 180 for other reasons
	} {
		a.ClientLimit, a.QueueTimeout = c.atOnce, c.waited
		e := &quotav1.LimitExplanation{Limit: "tenants/acme/limits/l", Rate: 1, Burst: 5, Activity: a}
		if got := limitSentence(&seen{who: "acme"}, e, &quotav1.Limit{}); !strings.HasSuffix(got, "limit l "+c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	a.QueueTimeout = 0
	a.Window = durationpb.New(12 * time.Second) // a row that began a moment ago
	a.Admitted, a.Refused, a.ClientLimit = 1, 0, 0
	if got := traffic(a); got != " Of 1 request in the last 12 s: 1 admitted." {
		t.Error(got)
	}
}
