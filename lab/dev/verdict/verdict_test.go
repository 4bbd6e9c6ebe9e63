package verdict

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/lab/judge"
)

// ideal answers a scenario's plan as a perfect central limiter would. It serves limited clients by a token
// bucket, core (which stays below its share) and hop always. It serves the saturated tenants by the pool's
// fair rate of their weight and by the rest of the pool.
func ideal(t *testing.T, s *scenario.Scenario) []trace.Record {
	t.Helper()
	plan := load.NewPlan(s)
	fairRates := []float64{39.7, 34.8, 37.2, 37.2, 38.8} // per phase: a little over (300 − core's demand)/6
	pool := &judge.Bucket{Rate: s.Pool.Capacity, Burst: 25}
	tenants, clients := map[string]*judge.Bucket{}, map[string]*judge.Bucket{}
	for _, tenant := range s.Tenants {
		tenants[tenant.Name] = &judge.Bucket{Burst: 5}
		for _, c := range tenant.Clients {
			if c.Limit != nil {
				clients[c.Name] = &judge.Bucket{Rate: c.Limit.Rate, Burst: c.Limit.Burst}
			}
		}
	}
	records := make([]trace.Record, len(plan))
	for i, shot := range plan {
		tenant := s.Tenants[shot.Tenant]
		r := trace.Record{T: shot.T, Gateway: s.Gateways[shot.Gateway].Name, Tenant: tenant.Name,
			Client: tenant.Clients[shot.Client].Name, Latency: .01, Status: 429}
		share := tenants[r.Tenant]
		share.Rate = tenant.Weight * fairRates[s.PhaseAt(r.T)]
		core := r.Tenant == "core" || r.Tenant == "hop"
		switch b := clients[r.Client]; {
		case b != nil && !b.Take(at(r.T), 1):
			r.Reason = "client_limit"
		case !core && !(share.Take(at(r.T), 1) && pool.Take(at(r.T), 1)):
			r.Reason = "queue_full"
		default:
			if core && !pool.Take(at(r.T), 1) {
				pool.Charge(1) // the others pay for it
			}
			r.Status, r.At = 200, r.T+.001
		}
		records[i] = r
	}
	return records
}

func demo(t *testing.T) (*scenario.Scenario, []trace.Record) {
	t.Helper()
	s, err := scenario.Demo(40*time.Second, 3, 7)
	if err != nil {
		t.Fatal(err)
	}
	return s, ideal(t, s)
}

func TestAnIdealSystemPasses(t *testing.T) {
	s, records := demo(t)
	v := Judge(s, records)
	if v.Void {
		t.Fatalf("void: %v", v.VoidReasons)
	}
	for _, c := range v.Checks {
		if !c.Pass {
			t.Errorf("%+v", c)
		}
	}
	if !v.Pass {
		t.Error("not passed")
	}
	saturated := 0
	for _, tenant := range v.Phases[0].Tenants {
		if tenant.Saturated {
			saturated++
		}
	}
	if saturated != 3 {
		t.Errorf("%d tenants saturated in steady, the demo is made for 3", saturated)
	}
}

