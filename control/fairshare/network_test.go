package fairshare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/vectortest"
)

// dense turns a cost matrix A[pool][tenant] into uses.
func dense(a [][]float64) (uses []fairshare.Use) {
	for r, row := range a {
		for i, c := range row {
			if c > 0 {
				uses = append(uses, fairshare.Use{Tenant: i, Pool: r, Cost: c})
			}
		}
	}
	return uses
}

func TestNetworkVectors(t *testing.T) {
	for _, v := range vectortest.Read(t, "../testdata/allocation.json", "multi-maxmin") {
		var in struct {
			Mu, W, M, Cap []float64
			A             [][]float64
		}
		var want struct {
			F          []*float64
			X          []float64
			Bottleneck []int
		}
		vectortest.Decode(t, v.Input, &in)
		vectortest.Decode(t, v.Expect, &want)
		ds := make([]fairshare.Demand, len(in.W))
		for i := range ds {
			ds[i] = fairshare.Demand{Weight: in.W[i], Guaranteed: in.M[i], Cap: in.Cap[i]}
		}
		n, err := fairshare.NewNetwork(len(in.Mu), len(ds), dense(in.A))
		if err != nil {
			t.Fatal(err)
		}
		var out fairshare.Allocation
		n.Solve(in.Mu, ds, fairshare.Additive, nil, &out)
		for i := range ds {
			if !vectortest.Near(out.Shares[i], want.X[i], v.Tol) || out.Bottleneck[i] != want.Bottleneck[i] {
				t.Errorf("%s: tenant %d got %v by %d, want %v by %d", v.ID, i, out.Shares[i], out.Bottleneck[i],
					want.X[i],
					want.Bottleneck[i])
			}
		}
		for r, f := range want.F {
			if f == nil && !math.IsInf(out.FairRate[r], 1) || f != nil && !vectortest.Near(out.FairRate[r], *f, v.Tol) {
				t.Errorf("%s: f[%d] = %v, want %v", v.ID, r, out.FairRate[r], f)
			}
		}
	}
}

// progressive is the oracle: raise the fair rate of all unfrozen tenants
// together until a pool is full, freeze that pool's tenants, go on.
func progressive(mu []float64, a [][]float64, ds []fairshare.Demand, g fairshare.Guarantee) []float64 {
	n := len(ds)
	x, frozen := make([]float64, n), make([]bool, n)
	at := func(f float64) (full bool) {
		for i, d := range ds {
			if frozen[i] {
				continue
			}
			base := math.Min(d.Guaranteed, d.Cap)
			x[i] = math.Min(math.Max(base, d.Weight*f), d.Cap)
			if g == fairshare.Additive {
				x[i] = math.Min(base+d.Weight*f, d.Cap)
			}
			if d.Weight == 0 {
				x[i] = base
			}
		}
		for r, row := range a {
			load := 0.0
			for i, c := range row {
				load += c * x[i]
			}
			full = full || load > mu[r]*(1+1e-13)
		}
		return full
	}
	for range len(mu) {
		lo, hi := 0.0, 1e12
		if !at(hi) {
			break
		}
		for range 200 {
			if mid := lo + (hi-lo)/2; at(mid) {
				hi = mid
			} else {
				lo = mid
			}
		}
		at(lo)
		for r, row := range a {
			load := 0.0
			for i, c := range row {
				load += c * x[i]
			}
			for i, c := range row {
				frozen[i] = frozen[i] || c > 0 && load >= mu[r]*(1-1e-10)
			}
		}
	}
	at(1e12)
	return x
}

func TestNetworkAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools, n := rapid.IntRange(1, 4).Draw(t, "pools"), rapid.IntRange(1, 7).Draw(t, "tenants")
		a, mu := make([][]float64, pools), make([]float64, pools)
		for r := range a {
			a[r], mu[r] = make([]float64, n), rapid.Float64Range(20, 100).Draw(t, "mu")
			for i := range a[r] {
				a[r][i] = float64(rapid.IntRange(0, 3).Draw(t, "cost"))
			}
		}
		ds := make([]fairshare.Demand, n)
		for i := range ds {
			ds[i] = fairshare.Demand{Weight: float64(rapid.IntRange(0, 4).Draw(t, "w")),
				Guaranteed: rapid.Float64Range(0, 0.9).Draw(t, "m"), Cap: rapid.Float64Range(0.5, 60).Draw(t, "cap")}
		}
		g := rapid.SampledFrom(guarantees).Draw(t, "guarantee")
		net, err := fairshare.NewNetwork(pools, n, dense(a))
		if err != nil {
			t.Fatal(err)
		}
		var out, again fairshare.Allocation
		net.Solve(mu, ds, g, nil, &out)
		want := progressive(mu, a, ds, g)
		for i := range ds {
			if math.Abs(out.Shares[i]-want[i]) > 1e-6*math.Max(1, want[i]) {
				t.Fatalf("tenant %d got %v, oracle %v\n%+v", i, out.Shares[i], want[i], out)
			}
			if b := out.Bottleneck[i]; b >= 0 && math.Abs(out.Used[b]-mu[b]) > 1e-9*mu[b] {
				t.Fatalf("tenant %d is held by pool %d, which uses %v of %v", i, b, out.Used[b], mu[b])
			}
		}
		for r := range mu {
			if out.Used[r] > mu[r]*(1+1e-12) {
				t.Fatalf("pool %d uses %v of %v", r, out.Used[r], mu[r])
			}
		}
		net.Solve(mu, ds, g, out.FairRate, &again)
		for i := range ds {
			if math.Abs(out.Shares[i]-again.Shares[i]) > 1e-9*math.Max(1, out.Shares[i]) {
				t.Fatalf("warm start changed tenant %d: %v → %v", i, out.Shares[i], again.Shares[i])
			}
		}
	})
}

