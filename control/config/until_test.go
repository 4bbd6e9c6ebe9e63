package config_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/config"
)

// timed draws tenants with parts that lapse at instants from 1 to 9, or never.
func timed(t *rapid.T, names []string) (out []config.Tenant) {
	until := func(what string) config.Instant { return config.Instant(rapid.IntRange(0, 9).Draw(t, what)) }
	for _, name := range names {
		tenant := config.Tenant{Name: name, Weight: 1}
		for i := range rapid.IntRange(0, 2).Draw(t, "limits") {
			l := config.Limit{Name: fmt.Sprint("l", i), Rate: 1, Until: until("limit")}
			for j := range rapid.IntRange(0, 2).Draw(t, "overrides") {
				if l.Overrides == nil {
					l.Overrides = map[string]config.RateBurst{}
				}
				l.Overrides[fmt.Sprint("c", j)] = config.RateBurst{Rate: 2, Until: until("override")}
			}
			tenant.Limits = append(tenant.Limits, l)
		}
		if rapid.Bool().Draw(t, "quota") {
			tenant.Quotas = []config.Quota{{Pool: "p", Max: 3, Until: until("quota")}}
		}
		out = append(out, tenant)
	}
	return out
}

// holds lists what holds at an instant, by a plain look at each part.
func holds(c *config.Config, at config.Instant) (out []string) {
	gone := func(i config.Instant) bool { return i != 0 && i <= at }
	list := func(of string, limits []config.Limit) {
		for _, l := range limits {
			if gone(l.Until) {
				continue
			}
			out = append(out, of+"/"+l.Name)
			for client, rb := range l.Overrides {
				if !gone(rb.Until) {
					out = append(out, of+"/"+l.Name+"/"+client)
				}
			}
		}
	}
	list("-", c.Defaults)
	for _, t := range c.Tenants {
		list(t.Name, t.Limits)
		for _, q := range t.Quotas {
			if !gone(q.Until) {
				out = append(out, t.Name+"/quota")
			}
		}
	}
	slices.Sort(out)
	return out
}

// A receiver that applies what has changed at each lapse, and changes meanwhile, has at each instant what a look at the
// whole configuration says.
func TestLapsesFollowTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &config.Config{Revision: 1, Tenants: timed(t, []string{"a", "b", "c"})}
		c.Defaults = timed(t, []string{"-"})[0].Limits
		before, _ := json.Marshal(c)
		var given, inForce config.Set
		var lapses config.Lapses
		at := config.Instant(rapid.IntRange(0, 3).Draw(t, "begin"))
		given.Replace(c)
		inForce.Replace(c.At(at))
		lapses.Replace(c, at)
		for at < 11 {
			if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				d := &config.Delta{Base: given.Revision(), Revision: given.Revision() + 1,
					Tenants: timed(t, []string{rapid.SampledFrom([]string{"a", "b", "d"}).Draw(t, "who")})}
				if rapid.Bool().Draw(t, "remove") {
					d.Removed = []string{"c"}
				}
				lapses.Change(d, at)
				_, _ = given.Change(d), inForce.Change(d.At(at))
			}
			at += config.Instant(rapid.IntRange(1, 3).Draw(t, "step"))
			due := lapses.Next() != 0 && lapses.Next() <= at
			lapsed := lapses.Take(&given, at)
			defaults, tenants := lapsed.Shared, lapsed.Tenants
			if due != (defaults || len(tenants) > 0) {
				t.Fatalf("at %d due %t, and %t %v have lapsed", at, due, defaults, tenants)
			}
			d := &config.Delta{Base: given.Revision(), Revision: given.Revision()}
			if defaults {
				shared := given.Shared().At(at)
				d.Shared = &shared
			}
			for _, name := range tenants {
				d.Tenants = append(d.Tenants, given.Tenant(name).At(at))
			}
			if err := inForce.Change(d); err != nil {
				t.Fatal(err)
			}
			if got, want := holds(inForce.Config(), 0), holds(given.Config(), at); !slices.Equal(got, want) {
				t.Fatalf("at %d %q holds, want %q", at, got, want)
			}
		}
		if after, _ := json.Marshal(c); string(after) != string(before) {
			t.Fatalf("the given configuration was changed: %s", after)
		}
	})
}

// Without an Until nothing is kept, and what is applied is what was given.
func TestNoUntilCostsNothing(t *testing.T) {
	c := &config.Config{Tenants: []config.Tenant{{Name: "a", Limits: []config.Limit{{Name: "l", Rate: 1,
		Overrides: map[string]config.RateBurst{"c": {Rate: 2}}}}}}}
	var l config.Lapses
	l.Replace(c, 7)
	if l.Next() != 0 {
		t.Errorf("something lapses at %d", l.Next())
	}
	if got := c.At(7); &got.Tenants[0] != &c.Tenants[0] {
		t.Error("the tenants were copied")
	}
	var set config.Set
	set.Replace(c)
	if n := testing.AllocsPerRun(10, func() { l.Take(&set, 9) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUntilIsValidated(t *testing.T) {
	for _, until := range []config.Instant{-1, 1796083200 * 1_000_000} {
		l := config.Limit{Name: "l", Rate: 1, Overrides: map[string]config.RateBurst{"c": {Rate: 1, Until: until}}}
		if err := l.Validate(); err == nil || reflect.TypeOf(err) != reflect.TypeFor[*config.FieldError]() {
			t.Errorf("an override until %d: %v", until, err)
		}
		l = config.Limit{Name: "l", Rate: 1, Until: until}
		if err := l.Validate(); err == nil {
			t.Errorf("a limit until %d is valid", until)
		}
		q := config.Quota{Pool: "p", Max: 1, Until: until}
		if err := q.Validate(); err == nil {
			t.Errorf("a quota until %d is valid", until)
		}
	}
}

// The receiver's clock follows the least late message, whatever its own wall clock says, and a sender that was set back
// after at most two minutes.
func TestClock(t *testing.T) {
	const hour = config.Instant(3_600_000)
	const second = time.Second
	var c config.Clock
	if c.At(second) != 0 {
		t.Error("a time without a message")
	}
	c.Guess(0, 1000*hour+hour) // the wall clock here is an hour ahead
	if got := c.At(second); got != 1001*hour+1000 {
		t.Errorf("guessed %d", got)
	}
	c.Receive(10*second, 1000*hour) // 3 s late
	c.Guess(10*second, 5*hour)      // a guess counts no more
	c.Receive(11*second, 1000*hour+4000)
	c.Receive(50*second, 1000*hour+20_000)                       // the stream lags: 23 s late
	for _, at := range []time.Duration{50 * second, time.Hour} { // also cut off
		if got, want := c.At(at), 1000*hour+config.Instant((at-10*second+3*second).Milliseconds()); got != want {
			t.Errorf("after %v it is %d, want %d", at, got, want)
		}
	}
	for now := time.Hour; now < time.Hour+3*time.Minute; now += second { // the coordinator's clock is set back by 10 min
		c.Receive(now, 1000*hour+config.Instant((now-10*time.Minute).Milliseconds()))
	}
	now := time.Hour + 3*time.Minute
	if got, want := c.At(now), 1000*hour+config.Instant((now-10*time.Minute).Milliseconds()); got != want {
		t.Errorf("after a step back %d, want %d", got, want)
	}
	if got := c.At(c.When(2000 * hour)); got != 2000*hour {
		t.Errorf("When is wrong by %d ms", got-2000*hour)
	}
}
