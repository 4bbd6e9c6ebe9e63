package coordinator_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/coordinator"
)

// The console's pages are for everybody. What its streams answer is what the caller may read, with the port's own
// certificates and tokens.
func TestConsoleKnowsItsCallers(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, fmt.Appendf(nil, "tokens: [{name: portal, sha256: %x, role: tenant-viewer, "+
		"tenants: [acme]}]", sha256.Sum256([]byte("p"))), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startGuarded(t, func(c *coordinator.Config) { c.Console, c.Tokens = "127.0.0.1:0", tokens })
	g.apply(pool("api", 100), tenant("acme", 1), tenant("bolt", 1))
	base := "https://" + g.c.ConsoleAddress()
	as := func(ids ...string) *http.Client {
		var cert, key string
		if len(ids) > 0 {
			cert, key = g.ca.Issue(t, ids...)
		}
		transport := &http.Transport{TLSClientConfig: certtest.Client(t, certtest.Bundle(t, g.ca), cert, key),
			ForceAttemptHTTP2: true}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	page, err := as().Get(base + "/")
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	if page.StatusCode != http.StatusOK || page.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("the page: %d %v", page.StatusCode, page.Header)
	}
	for _, c := range []struct {
		who         *http.Client
		token, path string
		status      int
		want        string
	}{
		{as(), "", "/v1alpha1/pools", 401, "no credentials"},
		{as(), "wrong", "/v1alpha1/pools", 401, "UNAUTHENTICATED"},
		{as("spiffe://x/viewer"), "", "/v1alpha1/pools", 200, `"status":200,"body":{"pools":[{"name":"pools/api"`},
		{as(), "p", "/v1alpha1/pools", 200, `"status":403,"body":{"status":403`},
		{as(), "p", "/v1alpha1/tenants", 200, `"body":{"tenants":[{"name":"tenants/acme"`},
		{as(), "p", "/v1alpha1/tenants/bolt", 200, `"status":403`},
		{as("spiffe://x/viewer"), "", "/openapi.json", 400, "not a path of the admin API"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/events",
			strings.NewReader(`{"paths":["`+c.path+`"]}`))
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		a, err := c.who.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for lines := bufio.NewScanner(a.Body); !strings.Contains(text, "\n\n") && lines.Scan(); {
			if line := lines.Text(); text != "" || strings.HasPrefix(line, "id:") || strings.HasPrefix(line, "data:") ||
				a.StatusCode != http.StatusOK {
				text += line + "\n"
			}
		}
		a.Body.Close()
		if a.StatusCode != c.status || !strings.Contains(text, c.want) || strings.Contains(text, `"name":"tenants/bolt"`) && c.token == "p" {
			t.Errorf("%s: %d %s, want %d and %s", c.path, a.StatusCode, text, c.status, c.want)
		}
	}
}
