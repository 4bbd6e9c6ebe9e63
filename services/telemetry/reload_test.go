package telemetry_test

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/titrate/titrate/envoy-filter/certtest"
	"github.com/titrate/titrate/services/telemetry"
)

// meet makes one handshake over loopback; the error is the server's, or else the
// client's.
func meet(t *testing.T, server, client credentials.TransportCredentials) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	failed := make(chan error, 1)
	go func() {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			failed <- err
			return
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _, err = client.ClientHandshake(ctx, "127.0.0.1", conn)
		failed <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _, err = server.ServerHandshake(conn)
	if theirs := <-failed; err == nil {
		err = theirs
	}
	return err
}

// party is a process with TLS files: its credentials are made once, its files change.
type party struct {
	files          telemetry.Security
	server, client credentials.TransportCredentials
}

func newParty(t *testing.T, of *certtest.Authority, trusted ...*certtest.Authority) *party {
	t.Helper()
	p := &party{files: telemetry.Security{CA: certtest.Bundle(t, trusted...)}}
	p.files.Cert, p.files.Key = of.Issue(t)
	var err, also error
	p.server, err = p.files.ServerCredentials()
	p.client, also = p.files.ClientCredentials()
	if err != nil || also != nil {
		t.Fatal(err, also)
	}
	return p
}

// reissue replaces the certificate.
func (p *party) reissue(t *testing.T, of *certtest.Authority) {
	t.Helper()
	cert, key := of.Issue(t)
	certtest.Move(t, cert, p.files.Cert)
	certtest.Move(t, key, p.files.Key)
}

// A CA is replaced in the usual four steps, on both sides, without a restart: trust both, issue again, trust the new
// one only. At no step are valid peers refused, and at the end invalid peers are refused.
func TestACAIsReplacedWithoutARestart(t *testing.T) {
	older, newer := certtest.New(t), certtest.New(t)
	server, client := newParty(t, older, older), newParty(t, older, older)
	early, late := newParty(t, newer, older, newer), newParty(t, older, older, newer)
	step := func(what string, who *party, fine bool) {
		t.Helper()
		if err := meet(t, server.server, who.client); (err == nil) != fine {
			t.Errorf("%s: %v", what, err)
		}
	}
	step("before", client, true)
	step("before, with a certificate of the new CA", early, false)
	certtest.Trust(t, server.files.CA, older, newer)
	certtest.Trust(t, client.files.CA, older, newer)
	step("both trusted", client, true)
	step("both trusted, with a certificate of the new CA", early, true)
	server.reissue(t, newer)
	step("the server has a new certificate", client, true)
	client.reissue(t, newer)
	step("the client has one too", client, true)
	certtest.Trust(t, server.files.CA, newer)
	certtest.Trust(t, client.files.CA, newer)
	step("the old CA is gone", client, true)
	step("the old CA is gone, with a certificate of it", late, false)
	server.reissue(t, older)
	step("the server shows a certificate of the old CA", client, false)
}

// Files that cannot be read, or do not fit each other, change nothing, and /readyz says so; so does a certificate that
// has expired.
func TestFilesThatCannotBeReadChangeNothing(t *testing.T) {
	ca := certtest.New(t)
	server, client := newParty(t, ca, ca), newParty(t, ca, ca)
	a := admin(t, server.files)
	told := func(want string) {
		t.Helper()
		code, body := get(a, "/readyz")
		if code != 200 || want == "" && strings.Contains(body, "alarm") || !strings.Contains(body, want) {
			t.Errorf("readyz: %d %q, want %q", code, body, want)
		}
		_, metrics := get(a, "/metrics")
		if wrong := strings.Contains(metrics, "\ntitrate_tls_trouble{"); !wrong {
			t.Error("no metric titrate_tls_trouble")
		}
		for line := range strings.Lines(metrics) {
			if strings.HasPrefix(line, "titrate_tls_trouble{") && strings.HasSuffix(line, " 1\n") != (want != "") {
				t.Errorf("%s, want %q told", line, want)
			}
		}
	}
	told("")
	kept, err := os.ReadFile(server.files.CA)
	if err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func() error{
		"no PEM certificate": func() error { return os.WriteFile(server.files.CA, []byte("half"), 0o600) },
		"no such file":       func() error { return os.Remove(server.files.CA) },
		"--tls-key": func() error {
			_, key := ca.Issue(t)
			return os.Rename(key, server.files.Key)
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := meet(t, server.server, client.client); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		told(want)
		if err := os.WriteFile(server.files.CA, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		server.reissue(t, ca)
		told("")
	}
	cert, key := ca.IssueUntil(t, time.Now().Add(-time.Minute))
	certtest.Move(t, cert, server.files.Cert)
	certtest.Move(t, key, server.files.Key)
	told("expired at")
}

// A certificate that expires soon is reported as an alarm, with its file, before it does; a CA's too, unless there is a
// newer one.
func TestCertificatesThatExpireSoon(t *testing.T) {
	ca := certtest.New(t)
	p := newParty(t, ca, ca)
	a := admin(t, p.files)
	told := func(want string) {
		t.Helper()
		if _, body := get(a, "/readyz"); want == "" && strings.Contains(body, "alarm") || !strings.Contains(body, want) {
			t.Errorf("readyz: %q, want %q", body, want)
		}
	}
	told("")
	until := time.Now().Add(certtest.Lifetime / 10) // of a lifetime of 1.1
	cert, key := ca.IssueUntil(t, until)
	certtest.Move(t, cert, p.files.Cert)
	certtest.Move(t, key, p.files.Key)
	told("--tls-cert " + p.files.Cert + " expires at " + until.UTC().Format(time.RFC3339))
	_, metrics := get(a, "/metrics")
	for _, want := range []string{"titrate_tls_expires_timestamp_seconds{files=\"tls\"}", "titrate_tls_lifetime_seconds"} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("no %s in %s", want, metrics)
		}
	}
	v, err := p.files.Validity()
	if err != nil || !v.Until.Equal(until.Truncate(time.Second)) ||
		v.Until.Sub(v.From).Round(time.Minute) != certtest.Lifetime*11/10 {
		t.Errorf("%+v, %v", v, err)
	}
	for days, soon := range map[int]bool{15: false, 13: true} { // of a year
		now := time.Now()
		v := telemetry.Validity{File: "x", Until: now.AddDate(0, 0, days), From: now.AddDate(0, 0, days-365)}
		if (v.Soon(now) != nil) != soon {
			t.Errorf("%d days before the end: %v", days, v.Soon(now))
		}
	}
}