// Each fault of a system must show in the check that is there for it.
func TestEachFaultFailsItsOwnCheck(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*trace.Record, int)
		check  string
	}{
		"everything admitted": {func(r *trace.Record, _ int) { admit(r) }, CheckPoolMean},
		"a burst of a second": {func(r *trace.Record, _ int) {
			if r.T > 32 && r.T < 33 {
				admit(r)
			}
		}, CheckPoolSliding},
		"one tenant starved": {func(r *trace.Record, i int) {
			if r.Tenant == "acme" && i%4 == 0 {
				reject(r)
			}
		}, CheckEntitlement},
		"one tenant favoured": {func(r *trace.Record, i int) {
			if r.Tenant == "acme" && i%2 == 0 {
				admit(r)
			}
		}, CheckDeviation},
		"long waits": {func(r *trace.Record, _ int) {
			if r.Tenant == "bolt" {
				r.WaitMs = 220
			}
		}, CheckWait},
		"limit not held": {func(r *trace.Record, _ int) {
			if r.Client == "global" {
				admit(r)
			}
		}, CheckExcess},
		"limit not held after a cut": {func(r *trace.Record, _ int) {
			if r.Client == "small" {
				admit(r)
			}
		}, CheckRepaid},
		"limit missed by a tenth": {func(r *trace.Record, i int) {
			if r.Client == "global" && r.T > 14 && i%3 == 0 {
				admit(r)
			}
		}, CheckClientMean},
		"limited client starved": {func(r *trace.Record, i int) {
			if r.Client == "global" && r.T > 12 && i%4 == 0 {
				reject(r)
			}
		}, CheckClientLeast},
		"wrongful 429": {func(r *trace.Record, i int) {
			if r.Client == "global" && r.T > 35 && r.T < 36 {
				reject(r)
			}
		}, CheckWrongful},
		"EXACT not held": {func(r *trace.Record, i int) {
			if r.Client == "exact" && i%2 == 0 {
				admit(r)
			}
		}, CheckExcess},
		"EXACT refuses bursts that fit": {func(r *trace.Record, i int) {
			if r.Client == "within" && i%10 == 0 {
				reject(r)
			}
		}, CheckWrongful},
		"a failure": {func(r *trace.Record, i int) {
			if i == 5000 {
				r.Status = 503
			}
		}, CheckFailed},
		"no answer": {func(r *trace.Record, i int) {
			if i == 5000 {
				r.Status, r.At, r.Error = 0, 0, "EOF"
			}
		}, CheckFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s, records := demo(t)
			for i := range records {
				c.damage(&records[i], i)
			}
			v := Judge(s, records)
			if v.Pass || v.Void || !failed(v, c.check) {
				t.Errorf("pass %v, void %v, check %q failed %v", v.Pass, v.Void, c.check, failed(v, c.check))
			}
		})
	}
}

func admit(r *trace.Record)  { r.Status, r.Reason, r.At = 200, "", r.T+.001 }
func reject(r *trace.Record) { r.Status, r.Reason, r.At = 429, "tenant_share", 0 }

func failed(v *Verdict, name string) bool {
	for _, c := range v.Checks {
		if c.Name == name && !c.Pass {
			return true
		}
	}
	return false
}

// Chance alone makes a queue long for a moment, in about one run of thirty.
func TestAQueueMayBeLongForAMoment(t *testing.T) {
	s, records := demo(t)
	for i := range records {
		if r := &records[i]; r.Tenant == "acme" && r.Gateway == "gw-1" && r.T > 7 && r.T < 7.5 {
			r.WaitMs = 450
		}
	}
	if v := Judge(s, records); !v.Pass {
		t.Errorf("failed: %+v", v.Checks)
	}
}

// A wait is judged together with the machine's own lateness.
func TestWaitsOfALateMachine(t *testing.T) {
	s, records := demo(t)
	for i := range records {
		if records[i].Late = .02; records[i].Admitted() {
			records[i].At = records[i].Sent() + .03
		}
	}
	v := Judge(s, records)
	i := slices.IndexFunc(v.Checks, func(c Check) bool { return c.Name == CheckWait })
	if want := maxWait*s.Pool.Target*1e3 + 20 + 30; i < 0 || math.Abs(v.Checks[i].Bound-want) > 1e-6 {
		t.Errorf("check %d of %+v, want a bound of %v ms", i, v.Checks, want)
	}
}

