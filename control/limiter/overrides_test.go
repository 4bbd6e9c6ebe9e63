package limiter

import (
	"fmt"
	"testing"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// An override that is apart from its limit holds for its client, beside those of the limit's list, and comes and goes
// alone. What the client has spent is carried over.
func TestOverridesApart(t *testing.T) {
	c := &config.Config{Revision: 1, Seed: 7, Pools: []config.Pool{{Name: "api", Capacity: 1e6}},
		Tenants: []config.Tenant{{Name: "acme", Weight: 1, Limits: []config.Limit{{Name: "each", Rate: 1, Burst: 2,
			Overrides: map[string]config.RateBurst{"listed": {Rate: 1, Burst: 3}}}}}}}
	row := func(client string, burst float64) config.Override {
		return config.Override{Key: ClientKey(7, "acme", "each", client), Number: 1, Burst: burst}
	}
	of := config.OverridesOf{Tenant: "acme", Limit: "each"}
	var given config.Set
	given.Replace(c)
	e := New(Options{Keys: 1024})
	if err := e.Apply(c); err != nil {
		t.Fatal(err)
	}
	change := func(put []config.Override, removed []uint64) {
		t.Helper()
		d := &config.Delta{Base: given.Revision(), Revision: given.Revision() + 1,
			Overrides: given.Resolve([]config.OverrideChange{{OverridesOf: of, Put: put, Removed: removed}})}
		if err := e.Change(d); err != nil {
			t.Fatal(err)
		}
		if err := given.Change(d); err != nil {
			t.Fatal(err)
		}
	}
	now := int64(1e9)
	admitted := func(client string) (n int) {
		for ; n < 20; n++ {
			if o := e.Decide(now, &Request{Tenant: "acme", Client: client, Pool: "api", Cost: 1}); o.Verdict != Admit {
				break
			}
		}
		return n
	}
	change([]config.Override{row("vip", 5), row("blocked", 0)}, nil)
	for client, want := range map[string]int{"vip": 5, "listed": 3, "other": 2} {
		if got := admitted(client); got != want {
			t.Errorf("%s: %d, want %d", client, got, want)
		}
	}
	change([]config.Override{row("vip", 7)}, nil)
	if got := admitted("vip"); got > 2 { // 5 are spent
		t.Errorf("vip: %d more after its burst grew from 5 to 7", got)
	}
	now += 100e9
	change(nil, []uint64{row("vip", 0).Key})
	if got := admitted("vip"); got != 2 {
		t.Errorf("vip: %d without an override, want 2", got)
	}
	change([]config.Override{{Key: row("other", 0).Key}}, nil)
	now += 100e9
	if got := admitted("other"); got != 0 {
		t.Errorf("other: %d, and its rate is 0", got)
	}
	// A tenant that changes keeps its overrides, and so does the whole configuration.
	d := &config.Delta{Base: given.Revision(), Revision: given.Revision() + 1, Tenants: []config.Tenant{*given.Tenant("acme")}}
	d.Tenants[0].Weight = 2
	if err := e.Change(d); err != nil {
		t.Fatal(err)
	}
	_ = given.Change(d)
	if got := admitted("other"); got != 0 {
		t.Errorf("other: %d after its tenant changed", got)
	}
	if err := e.Apply(given.Config()); err != nil || admitted("other") != 0 {
		t.Errorf("other is admitted by the whole configuration: %v", err)
	}
}

// The admit path of a limit without overrides that are apart, and with a million, to which each request's client
// belongs or not.
func BenchmarkDecideOverrides(b *testing.B) {
	const keys = 10_000
	for _, overrides := range []int{0, 1_000_000} {
		for _, own := range []bool{false, true} {
			b.Run(fmt.Sprintf("overrides=%d/own=%t", overrides, own), func(b *testing.B) {
				e, rs := benchEngine(b, keys, 1)
				c := e.snap.Load().source()
				rows := make([]config.Override, overrides)
				for i := range rows {
					name := fmt.Sprintf("other-%08d", i)
					if own && i < keys {
						name = rs[i].Client
					}
					rows[i] = config.Override{Key: ClientKey(c.Seed, "a", "l", name), Number: 1000, Burst: 1e6}
				}
				c.Overrides = []config.OverrideTable{{OverridesOf: config.OverridesOf{Tenant: "a", Limit: "l"},
					Table: (*config.Overrides)(nil).With(rows, nil)}}
				mustApply(b, e, c)
				now, i := 2*sec, uint64(1)
				b.ReportAllocs()
				for b.Loop() {
					now += 2000
					i = i*6364136223846793005 + 1442695040888963407
					if e.Decide(now, &rs[i>>33%keys]).Verdict == Reject {
						b.Fatal("rejected")
					}
				}
			})
		}
	}
}

// Owners go by the same overrides: of amounts, of slots, of tokens.
func TestOverridesOfOwners(t *testing.T) {
	rows := func(limit string, kind config.LimitKind, number float64) config.OverrideTable {
		return config.OverrideTable{OverridesOf: config.OverridesOf{Tenant: "a", Limit: limit, Kind: kind},
			Table: (*config.Overrides)(nil).With([]config.Override{{Key: ClientKey(7, "a", limit, "c"), Number: number, Burst: 1, Until: 50}}, nil)}
	}
	var in config.Set
	in.Replace(&config.Config{Seed: 7, Tenants: []config.Tenant{{Name: "a", Limits: []config.Limit{
		{Name: "rate", Rate: 1, Burst: 1, Precision: config.Exact}, {Name: "slots", Concurrency: 1},
		{Name: "quota", Quota: &config.CalendarQuota{Amount: 1}}}}},
		Overrides: []config.OverrideTable{rows("rate", config.RateLimit, 9), rows("slots", config.ConcurrencyLimit, 9),
			rows("quota", config.QuotaLimit, 9)}})
	for at, want := range map[config.Instant]float64{49: 9, 50: 1} {
		name := func(limit string) *exchange.KeyName { return &exchange.KeyName{Tenant: "a", Limit: limit, Client: "c"} }
		_, tokens, ok := ExactKey(&in, at, name("rate"))
		_, most, ok2 := SlotKey(&in, at, name("slots"))
		_, terms, _, ok3 := QuotaKey(&in, at, name("quota"))
		if !ok || !ok2 || !ok3 || tokens.Rate != want || float64(most) != want || terms.Amount.Cost() != want {
			t.Errorf("at %d: rate %v, slots %d, amount %v; want %v", at, tokens.Rate, most, terms.Amount.Cost(), want)
		}
	}
}
