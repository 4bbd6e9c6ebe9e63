package coordinator_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/coordinator/webhook"
	"github.com/titrate/titrate/services/rest"
)

// notebook keeps what is written to it. It may be written to by several goroutines.
type notebook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notebook) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *notebook) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// Secrets are planted where an operator has them: the webhook's, in its file and in the path of its URL, and a caller's
// token. A threshold is reached, the receiver refuses the event, callers are refused, and all that reads is read. No
// answer, log line, audit line and admin page has a secret.
func TestSecretsAreInNoOutput(t *testing.T) {
	asked := make(chan string, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer receiver.Close()
	const inFile, inPath, token = "planted-in-the-secret-file", "planted-in-the-path", "planted-as-a-token"
	dir := t.TempDir()
	secret, tokens := filepath.Join(dir, "secret"), filepath.Join(dir, "tokens.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, inFile)
	write(tokens, fmt.Sprintf("tokens: [{name: ops, sha256: %x, role: admin}]", sha256.Sum256([]byte(token))))
	log := &notebook{}
	g := startGuarded(t, func(c *coordinator.Config) {
		c.Rest, c.Tokens = "127.0.0.1:0", tokens
		c.Webhook = webhook.Config{URL: receiver.URL + "/" + inPath, Secret: secret, Internal: true}
		c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	g.apply(pool("api", 100), tenant("acme", 1), monthly("acme", 100))
	o := &owner{t: t, addresses: []string{g.c.AgentAddress()}, who: g.credentials(g.ca, "spiffe://x/agent/owner1")}
	go o.run(t.Context(), 1)
	for range 2 { // a threshold, and its second try
		if path := <-asked; path != "/"+inPath {
			t.Fatalf("the webhook is asked for %s", path)
		}
	}
	seen := read(t, g, token)
	until(t, "the failure is logged", func() bool { return strings.Contains(log.String(), "not taken by the webhook") })
	write(secret, inFile[:8])
	short := webhook.Config{URL: receiver.URL, Secret: secret, Internal: true}
	seen["a start with a short secret"] = fmt.Sprint(short.Check())
	audit, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	seen["the log"], seen["the audit"] = log.String(), string(audit)
	for _, page := range []string{"/metrics", "/readyz", "/healthz"} {
		_, seen[page] = g.get(page)
	}
	for where, text := range seen {
		if text == "" {
			t.Errorf("%s is empty", where)
		}
		for _, planted := range []string{inFile, inPath, token, inFile[:8],
			base64.StdEncoding.EncodeToString([]byte(inFile))[:24]} {
			if strings.Contains(text, planted) {
				t.Errorf("%s has %q:\n%.2000s", where, planted, text)
			}
		}
	}
}

// read returns the answers to all that reads over HTTP, to a plan, an apply and a rollback, and to callers who are
// refused, by what was asked.
func read(t *testing.T, g *guarded, token string) map[string]string {
	transport := &http.Transport{TLSClientConfig: certtest.Client(t, certtest.Bundle(t, g.ca), "", "")}
	t.Cleanup(transport.CloseIdleConnections)
	w := web{t, "https://" + g.c.RestAddress(), &http.Client{Transport: transport}, token}
	seen := map[string]string{}
	ask := func(verb, path, body string) string {
		_, answer, _ := w.ask(verb, path, body)
		seen[verb+" "+path+" as "+w.token[:5]] = answer
		return answer
	}
	const change = `{"resources":[{"tenant":{"name":"tenants/acme","weight":3}}],"message":"more"}`
	ask("POST", "/v1alpha1:plan", `{"apply":`+change+`}`)
	ask("POST", "/v1alpha1:apply", change)
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(rest.Document, &document); err != nil {
		t.Fatal(err)
	}
	first := firstRevision(t, ask("GET", "/v1alpha1/revisions", ""))
	named := strings.NewReplacer("{tenant}", "acme", "{limit}", "monthly", "{override}", "k", "{revision}", first,
		"{pool}", "api", "{quota}", "api", "{plan}", "gold", "{request}", "r")
	for template, verbs := range document.Paths {
		if _, is := verbs["get"]; is {
			ask("GET", named.Replace(template), "")
		}
	}
	ask("POST", "/v1alpha1/revisions/"+first+":rollback", `{}`)
	w.token += "-wrong"
	ask("GET", "/v1alpha1/pools", "")
	return seen
}
