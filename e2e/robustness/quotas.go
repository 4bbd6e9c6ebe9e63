package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// zone is a time zone in which a day ends in the midst of the load, and dayEnds the time within which a message about
// that is on its way.
const (
	zone    = "Robustness/Turn"
	dayEnds = 5 * time.Second
)

// zoneOf is a time zone, as a file of the zone database, in which a day begins at an instant.
func zoneOf(midnight time.Time) []byte {
	const day = 24 * 60 * 60
	offset := -int32(midnight.Unix() % day)
	if offset < -day/2 {
		offset += day
	}
	file := append([]byte("TZif"), make([]byte, 16)...) // version and nothing
	for _, n := range []uint32{0, 0, 0, 0, 1, 4} {      // one type, four letters of its name
		file = binary.BigEndian.AppendUint32(file, n)
	}
	return append(binary.BigEndian.AppendUint32(file, uint32(offset)), 0, 0, 'T', 'R', 'N', 0)
}

// daily configures a quota of a day that ends when half of the load's time is over. The client "daily" uses up each of
// the two days that it sees in two thirds of its time.
func (s *scene) daily(ctx context.Context, zones string, duration time.Duration) error {
	file := filepath.Join(zones, zone)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	s.turn = s.load.Now() + duration/2
	if err := os.WriteFile(file, zoneOf(time.Now().Add(duration/2)), 0o600); err != nil {
		return err
	}
	return s.api.Apply(ctx, s.quotas.daily())
}

// daily is the configuration of the quota of a day.
func (q quotas) daily() string {
	return fmt.Sprintf(`
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/daily, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/daily/limits/daily,
 spec: {quota: {amount: %d, per: DAY, zone: %s}}}
`, q/2, zone)
}

// daily judges both days: what arrived before the change of the day, what arrived after it, and all together. A clock
// that is stepped changes which day it is, so that only the sum is judged then.
func (r *Result) daily(q quotas, turn time.Duration, records []load.Record) {
	day := int(q) / 2
	unused, judged := check.Quota(2*day, r.Faults)
	if !judged {
		return
	}
	all, before, after := arrivals(records, func(c *load.Client) bool { return c.Tenant == "daily" }), 0, 0
	for _, at := range all {
		if at < turn-dayEnds {
			before++
		} else if at > turn+dayEnds {
			after++
		}
	}
	r.ofQuota("admitted", "both days", len(all), 2*day)
	r.ofQuota("unused", "both days", 2*day-len(all), unused)
	if !slices.ContainsFunc(r.Faults, func(f check.Fault) bool { return f.Kind == "step-clock" }) {
		r.ofQuota("admitted", "the day that ends", before, day)
		r.ofQuota("admitted", "the day that begins", after, day)
	}
}

// ofQuota judges a number of requests of a quota.
func (r *Result) ofQuota(what, of string, n, most int) {
	c := Check{Name: "quota, " + what, Subject: of, Unit: "requests", Figure: float64(n), Bound: float64(most),
		Pass: n <= most}
	r.Checks = append(r.Checks, c)
	if !c.Pass {
		r.Findings = append(r.Findings, check.Finding{Check: c.Name,
			What: fmt.Sprintf("%s: %d requests, at most %d are allowed", of, n, most)})
	}
}

// metered reports whether a client has a calendar quota. A lying gateway does not name it: it could use the quota up.
func metered(c *load.Client) bool {
	return c.Tenant == "metered" || c.Tenant == "booked" || c.Tenant == "daily"
}

// quotas judges what was admitted of each calendar quota, and what nobody got.
func (r *Result) quotas(q quotas, records []load.Record) {
	unused, judged := check.Quota(int(q), r.Faults)
	if !judged {
		return
	}
	for _, name := range []string{"metered", "booked"} {
		n := len(arrivals(records, func(c *load.Client) bool { return c.Tenant == name }))
		r.ofQuota("admitted", name, n, int(q))
		r.ofQuota("unused", name, int(q)-n, unused)
	}
}
