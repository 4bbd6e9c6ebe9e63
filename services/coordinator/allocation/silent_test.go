package allocation_test

import (
	"math"
	"testing"
	"time"

	"github.com/titrate/titrate/services/coordinator/allocation"
)

// An unreachable agent counts with its mean demand, and not with what its last window of 250 ms has happened to show.
// The others would take or leave the difference for as long.
func TestSilentAgentKeepsItsMeanDemand(t *testing.T) {
	const mean = 4. // requests/s of the light tenant: one in each window, in every second one two or none
	for name, last := range map[string]int{"nothing in the last window": 0, "two in the last window": 2} {
		loop := allocation.New(allocation.Defaults())
		loop.Configure(&allocation.Config{
			Pools:   []allocation.Pool{{Name: "api", Capacity: 60}},
			Tenants: map[string]float64{"light": 1, "greedy": 1},
		})
		now := epoch
		step := func(agents ...string) (greedy float64) {
			now = now.Add(every)
			for _, agent := range agents {
				loop.Observe(now, agent, report("greedy", 100))
			}
			out := loop.Step(now)
			f, _ := shareOf(out, "greedy")
			return f.Share
		}
		for i := range 40 {
			requests := 2 * ((i + last/2 + 1) % 2)
			loop.Observe(now.Add(every), "silent", report("light", float64(requests)/every.Seconds()))
			step("heard")
		}
		for now.Before(epoch.Add(20 * time.Second)) {
			step("heard")
		}
		check := func(when string) {
			t.Helper()
			if greedy := step("heard"); math.Abs(60-mean-greedy) > mean/2 {
				t.Errorf("%s, %s: greedy has %.1f/s beside one of %.1f/s in a pool of 60/s", name, when, greedy, mean)
			}
		}
		check("silent")
		// It is started again. Its gateway takes a second to connect and to report.
		loop.Connect(now, "silent", nil)
		for range 4 {
			loop.Observe(now.Add(every), "silent", &allocation.Report{Interval: every})
			check("started again")
		}
		// Its gateway leaves, and it ends with a last report.
		loop.Observe(now.Add(every), "silent", report("light", 0))
		loop.Observe(now.Add(every), "silent", &allocation.Report{Interval: every})
		for end := now.Add(10 * time.Second); now.Before(end); {
			step("heard")
		}
		if greedy := step("heard"); greedy < 59 {
			t.Errorf("%s: greedy has %.1f of 60/s, and the other tenant's gateway has left", name, greedy)
		}
	}
}

// An agent that stops in order is forgotten at once, also if its last report had requests.
func TestAgentThatLeftIsForgotten(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	loop.Configure(&allocation.Config{
		Pools:   []allocation.Pool{{Name: "api", Capacity: 60}},
		Tenants: map[string]float64{"light": 1, "greedy": 1},
	})
	now := epoch
	step := func() float64 {
		now = now.Add(every)
		loop.Observe(now, "stays", report("greedy", 100))
		f, _ := shareOf(loop.Step(now), "greedy")
		return f.Share
	}
	for range 40 {
		loop.Observe(now.Add(every), "goes", report("light", 20))
		step()
	}
	last := report("light", 20)
	last.Replicas = nil
	loop.Observe(now.Add(every), "goes", last)
	loop.Left("goes")
	for range 40 {
		step()
	}
	if greedy := step(); greedy < 59 {
		t.Errorf("greedy has %.1f of 60/s 10 s after the other tenant's gateway has left with its agent", greedy)
	}
}

// The gateways that an agent had before it was restarted may still run: while they are awaited,
// the agent's stop does not give their part away.
func TestAgentThatLeavesWhileGatewaysAreAwaitedStays(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	loop.Configure(&allocation.Config{
		Pools:   []allocation.Pool{{Name: "api", Capacity: 60}},
		Tenants: map[string]float64{"light": 1, "greedy": 1},
	})
	now := epoch
	step := func() float64 {
		now = now.Add(every)
		loop.Observe(now, "stays", report("greedy", 100))
		f, _ := shareOf(loop.Step(now), "greedy")
		return f.Share
	}
	for range 40 {
		loop.Observe(now.Add(every), "goes", report("light", 20))
		step()
	}
	loop.Connect(now, "goes", nil)
	loop.Left("goes")
	for range 8 { // 2 s, in which its gateway may still come back
		if greedy := step(); greedy > 45 {
			t.Fatalf("greedy has %.1f of 60/s beside a gateway with 20/s that is awaited", greedy)
		}
	}
}

// A coordinator that stood still has one short window of reports when it goes on. It says
// little: the shares stay about where they were.
func TestOneWindowAfterAPauseSaysLittle(t *testing.T) {
	loop := allocation.New(allocation.Defaults())
	loop.Configure(&allocation.Config{
		Pools:   []allocation.Pool{{Name: "api", Capacity: 60}},
		Tenants: map[string]float64{"light": 1, "greedy": 1},
	})
	now := epoch
	step := func(light float64) float64 {
		loop.Observe(now, "one", report("light", light))
		loop.Observe(now, "other", report("greedy", 100))
		f, _ := shareOf(loop.Step(now), "greedy")
		return f.Share
	}
	for range 40 {
		now = now.Add(every)
		step(16)
	}
	now = now.Add(7 * time.Second)
	if greedy := step(4); math.Abs(60-16-greedy) > 4 {
		t.Errorf("greedy has %.1f of 60/s beside one of 16/s of which one window saw 4/s", greedy)
	}
}