func TestALoadThatWasNotTheScenariosIsVoid(t *testing.T) {
	for name, change := range map[string]func([]trace.Record) []trace.Record{
		"lines missing": func(r []trace.Record) []trace.Record { return r[:len(r)-1] },
		"starts late": func(r []trace.Record) []trace.Record {
			for i := 0; i < len(r); i += 50 {
				r[i].Late = .06
			}
			return r
		},
		"requests late at the upstream": func(r []trace.Record) []trace.Record {
			for i := range r {
				if r[i].Client == "core-1" {
					r[i].At += .06
				}
			}
			return r
		},
		"starts dropped": func(r []trace.Record) []trace.Record {
			for i := 0; i < len(r); i += 500 {
				r[i].Status, r[i].At, r[i].Error = 0, 0, trace.Dropped
			}
			return r
		},
		"nothing": func([]trace.Record) []trace.Record { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, records := demo(t)
			if v := Judge(s, change(records)); !v.Void || v.Pass || len(v.VoidReasons) == 0 {
				t.Errorf("void %v, pass %v, reasons %v", v.Void, v.Pass, v.VoidReasons)
			}
		})
	}
}

// If two sides of a cut admit too much, the run passes if they repay it after the cut, and fails if they forget
// it. Between 33.5 s and 36.3 s one agent is cut off; until 38.3 s the two sides may be unconnected.
func TestDebtOfACut(t *testing.T) {
	for name, c := range map[string]struct {
		from, to float64 // all requests of small are refused
		broken   []string
	}{
		"repaid at once":         {36.3, 38.6, nil},
		"repaid when it must be": {38.2, 40, nil},
		"forgotten":              {0, 0, []string{CheckRepaid}},
		"still two sides":        {0, 0, []string{CheckRepaid}},
	} {
		t.Run(name, func(t *testing.T) {
			s, records := demo(t)
			more := 11 // beyond the ideal bucket
			for i := range records {
				r := &records[i]
				switch {
				case r.Client != "small":
				case r.T > 33.6 && r.Status == 429 && (more > 0 || name == "still two sides"):
					admit(r)
					more--
				case r.T > c.from && r.T < c.to && r.Status == 200:
					reject(r)
				}
			}
			var broken []string
			for _, x := range Judge(s, records).Checks {
				if !x.Pass {
					broken = append(broken, x.Name)
					t.Logf("%+v", x)
				}
			}
			if !slices.Equal(broken, c.broken) {
				t.Errorf("broken: %v, want %v", broken, c.broken)
			}
		})
	}
}

// A burst that reaches the upstream late, as on a busy machine, is charged late: refusals after it are no error
// if they are due to this delay. Without the delay they are.
func TestRefusedAfterALateBurst(t *testing.T) {
	for late, want := range map[float64]int{.001: 1, .27: 0} {
		s, records := demo(t)
		var bursts [][]*trace.Record // of within, which sends 10 at a time
		for i := range records {
			switch r := &records[i]; {
			case r.Client != "within":
			case len(bursts) == 0 || r.T > bursts[len(bursts)-1][0].T+.5:
				bursts = append(bursts, []*trace.Record{r})
			default:
				bursts[len(bursts)-1] = append(bursts[len(bursts)-1], r)
			}
		}
		for _, r := range bursts[1] {
			r.At = r.T + late
		}
		reject(bursts[2][len(bursts[2])-1])
		got := 0
		for _, p := range Judge(s, records).Phases {
			for _, c := range p.Clients {
				got += c.Wrongful429
			}
		}
		if got != want {
			t.Errorf("%v s late: %d wrongful, want %d", late, got, want)
		}
	}
}

// The verdict is a function of the trace: neither writing it out nor the order
// of its lines changes anything.
func TestVerdictIsRecomputedFromTheTrace(t *testing.T) {
	s, records := demo(t)
	want := Judge(s, records)
	rand.Shuffle(len(records), func(i, k int) { records[i], records[k] = records[k], records[i] })
	var file bytes.Buffer
	if err := trace.Write(&file, s, records); err != nil {
		t.Fatal(err)
	}
	s2, records2, err := trace.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if got := Judge(s2, records2); !reflect.DeepEqual(got, want) {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		t.Errorf("recomputed:\n%s\nfirst:\n%s", a, b)
	}
}