func TestNetworkScalesGuarantees(t *testing.T) {
	n, err := fairshare.NewNetwork(2, 3, dense([][]float64{{1, 1, 0}, {0, 1, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	inf := math.Inf(1)
	ds := []fairshare.Demand{{Weight: 1, Guaranteed: 30, Cap: inf}, {Weight: 1, Guaranteed: 10, Cap: inf},
		{Weight: 1, Cap: inf}}
	var out fairshare.Allocation
	n.Solve([]float64{20, 100}, ds, fairshare.Minimum, nil, &out)
	for i, want := range []float64{15, 5, 95} {
		if !vectortest.Near(out.Shares[i], want, 1e-9) {
			t.Errorf("tenant %d got %v, want %v", i, out.Shares[i], want)
		}
	}
	if out.Status != fairshare.Infeasible {
		t.Error("not flagged infeasible")
	}
}

func TestNetworkRefusesBadUses(t *testing.T) {
	for name, uses := range map[string][]fairshare.Use{
		"tenant": {{Tenant: 2, Pool: 0, Cost: 1}}, "pool": {{Tenant: 0, Pool: -1, Cost: 1}},
		"zero": {{Cost: 0}}, "NaN": {{Cost: math.NaN()}}, "infinite": {{Cost: math.Inf(1)}},
		"twice": {{Cost: 1}, {Cost: 2}},
	} {
		if _, err := fairshare.NewNetwork(1, 1, uses); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNetworkBadNumbers(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, 1e-7, 1e7, math.MaxFloat64}
	rng := rand.New(rand.NewPCG(5, 6))
	pick := func() float64 { return bad[rng.IntN(len(bad))] }
	n, err := fairshare.NewNetwork(2, 3, dense([][]float64{{1, 2, 0}, {0, 1e7, 1e-7}}))
	if err != nil {
		t.Fatal(err)
	}
	var out fairshare.Allocation
	for range 20000 {
		mu, ds := []float64{pick(), pick()}, []fairshare.Demand{{pick(), pick(), pick()}, {pick(), pick(), pick()},
			{pick(), pick(), pick()}}
		n.Solve(mu, ds, guarantees[rng.IntN(2)], []float64{pick(), pick()}, &out)
		for i, x := range out.Shares {
			if math.IsNaN(x) || x < 0 {
				t.Fatalf("Solve(%v, %+v): x[%d] = %v", mu, ds, i, x)
			}
		}
		for r := range mu {
			if limit := math.Max(0, mu[r]); !math.IsNaN(mu[r]) && out.Used[r] > limit*(1+1e-9) {
				t.Fatalf("Solve(%v, %+v): pool %d uses %v", mu, ds, r, out.Used[r])
			}
		}
	}
}

// mesh is a network of n tenants on some pools, three each, all contended.
func mesh(tb testing.TB, n, pools int) (*fairshare.Network, []float64, []fairshare.Demand) {
	rng := rand.New(rand.NewPCG(9, 9))
	var uses []fairshare.Use
	load := make([]float64, pools)
	ds := crowd(n, 3)
	for i := range n {
		for _, r := range rng.Perm(pools)[:3] {
			c := 0.5 + rng.Float64()
			uses = append(uses, fairshare.Use{Tenant: i, Pool: r, Cost: c})
			load[r] += c * ds[i].Cap
		}
	}
	net, err := fairshare.NewNetwork(pools, n, uses)
	if err != nil {
		tb.Fatal(err)
	}
	for r := range load {
		load[r] *= 0.3 + 0.6*rng.Float64()
	}
	return net, load, ds
}

func TestNetworkAllocatesNothing(t *testing.T) {
	net, mu, ds := mesh(t, 200, 10)
	var out fairshare.Allocation
	net.Solve(mu, ds, fairshare.Minimum, nil, &out)
	if n := testing.AllocsPerRun(5, func() { net.Solve(mu, ds, fairshare.Minimum, nil, &out) }); n != 0 {
		t.Errorf("%v allocations per solve", n)
	}
}

func BenchmarkNetwork(b *testing.B) {
	for _, size := range [][2]int{{1e4, 20}, {1e5, 100}} {
		net, mu, ds := mesh(b, size[0], size[1])
		var out fairshare.Allocation
		net.Solve(mu, ds, fairshare.Minimum, nil, &out)
		guess := slices.Clone(out.FairRate)
		for r := range mu { // capacities have changed since
			mu[r] *= 0.98 + 0.04*float64(r%2)
		}
		for _, start := range []string{"cold", "warm"} {
			b.Run(fmt.Sprintf("%dx%dx3/%s", size[0], size[1], start), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if start == "cold" {
						net.Solve(mu, ds, fairshare.Minimum, nil, &out)
					} else {
						net.Solve(mu, ds, fairshare.Minimum, guess, &out)
					}
				}
			})
		}
	}
}
