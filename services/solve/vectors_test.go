package solve_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/vectortest"
	"github.com/titrate/titrate/services/solve"
)

// vector is a case of control/testdata, where 1e18 stands for unbounded.
type vector struct {
	vectortest.Vector
	in struct {
		Mu        any // a number, or a list of them
		W, M, Cap []float64
		A         [][]float64
		Alpha     float64
	}
}

// expectation is what a vector of sharing expects; f and price are single numbers
// in vectors of one pool.
type expectation struct {
	F, Price   any
	X, Load    []float64
	Status     string
	Bottleneck []int
}

// document writes a vector in the public format.
func (v *vector) document(t *testing.T) string {
	t.Helper()
	problem := map[string]any{}
	mu, many := v.in.Mu.([]any)
	if !many {
		mu = []any{v.in.Mu}
	}
	if v.Kind == "alpha-fair" {
		problem["sharing"], problem["alpha"] = "PROPORTIONAL", v.in.Alpha
	} else {
		problem["guarantee"] = "ADDITIVE"
	}
	var pools, tenants []any
	for r, c := range mu {
		pools = append(pools, map[string]any{"name": fmt.Sprintf("r%d", r), "capacity": c})
	}
	for i, w := range v.in.W {
		uses := map[string]float64{"r0": 1}
		for r, row := range v.in.A {
			uses[fmt.Sprintf("r%d", r)] = row[i]
		}
		tenant := map[string]any{"name": fmt.Sprintf("t%d", i), "weight": w, "guaranteed": v.in.M[i], "uses": uses}
		if v.in.Cap[i] < 1e18 {
			tenant["demand"] = v.in.Cap[i]
		}
		tenants = append(tenants, tenant)
	}
	problem["pools"], problem["tenants"] = pools, tenants
	text, err := json.Marshal(problem)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
	p, err := solve.Parse(v.ID, strings.NewReader(v.document(t)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Solve()
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
	if v.Kind != "alpha-fair" { // those have no fair rate
		for k, f := range listOf(want.F) {
			near(t, fmt.Sprintf("fair rate %d", k), r.Pools[k].FairRate, f, v.Tol)
		}
	}
	if v.Kind != "multi-maxmin" { // those have no price
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