// fill against the slow way: raise the fair rate by bisection until the
// capacity is used.
func TestFairShareIsTheWaterFill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Float64Range(1, 1000).Draw(t, "capacity")
		n := rapid.IntRange(1, 8).Draw(t, "n")
		tenants := make([]Tenant, n)
		total := 0.0
		for i := range tenants {
			tenants[i].Weight = rapid.Float64Range(.1, 10).Draw(t, "weight")
			tenants[i].Demand = rapid.Float64Range(0, 500).Draw(t, "demand")
			total += tenants[i].Demand
		}
		of := make([]scenario.Tenant, n)
		for i := range of {
			of[i].Guaranteed = rapid.Float64Range(0, capacity/float64(n)).Draw(t, "guaranteed")
		}
		fill(capacity, tenants, of)
		at := func(i int, f float64) float64 {
			return math.Min(tenants[i].Demand, math.Max(of[i].Guaranteed, tenants[i].Weight*f))
		}
		lo, hi := 0.0, 1e7
		for range 200 {
			mid, sum := (lo+hi)/2, 0.0
			for i := range tenants {
				sum += at(i, mid)
			}
			if sum > capacity {
				hi = mid
			} else {
				lo = mid
			}
		}
		for i, x := range tenants {
			want := at(i, lo)
			if math.Abs(x.FairShare-want) > 1e-6*(1+want) {
				t.Fatalf("share %v, by bisection %v", x.FairShare, want)
			}
			if x.Saturated && total <= capacity*(1-1e-9) {
				t.Fatalf("saturated in a pool that is not full")
			}
		}
	})
}

// The bounds of the demo as numbers, so that a change that loosens them fails here.
func TestBoundsOfTheDemo(t *testing.T) {
	s, _ := demo(t)
	if got := slidingBound(s, 0); math.Abs(got-432) > 1e-9 {
		t.Errorf("sliding second from cold: bound %v, want 432", got)
	}
	for phase, want := range map[int]float64{1: 396 + 69, 2: 396 + 35, 3: 396, 4: 396} {
		if got := slidingBound(s, phase); math.Abs(got-want) > 1e-9 {
			t.Errorf("sliding second in phase %d: bound %v, want %v", phase, got, want)
		}
	}
	if got, want := meanBound(s, 1), 306+(30*.5+69*1.5)/(s.Phases[1].End-s.Phases[1].Start); math.Abs(got-want) > 1e-6 {
		t.Errorf("mean: bound %v, want %v", got, want)
	}
	// The agent is cut off for .4·6.8 s, and connected again at most 2 s later.
	for phase, want := range []float64{26.3, 26.3, 26.3, 26.3, 26.3 + 60 + 60*(2.72+2)} {
		if got := excessBound(s, phase, s.Client("global")); math.Abs(got-want) > 1e-9 {
			t.Errorf("excess in phase %d: bound %v, want %v", phase, got, want)
		}
	}
	for client, want := range map[string]float64{"exact": 1.8, "within": 1.8, "local": 26.05} {
		if got := excessBound(s, 1, s.Client(client)); math.Abs(got-want) > 1e-9 {
			t.Errorf("excess of %s: bound %v, want %v", client, got, want)
		}
	}
	if got := slack(&scenario.Limit{Rate: 60, Burst: 60}, 3); math.Abs(got-26.3) > 1e-9 {
		t.Errorf("slack of 60/s burst 60: %v, want 26.3", got)
	}
	if got := slack(&scenario.Limit{Rate: 5, Burst: 10}, 3); math.Abs(got-5.375) > 1e-9 {
		t.Errorf("slack of 5/s burst 10: %v, want 5.375", got)
	}
}

// What a client owes when a phase begins, its tenant is not entitled to in it.
func TestRepaidDebtIsNoEntitlement(t *testing.T) {
	l := &scenario.Limit{Rate: 10, Burst: 10}
	c := &clientSummary{admitted: []float64{1, 2}, excess: []float64{3, 8}}
	for at, want := range map[float64]float64{.5: 0, 1.1: 2, 2.5: 3, 3: 0} {
		if got := c.owed(l, at); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %g s %g is owed, want %g", at, got, want)
		}
	}
}
