package process

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/titrate/titrate/lab/dev/load"
)

// whose is the gateways' configuration of identities and classes, in addition to the demo's configuration.
const whose = `
                          identities: {user: {query: user}}
                          classes: [{name: writes, match: {methods: [POST]}}]`

// A limit that names an identity and a class: from a document through coordinator
// and agents to the filters, and one user's writes through both gateways.
const writes = `
{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/named, spec: {weight: 1}}
---
apiVersion: titrate.dev/v1alpha1
kind: Limit
name: tenants/named/limits/writes
spec: {rate: 6/min, burst: 20, identity: user, classes: [writes]}
`

const writesBurst = 20

func (w *system) identitiesTravel(t *testing.T) {
	w.apply(writes)
	w.inForce(t, patience)
	clients := 0
	admitted := func(gateway int, method, user string) bool {
		t.Helper()
		clients++
		req, err := http.NewRequestWithContext(t.Context(), method, w.fronts[gateway]+"?user="+user, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(load.TenantHeader, "named")
		req.Header.Set(load.ClientHeader, fmt.Sprint("client-", clients))
		resp, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%s of %s: status %d", method, user, resp.StatusCode)
		}
		return resp.StatusCode == http.StatusOK
	}
	first := 0
	for range 2 * writesBurst {
		if admitted(0, http.MethodPost, "alice") {
			first++
		}
	}
	if first < writesBurst || first > writesBurst+2 {
		t.Errorf("%d writes of one user under many client names admitted, the burst is %d", first, writesBurst)
	}
	if !admitted(0, http.MethodGet, "alice") || !admitted(0, http.MethodPost, "bob") {
		t.Error("a read of the same user, or a write of another one, is refused")
	}
	second := 0
	eventually(t, "the other gateway knows of the user's writes", patience, func() string {
		if admitted(1, http.MethodPost, "alice") {
			second++
			return fmt.Sprint(second, " more admitted there")
		}
		return ""
	})
	if second > writesBurst/2 {
		t.Errorf("the other gateway admitted %d more", second)
	}
	if !admitted(1, http.MethodGet, "alice") || !admitted(1, http.MethodPost, "carol") {
		t.Error("there a read of the same user, or a write of another one, is refused")
	}
	t.Logf("%d of one user's writes admitted at one gateway, %d more at the other; the burst is %d", first, second,
		writesBurst)
}
