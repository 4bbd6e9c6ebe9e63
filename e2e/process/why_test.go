package process

import (
	"net/http"
	"strings"
	"testing"

	"github.com/titrate/titrate/lab/dev/load"
)

// A tenant with a limit that refuses most requests, a tenant with a limit in SHADOW that would refuse more, and
// a tenant without requests. In SHADOW the ledger of each gateway may let two requests pass above its burst.
const limited = `
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/refused, spec: {weight: 1}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/refused/limits/few, spec: {rate: 6/min, burst: 8}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Limit, name: tenants/refused/limits/watched,
  spec: {rate: 6/min, burst: 1, mode: SHADOW}}
---
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/idle, spec: {weight: 1}}
`

// whyNamesTheLimit checks the text of titrate why about a limit that refuses.
func (w *system) whyNamesTheLimit(t *testing.T) {
	w.apply(limited)
	w.inForce(t, patience)
	const sent = 40
	refused, id := 0, ""
	for i := range sent {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.fronts[i%gateways], nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(load.TenantHeader, "refused")
		req.Header.Set(load.ClientHeader, "app-7")
		resp, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests {
			refused++
			id = resp.Header.Get("X-Request-Id")
		}
	}
	if refused < sent/2 {
		t.Fatalf("%d of %d requests refused", refused, sent)
	}
	for _, one := range []struct {
		line  string
		wants []string
	}{
		{"why refused", []string{"Of 40 requests of refused in the last ", "limit few refused ", "it lets each client have " +
			"6.0/min, burst 8", "gw-1", "gw-2", "app-7 ", "all that its limits let pass"}},
		{"why refused few", []string{"limit few refused "}},
		{"why refused --client app-7", []string{"app-7 "}},
		{"why refused --client bob", []string{`Client "bob" is not among the clients`}},
		{"why refused --shadow", []string{"limit watched would, if it were enforced, have refused or held ",
			"Enforcing all that is in SHADOW would have refused or held "}},
		{"why --shadow", []string{"Enforcing all that is in SHADOW would have refused or held", "refused/watched ", "app-7 "}},
		{"why request " + id, []string{"request " + id, " refused it (client_limit) ", `tenant "refused", client "app-7"`,
			"Limit few lets client \"app-7\" have 6.0/min, burst 8: 0", "so it refused"}},
		{"why request nobody", []string{"No gateway knows request"}},
		{"why idle", []string{"idle has sent no request to a configured pool in the last minute."}},
		{"top --once --by limit --tenant refused", []string{"refused/few "}},
		{"top --once --by client --tenant refused", []string{"app-7 "}},
		{"top --once --by gateway", []string{"gw-1 ", "gw-2 "}},
	} {
		eventually(t, "titrate "+one.line, patience, func() string {
			status, out, complaint := w.bin.run(t, "", append(strings.Fields(one.line), "--server", w.API())...)
			for _, want := range one.wants {
				if (status != 0) != (one.line == "why request nobody") || !strings.Contains(out, want) {
					return "no " + want + " in:\n" + out + complaint
				}
			}
			return ""
		})
	}
}
