package check

import (
	"math"

	"github.com/titrate/titrate/e2e/robustness/load"
	"github.com/titrate/titrate/lab/judge"
)

// Tenant is one of the tenants that share a pool.
type Tenant struct {
	Name   string
	Weight float64
	Most   float64 // quota, requests per second; 0 is none
	// Unjudged: its requests count in what is due to the others only.
	Unjudged bool
}

// Entitlement of a tenant in a quiet span.
type Entitlement struct {
	Tenant   string  `json:"tenant"`
	Span     Span    `json:"span"`
	Offered  float64 `json:"offered"`  // requests per second
	Due      float64 `json:"due"`      // the same
	Admitted float64 `json:"admitted"` // the same
	Pass     bool    `json:"pass"`
}

// Least is the part of its entitlement that a tenant gets at least.
const Least = .9

// chance is the number of requests that a count may lack at its begin and end.
const chance = 3

// Entitled judges each tenant in each quiet span. limit gives a client's rate, 0
// without one. While the machine stood still nothing is due.
func Entitled(records []load.Record, quiet, stalls []Span, capacity float64, tenants []Tenant,
	limit func(*load.Client) float64) (all []Entitlement) {
	for _, s := range quiet {
		offered, demand, admitted := map[string]float64{}, map[string]float64{}, map[string]float64{}
		for c, n := range counts(records, func(r *load.Record) bool { return r.Sent >= s.From && r.Sent < s.To }) {
			rate := n / s.Length().Seconds()
			offered[c.Tenant] += rate
			if l := limit(c); l > 0 {
				rate = min(rate, l)
			}
			demand[c.Tenant] += rate
		}
		arrived := func(r *load.Record) bool { return r.Arrived > 0 && r.Arrived >= s.From && r.Arrived < s.To }
		for c, n := range counts(records, arrived) {
			admitted[c.Tenant] += n / s.Length().Seconds()
		}
		due := shares(capacity, tenants, demand)
		working := s.Length() - Stalled(s, stalls)
		for _, t := range tenants {
			if t.Unjudged {
				continue
			}
			got := admitted[t.Name] * s.Length().Seconds()
			all = append(all, Entitlement{t.Name, s, offered[t.Name], due[t.Name], admitted[t.Name],
				got >= Least*due[t.Name]*working.Seconds()-chance})
		}
	}
	return all
}

func counts(records []load.Record, in func(*load.Record) bool) map[*load.Client]float64 {
	n := map[*load.Client]float64{}
	for i := range records {
		if in(&records[i]) {
			n[records[i].Client]++
		}
	}
	return n
}

// shares returns the share due to each tenant.
func shares(capacity float64, tenants []Tenant, demand map[string]float64) map[string]float64 {
	all := make([]judge.Tenant, len(tenants))
	for i, t := range tenants {
		all[i] = judge.Tenant{Weight: t.Weight, Max: math.Inf(1), Demand: demand[t.Name]}
		if t.Most > 0 {
			all[i].Max = t.Most
		}
	}
	due := map[string]float64{}
	for i, e := range (judge.Pool{Capacity: capacity}).Entitle(all) {
		due[tenants[i].Name] = e.Share
	}
	return due
}
