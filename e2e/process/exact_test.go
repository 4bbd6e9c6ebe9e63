package process

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/titrate/titrate/lab/dev/load"
)

// An EXACT limit, and the same with LOCAL precision.
const exactLimits = `
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/exact, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/exact/limits/each,
 spec: {rate: 1/min, burst: 20, precision: EXACT}}
`

// exactOverAllGateways sends each of some clients through all gateways at once, four times its
// burst. All gateways together admit the burst, but for what a ledger decides because the answer
// of an owner took too long on this machine.
func (w *system) exactOverAllGateways(t *testing.T) {
	w.apply(exactLimits)
	w.inForce(t, patience)
	const burst, clients = 20, 10
	waited, unanswered := w.total("titrate_exact_waited_total"), w.total("titrate_exact_unanswered_total")
	var all sync.WaitGroup
	var mu sync.Mutex
	admitted := map[string]int{}
	for c := range clients {
		for _, front := range w.fronts {
			all.Go(func() {
				client := fmt.Sprint("client-", c)
				for range 2 * burst {
					ok := w.admits(t, front, "exact", client)
					mu.Lock()
					if ok {
						admitted[client]++
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	sum := 0
	for client, n := range admitted {
		if sum += n; n < burst {
			t.Errorf("%d requests of %s admitted, want its burst of %d", n, client, burst)
		}
	}
	eventually(t, "metrics say that requests waited for owners, and that both agents are owners", patience, func() string {
		if w.total("titrate_exact_waited_total") == waited {
			return "none waited"
		}
		for _, g := range w.Gateways {
			if w.metric(g.AgentWeb+"/metrics", "titrate_agent_tokens_messages_total", `kind="grant"`) == 0 {
				return g.Agent.Name + " has granted nothing"
			}
		}
		return ""
	})
	ledger := int(w.total("titrate_exact_unanswered_total") - unanswered)
	if most := clients*(burst+1) + ledger; sum > most { // one token may be refilled meanwhile
		t.Errorf("%d requests admitted, want %d at most; the ledger decided %d", sum, most, ledger)
	}
	t.Logf("%d clients with a burst of %d: %d admitted by %d gateways, %.0f requests waited for an owner, the ledger "+
		"decided %d", clients, burst, sum, len(w.fronts), w.total("titrate_exact_waited_total")-waited, ledger)
}

// total is a metric's sum over the Envoys.
func (w *system) total(name string) (sum float64) {
	for _, admin := range w.admins {
		sum += w.metric(admin+"/stats/prometheus", name, "")
	}
	return sum
}

// admits sends a request and reports whether it was admitted.
func (w *system) admits(t *testing.T, front, tenant, client string) bool {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front, nil)
	if err != nil {
		t.Error(err)
		return false
	}
	req.Header.Set(load.TenantHeader, tenant)
	req.Header.Set(load.ClientHeader, client)
	resp, err := w.client.Do(req)
	if err != nil {
		t.Error(err)
		return false
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode == http.StatusOK
}
