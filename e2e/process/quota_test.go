package process

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/titrate/titrate/lab/dev/load"
)

const calendarQuota = `
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/metered, spec: {weight: 4}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/metered/limits/monthly,
 spec: {quota: {amount: 400, per: MONTH, zone: Europe/Berlin}}}
`

// quotaOverAllGateways uses up the quota of a client through all gateways, while etcd is stopped and an agent is
// killed. Never is more admitted than the amount. Then it says what was used, and when the quota begins anew.
func (w *system) quotaOverAllGateways(t *testing.T) {
	const amount = 400
	w.apply(calendarQuota)
	w.inForce(t, patience)
	var admitted atomic.Int64
	use := func(most int64) {
		var all sync.WaitGroup
		for _, front := range w.fronts {
			all.Go(func() {
				for range 2 * amount / len(w.fronts) {
					if admitted.Load() < most && w.admits(t, front, "metered", "one") {
						admitted.Add(1)
					}
				}
			})
		}
		all.Wait()
	}
	use(100)
	if admitted.Load() < 100 {
		t.Fatalf("%d admitted of 100", admitted.Load())
	}
	w.Etcd.Kill()
	use(150)
	if n := admitted.Load(); n < 150 {
		t.Errorf("%d admitted of 150 while etcd is away: an OPEN owner goes on by its own count", n)
	}
	w.start(w.Etcd)
	eventually(t, "what the owner granted by its own count is booked", patience, func() string {
		if one, out := w.used(t); one.Booked < float64(admitted.Load()) {
			return out
		}
		return ""
	})
	w.Gateways[1].Agent.Kill()
	w.start(w.Gateways[1].Agent)
	w.linked(t, patience, 0)
	eventually(t, "the quota is used up", patience, func() string {
		before := admitted.Load()
		if use(10 * amount); admitted.Load() > before {
			return fmt.Sprintf("%d admitted", admitted.Load())
		}
		return ""
	})
	if n := admitted.Load(); n > amount || n < amount-30 {
		t.Errorf("%d admitted of %d", n, amount)
	}
	resp := w.send(t, w.fronts[0], "metered", "one")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	t.Logf("%d of %d admitted; a refusal says %q, %q", admitted.Load(), amount, resp.Header.Get("RateLimit"),
		resp.Header.Get("Retry-After"))
	eventually(t, "titrate usage says what was used", patience, func() string {
		u, out := w.used(t)
		// The agent that was killed has not said what was used in its last three seconds.
		if n := float64(admitted.Load()); u.Amount != amount || u.Admitted < n/2 || u.Admitted > n ||
			u.Booked < n {
			return out
		}
		t.Log(out)
		return ""
	})
}

type used struct{ Admitted, Amount, Booked float64 }

// used returns what titrate usage says of the only client, and its output.
func (w *system) used(t *testing.T) (one used, out string) {
	t.Helper()
	_, out, complaint := w.bin.run(t, "", "usage", "metered", "-o", "json", "--server", w.API())
	var said struct{ Usage []used }
	if err := json.Unmarshal([]byte(out), &said); err != nil || len(said.Usage) != 1 {
		return used{}, out + complaint
	}
	return said.Usage[0], out
}

// send sends one request, and returns the answer without its body.
func (w *system) send(t *testing.T, front, tenant, client string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(load.TenantHeader, tenant)
	req.Header.Set(load.ClientHeader, client)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}
