package main

import (
	"fmt"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/load"
)

// quotaRate is the demand of each client with a calendar quota, requests per second.
const quotaRate = 4

// quotas is the amount of each calendar quota. The clients "metered", whose quota is OPEN, and "booked", whose quota
// is CLOSED, use it up in two thirds of the run.
type quotas int

func quotasOf(duration time.Duration) quotas { return quotas(quotaRate * duration.Seconds() * 2 / 3) }

// documents are the configuration. No month begins within ten days of now.
func (q quotas) documents(now time.Time) string {
	const each = `
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/%[1]s, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/%[1]s/limits/monthly,
 spec: {quota: {amount: %[3]d, per: MONTH, zone: UTC, startsOn: "%[4]d", onLoss: %[2]s}}}
`
	starts := (now.UTC().Day()+13)%28 + 1
	return fmt.Sprintf(each, "metered", "OPEN", q, starts) + fmt.Sprintf(each, "booked", "CLOSED", q, starts)
}

// metered reports whether a client has a calendar quota. A lying gateway does not name it: it could use the quota up.
func metered(c *load.Client) bool { return c.Tenant == "metered" || c.Tenant == "booked" }

// quotas judges what was admitted of each calendar quota, and what nobody got.
func (r *Result) quotas(q quotas, records []load.Record) {
	unused, judged := check.Quota(r.Faults)
	if !judged {
		return
	}
	for _, name := range []string{"metered", "booked"} {
		n := len(arrivals(records, func(c *load.Client) bool { return c.Tenant == name }))
		for _, c := range []Check{
			{Name: "quota, admitted", Subject: name, Figure: float64(n), Bound: float64(q)},
			{Name: "quota, unused", Subject: name, Figure: float64(int(q) - n), Bound: float64(unused)},
		} {
			c.Unit, c.Pass = "requests", c.Figure <= c.Bound
			r.Checks = append(r.Checks, c)
			if !c.Pass {
				r.Findings = append(r.Findings, check.Finding{Check: c.Name, What: fmt.Sprintf(
					"%s: %v requests of %d, at most %v are allowed", name, c.Figure, q, c.Bound)})
			}
		}
	}
}
