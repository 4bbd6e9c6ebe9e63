package telemetry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"

	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/telemetry"
)

func TestLogger(t *testing.T) {
	for _, c := range []struct{ level, format, want string }{
		{"", "", "level=WARN msg=hello"},
		{"warn", "json", `"msg":"hello"`},
		{"error", "text", ""},
		{"loud", "text", "--log-level"},
		{"info", "xml", "--log-format"},
	} {
		var out bytes.Buffer
		log, err := telemetry.Log{Level: c.level, Format: c.format}.Logger(&out)
		if err != nil {
			out.WriteString(err.Error())
		} else {
			log.Warn("hello")
		}
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q %q: %q, want %q", c.level, c.format, got, c.want)
		}
	}
}

// admin is an admin server over fresh metrics with one counter in them.
func admin(t *testing.T, security telemetry.Security) *telemetry.Admin {
	t.Helper()
	metrics, err := telemetry.Meters{Service: "titrate-test", Instance: "one"}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { metrics.Close(context.Background()) })
	counter, err := metrics.Meter("test").Int64Counter("titrate_test_things")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	a, err := telemetry.NewAdmin(metrics, security, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func get(a *telemetry.Admin, path string) (int, string) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func TestAdmin(t *testing.T) {
	a := admin(t, telemetry.Security{})
	var broken error
	a.Check("etcd", func() error { return broken })
	a.Handle("GET /status", http.RedirectHandler("/elsewhere", http.StatusFound))
	if code, body := get(a, "/metrics"); code != 200 || !strings.Contains(body, "titrate_test_things_total 3") ||
		!strings.Contains(body, `service_name="titrate-test"`) {
		t.Errorf("metrics: %d %s", code, body)
	}
	if code, _ := get(a, "/healthz"); code != 200 {
		t.Errorf("healthz: %d", code)
	}
	if code, _ := get(a, "/readyz"); code != 200 {
		t.Errorf("readyz: %d", code)
	}
	broken = errors.New("away for 3s")
	if code, body := get(a, "/readyz"); code != 503 || !strings.Contains(body, "etcd: away for 3s") {
		t.Errorf("readyz: %d %s", code, body)
	}
	if code, _ := get(a, "/status"); code != http.StatusFound {
		t.Errorf("status: %d", code)
	}
}

func TestListenGuard(t *testing.T) {
	for _, c := range []struct {
		security telemetry.Security
		address  string
		want     string
	}{
		{telemetry.Security{}, "127.0.0.1:0", ""},
		{telemetry.Security{}, "[::1]:x", "unknown port"},
		{telemetry.Security{}, "0.0.0.0:0", "not a loopback address"},
		{telemetry.Security{}, ":0", "not a loopback address"},
		{telemetry.Security{}, "example.org:0", "not a loopback address"},
		{telemetry.Security{}, "7400", "want host:port"},
		{telemetry.Security{Insecure: true}, "0.0.0.0:0", ""},
	} {
		l, err := c.security.Listen(t.Context(), "--listen", c.address)
		if err == nil {
			l.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.address, err, c.want)
		}
	}
}

func TestListenNamesTheTakenAddress(t *testing.T) {
	first, err := telemetry.Security{}.Listen(t.Context(), "--admin", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	taken := first.Addr().String()
	_, err = telemetry.Security{}.Listen(t.Context(), "--admin", taken)
	if err == nil || !strings.Contains(err.Error(), "--admin "+taken+": another process") {
		t.Errorf("got %v", err)
	}
}

// certificates are a CA and a certificate for 127.0.0.1 signed by it.
func certificates(t *testing.T) telemetry.Security {
	t.Helper()
	ca := certtest.New(t)
	s := telemetry.Security{CA: certtest.Bundle(t, ca)}
	s.Cert, s.Key = ca.Issue(t)
	return s
}

// handshake connects a client to a server over loopback and gives the server's error.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := tls.Dial("tcp", l.Addr().String(), client); err == nil {
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).HandshakeContext(t.Context())
}

func TestMutualTLS(t *testing.T) {
	s := certificates(t)
	server, err := s.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	full, anonymous := certtest.Client(t, s.CA, s.Cert, s.Key), certtest.Client(t, s.CA, "", "")
	full.ServerName, anonymous.ServerName = "127.0.0.1", "127.0.0.1"
	if err := handshake(t, server, full); err != nil {
		t.Errorf("client with certificate: %v", err)
	}
	if err := handshake(t, server, anonymous); err == nil {
		t.Error("client without certificate got in")
	}
}

func TestAdminAsksForNoClientCertificate(t *testing.T) {
	s := certificates(t)
	a := admin(t, s)
	l, err := s.Listen(t.Context(), "--admin", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: certtest.Client(t, s.CA, "", "")}}
	answer, err := client.Get("https://" + l.Addr().String() + "/healthz")
	if err != nil || answer.StatusCode != 200 {
		t.Errorf("probe: %v %v", answer, err)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSecurityRefuses(t *testing.T) {
	good := certificates(t)
	for name, s := range map[string]telemetry.Security{
		"belong together": {Cert: good.Cert},
		"--tls-key":       {Cert: good.Cert, Key: good.CA},
		"no PEM":          {Cert: good.Cert, Key: good.Key, CA: good.Key},
		"--tls-ca":        {Cert: good.Cert, Key: good.Key, CA: filepath.Join(t.TempDir(), "absent")},
	} {
		if _, err := s.ServerTLS(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("server: %v, want %q", err, name)
		}
		if _, err := s.TLSCredentials(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("client: %v, want %q", err, name)
		}
	}
	if c, err := (telemetry.Security{}).ServerTLS(); c != nil || err != nil {
		t.Errorf("no certificate: %v %v", c, err)
	}
}

// Metrics are described under the names that a scrape has.
func TestDescribedAsScraped(t *testing.T) {
	metrics, err := telemetry.Meters{Service: "titrate-test", Instance: "one"}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { metrics.Close(context.Background()) })
	meter := metrics.Meter("test")
	for _, m := range []struct{ name, unit string }{{"titrate.plain.things", ""}, {"titrate.waited", "s"},
		{"titrate.sent.bytes", "By"}, {"titrate.sent", "By"}, {"titrate_stay_seconds", "s"}} {
		gauge, err := meter.Float64Gauge(m.name+".now", metric.WithUnit(m.unit))
		if err != nil {
			t.Fatal(err)
		}
		gauge.Record(t.Context(), 1)
		counter, err := meter.Float64Counter(m.name, metric.WithUnit(m.unit))
		if err != nil {
			t.Fatal(err)
		}
		counter.Add(t.Context(), 1)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for name, kind := range map[string]telemetry.Kind{m.name + ".now": telemetry.Gauge, m.name: telemetry.Counter} {
			want := telemetry.Describe(name, kind, m.unit, "").Name
			if !strings.Contains(w.Body.String(), "\n"+want+" 1\n") {
				t.Errorf("%s in %q: described as %s, which the scrape has not:\n%s", name, m.unit, want, w.Body)
			}
		}
	}
}
