package solve

import (
	"fmt"
	"math"
	"strconv"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/pricing"
)

// Status reports whether the guarantees fit.
type Status string

// The values of a status.
const (
	OK         Status = "OK"
	Infeasible Status = "INFEASIBLE_GUARANTEES" // they were scaled down
)

// Result is the outcome of a problem, pools and tenants in the problem's order.
type Result struct {
	Status  Status         `json:"status" yaml:"status"`
	Pools   []PoolResult   `json:"pools" yaml:"pools"`
	Tenants []TenantResult `json:"tenants" yaml:"tenants"`
}

// PoolResult is the state of a pool.
type PoolResult struct {
	Name string `json:"name" yaml:"name"`
	// Used is the load of the pool by the shares, cost units/s.
	Used float64 `json:"used" yaml:"used"`
	// FairRate is the rate of a tenant of weight 1 and cost 1, units/s; nil if the pool does not bind.
	FairRate *float64 `json:"fairRate" yaml:"fairRate"`
	// Price is the price of a cost unit/s: 0 where the pool does not bind, nil where
	// guarantees fill it, so that none is for sale.
	Price *float64 `json:"price" yaml:"price"`
}

// TenantResult is the share of a tenant.
type TenantResult struct {
	Name    string  `json:"name" yaml:"name"`
	Share   float64 `json:"share" yaml:"share"` // units/s
	BoundBy string  `json:"boundBy" yaml:"boundBy"`
}

// outcome is the result of a law as numbers.
type outcome struct {
	shares   []float64
	holder   []int     // the pool that holds a tenant, if its cap or guarantee does not
	fairRate []float64 // +Inf where the pool does not bind
	price    []float64 // +Inf where nothing is for sale
}

// rounding is the relative error that sums of shares may carry.
const rounding = 1e-12

// Solve shares the pools. It fails only if prices do not settle, which takes
// numbers of very different size.
func (p *Problem) Solve() (*Result, error) {
	s := p.settle()
	law := p.maxMin
	if p.Sharing == Proportional {
		law = p.proportional
	}
	o, err := law()
	if err != nil {
		return nil, err
	}
	r := &Result{Status: OK, Pools: make([]PoolResult, len(p.Pools)), Tenants: make([]TenantResult, len(p.Tenants))}
	if s.scaled {
		r.Status = Infeasible
	}
	used := make([]float64, len(p.Pools))
	for i := range p.Tenants {
		t := &p.Tenants[i]
		share, bound := p.shareOf(t, s, o, i)
		for _, u := range t.Uses {
			used[u.Pool] += u.Cost * share
		}
		r.Tenants[i] = TenantResult{t.Name, round(share), bound}
	}
	for k, pool := range p.Pools {
		fair, price := o.fairRate[k], o.price[k]
		if s.full[k] {
			fair, price = 0, math.Inf(1)
		}
		r.Pools[k] = PoolResult{pool.Name, round(used[k]), finite(fair), finite(price)}
	}
	return r, nil
}

// Together is the results of several problems as one.
func Together(results []*Result) *Result {
	all := &Result{Status: OK, Pools: []PoolResult{}, Tenants: []TenantResult{}}
	for _, r := range results {
		if r.Status != OK {
			all.Status = r.Status
		}
		all.Pools, all.Tenants = append(all.Pools, r.Pools...), append(all.Tenants, r.Tenants...)
	}
	return all
}

// shareOf returns the share of tenant i, and its bound.
func (p *Problem) shareOf(t *Tenant, s *standing, o *outcome, i int) (share float64, boundBy string) {
	share, holder := o.shares[i], o.holder[i]
	for _, u := range t.Uses {
		if s.full[u.Pool] { // exact, where the law has a rounding error above it
			share, holder = s.floor[i], u.Pool
			break
		}
	}
	most := t.limit()
	switch {
	case share >= most*(1-rounding) && t.Demand <= t.Max:
		return most, ByDemand
	case share >= most*(1-rounding):
		return most, ByMax
	case t.Weight == 0 || s.floor[i] > 0 && share <= s.floor[i]*(1+rounding):
		return share, ByGuarantee
	}
	return share, p.Pools[holder].Name
}

// demands are the tenants in the terms of the laws.
func (p *Problem) demands() []fairshare.Demand {
	demands := make([]fairshare.Demand, len(p.Tenants))
	for i := range p.Tenants {
		t := &p.Tenants[i]
		demands[i] = fairshare.Demand{Weight: t.Weight, Guaranteed: t.Guaranteed, Cap: t.limit()}
	}
	return demands
}

// topology returns the capacities of the pools, and each tenant's use of each pool.
func (p *Problem) topology() (capacity []float64, uses []fairshare.Use) {
	for _, pool := range p.Pools {
		capacity = append(capacity, pool.Capacity)
	}
	for i := range p.Tenants {
		for _, u := range p.Tenants[i].Uses {
			uses = append(uses, fairshare.Use{Tenant: i, Pool: u.Pool, Cost: u.Cost})
		}
	}
	return capacity, uses
}

// maxMin runs the max-min law.
func (p *Problem) maxMin() (*outcome, error) {
	capacity, uses := p.topology()
	network, err := fairshare.NewNetwork(len(capacity), len(p.Tenants), uses)
	if err != nil {
		return nil, fmt.Errorf("solve: %w", err)
	}
	var a fairshare.Allocation
	network.Solve(capacity, p.demands(), p.meaning(), nil, &a)
	o := &outcome{shares: a.Shares, holder: a.Bottleneck, fairRate: a.FairRate}
	for _, f := range a.FairRate {
		o.price = append(o.price, pricing.MaxMin(f))
	}
	return o, nil
}

// meaning translates the meaning of a guarantee to the laws' type.
func (p *Problem) meaning() fairshare.Guarantee {
	if p.Guarantee == Additive {
		return fairshare.Additive
	}
	return fairshare.Minimum
}

// finite returns nil for +Inf, which JSON cannot represent.
func finite(v float64) *float64 {
	if math.IsInf(v, 1) {
		return nil
	}
	v = round(v)
	return &v
}

// round keeps 12 significant digits: less than the laws are exact to, and the same
// on every processor.
func round(v float64) float64 {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	return short
}
