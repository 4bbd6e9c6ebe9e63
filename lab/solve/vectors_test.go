package solve_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/titrate/titrate/control/vectortest"
	"github.com/titrate/titrate/lab/solve"
)

// vector is a case of control/testdata, where 1e18 stands for unbounded.
type vector struct {
	vectortest.Vector
	in struct {
		Mu        any // a number, or a list of numbers
		W, M, Cap []float64
		A         [][]float64
		Alpha     float64
	}
}

// expectation is the expected result of a vector of sharing; f and price are single numbers in vectors of one
// pool.
type expectation struct {
	F, Price   any
	X, Load    []float64
	Status     string
	Bottleneck []int
}

// problem is a vector as a problem.
func (v *vector) problem() *solve.Problem {
	p := &solve.Problem{Sharing: solve.MaxMin, Alpha: 1, Guarantee: solve.Additive}
	if v.Kind == "alpha-fair" {
		p.Sharing, p.Alpha, p.Guarantee = solve.Proportional, v.in.Alpha, solve.Minimum
	}
	for r, c := range listOf(v.in.Mu) {
		p.Pools = append(p.Pools, solve.Pool{Name: fmt.Sprintf("r%d", r), Capacity: c.(float64)})
	}
	for i, w := range v.in.W {
		t := solve.Tenant{Name: fmt.Sprintf("t%d", i), Weight: w, Guaranteed: v.in.M[i], Max: math.Inf(1),
			Demand: v.in.Cap[i]}
		if t.Demand >= 1e18 {
			t.Demand = math.Inf(1)
		}
		if v.in.A == nil {
			t.Uses = []solve.Use{{Pool: 0, Cost: 1}}
		}
		for r, row := range v.in.A {
			if row[i] > 0 {
				t.Uses = append(t.Uses, solve.Use{Pool: r, Cost: row[i]})
			}
		}
		p.Tenants = append(p.Tenants, t)
	}
	return p
}

func TestVectors(t *testing.T) {
	seen := map[string]int{}
	for _, one := range vectortest.Read(t, "../../control/testdata/allocation.json", "") {
		v := vector{Vector: one}
		switch v.Kind {
		case "single-additive", "multi-maxmin", "alpha-fair":
		default:
			continue // laws that solve does not run
		}
		vectortest.Decode(t, one.Input, &v.in)
		seen[v.Kind]++
		t.Run(v.ID, func(t *testing.T) { v.check(t) })
	}
	if seen["single-additive"] != 10 || seen["multi-maxmin"] != 3 || seen["alpha-fair"] != 4 {
		t.Errorf("vectors run: %v", seen)
	}
}

func (v *vector) check(t *testing.T) {
	var want expectation
	vectortest.Decode(t, v.Expect, &want)
	r, err := v.problem().Solve()
	if err != nil {
		t.Fatal(err)
	}
	if infeasible := r.Status == solve.Infeasible; infeasible != (want.Status == "infeasible") {
		t.Errorf("status %s, want %s", r.Status, want.Status)
	}
	for i, x := range want.X {
		near(t, fmt.Sprintf("share %d", i), &r.Tenants[i].Share, x, v.Tol)
	}
	for i, b := range want.Bottleneck {
		name := "DEMAND"
		if b >= 0 {
			name = fmt.Sprintf("r%d", b)
		}
		if r.Tenants[i].BoundBy != name {
			t.Errorf("tenant %d is bound by %s, want %s", i, r.Tenants[i].BoundBy, name)
		}
	}
	if v.Kind != "alpha-fair" { // alpha-fair vectors have no fair rate
		for k, f := range listOf(want.F) {
			near(t, fmt.Sprintf("fair rate %d", k), r.Pools[k].FairRate, f, v.Tol)
		}
	}
	if v.Kind != "multi-maxmin" { // multi-maxmin vectors have no price
		for k, price := range listOf(want.Price) {
			near(t, fmt.Sprintf("price %d", k), r.Pools[k].Price, price, v.Tol)
		}
	}
	for k, load := range want.Load {
		near(t, fmt.Sprintf("load %d", k), &r.Pools[k].Used, load, v.Tol)
	}
}

// listOf is a list as it is, and a list of one for anything else.
func listOf(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func near(t *testing.T, what string, got *float64, want any, tolerance float64) {
	t.Helper()
	number, ok := want.(float64)
	switch {
	case !ok && got != nil:
		t.Errorf("%s = %v, want null", what, *got)
	case ok && got == nil:
		t.Errorf("%s = null, want %v", what, number)
	case ok && math.Abs(*got-number) > tolerance*math.Max(1, number):
		t.Errorf("%s = %v, want %v", what, *got, number)
	}
}
