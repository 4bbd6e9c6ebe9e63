package cli

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/storetest"
)

// serveTokens serves the admin API on loopback to those with a token: an editor of acme has
// editor, an admin has admin. It returns the files of the tokens.
func serveTokens(t *testing.T) (server, editor, admin string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	digest := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	tokens := file("tokens.yaml", "tokens:\n"+
		"  - {name: ci, sha256: "+digest("of-the-editor")+", role: editor, tenants: [acme], expires: 2100-01-01, "+
		"ceiling: {rate: 100/s, weight: 5, max: 50}}\n"+
		"  - {name: ops, sha256: "+digest("of-the-admin")+", role: admin}\n")
	guard, err := access.Open(access.Settings{Tokens: tokens, AgentsUnknown: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Unary))
	quota.New(storetest.Open(t), present{}).Audit(slog.New(slog.DiscardHandler), access.Who).
		Bound(access.Ceilings{}).Register(s)
	quotav1.RegisterAccessServiceServer(s, access.NewServer(guard))
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	return listener.Addr().String(), file("editor", "of-the-editor\n"), file("admin", "of-the-admin")
}

// An editor with a ceiling changes a tenant that is on a plan, and does not take it off.
func TestACeilingKeepsThePlan(t *testing.T) {
	server, editor, admin := serveTokens(t)
	apply := func(token, name, spec string) (int, string) {
		kind, id, _ := strings.Cut(name, "/")
		status, _, errs := titrate(t, server, fmt.Sprintf("apiVersion: titrate.dev/v1alpha1\nkind: %s\nname: %ss/%s\n"+
			"spec: {%s}\n", kind, strings.ToLower(kind), id, spec), "apply", "-f", "-", "--token-file", token)
		return status, errs
	}
	for _, one := range [][2]string{{"Plan/gold", "weight: 9"}, {"Tenant/acme", "plan: gold"}} {
		if status, errs := apply(admin, one[0], one[1]); status != command.ExitOK {
			t.Fatal(errs)
		}
	}
	own := func(spec string) (int, string) { return apply(editor, "Tenant/acme", spec) }
	if status, errs := own("weight: 1"); status == command.ExitOK || !strings.Contains(errs, "without plan gold") {
		t.Errorf("off the plan: %d %s", status, errs)
	}
	if status, errs := own("plan: gold, displayName: Acme, weight: 3"); status != command.ExitOK {
		t.Errorf("another name and weight: %d %s", status, errs)
	}
	if status, errs := own("plan: gold, weight: 6"); status == command.ExitOK || !strings.Contains(errs, "above 5") {
		t.Errorf("a weight above the ceiling: %d %s", status, errs)
	}
}

// A token that the coordinator does not know: which file, which coordinator, and what would be right. The
// token itself is not written out.
func TestAWrongToken(t *testing.T) {
	server, _, _ := serveTokens(t)
	wrong := filepath.Join(t.TempDir(), "wrong.token")
	if err := os.WriteFile(wrong, []byte("of-nobody"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"get"}, {"why", "acme"}, {"top", "--once"}, {"plan", "-f", "testdata/demo.yaml"},
		{"apply", "-f", "testdata/demo.yaml"}, {"history"}, {"check"}, {"auth", "can-i", "get"},
		{"rollback", "1", "--yes"}} {
		args = append(args, "--token-file", wrong)
		status, out, errs := titrate(t, server, "", args...)
		if status != command.ExitFailed || out != "" || !strings.Contains(errs, "--token-file "+wrong+" is refused") ||
			!strings.Contains(errs, server) || !strings.Contains(errs, "in its --tokens") ||
			strings.Contains(errs, "of-nobody") {
			t.Errorf("%v: status %d, %q, %q", args, status, out, errs)
		}
	}
}

func TestCanI(t *testing.T) {
	server, editor, admin := serveTokens(t)
	no := func(token, reason string, args ...string) {
		t.Helper()
		status, out, errs := titrate(t, server, "", append([]string{"auth", "can-i", "--token-file", token},
			args...)...)
		if status != command.ExitFailed || errs != "" || !strings.HasPrefix(out, "no: ") || !strings.Contains(out,
			reason) {
			t.Errorf("can-i %v: status %d, %q, %q", args, status, out, errs)
		}
	}
	no(editor, "roles of its token", "apply", "tenants/bolt")
	no(editor, "roles of its token", "rollback")
	no(editor, "neither weight nor quotas", "delete", "tenants/acme")
	for _, args := range [][]string{{"apply", "tenants/acme/limits/l"}, {"get"}, {"why", "tenants/bolt"},
		{"delete", "tenants/acme/limits/l"}} {
		args = append([]string{"auth", "can-i", "--token-file", editor}, args...)
		if out := must(t, server, "", args...); out != "yes\n" {
			t.Errorf("%v: %q", args, out)
		}
	}
	t.Setenv(tokenEnv, admin)
	if out := must(t, server, "", "auth", "can-i", "delete", "pools/api"); out != "yes\n" {
		t.Errorf("the token of %s: %q", tokenEnv, out)
	}
	list := must(t, server, "", "auth", "can-i", "--list", "--token-file", editor)
	for _, want := range []string{"token:ci, known by a token that ends 2100-01-01T00:00:00Z\n", "editor",
		"apply, create, update, delete", "tenants/acme, with quotas and limits, at most rate 100/s, weight 5, max 50"} {
		if !strings.Contains(list, want) {
			t.Errorf("--list has no %q:\n%s", want, list)
		}
	}
	out := must(t, server, "", "auth", "can-i", "--list", "-o", "json")
	if !strings.Contains(out, `"caller": "token:ops"`) {
		t.Errorf("%s", out)
	}
	open := must(t, serveAPI(t), "", "auth", "can-i", "--list")
	if !strings.Contains(open, "any client that can connect may do everything") {
		t.Errorf("without credentials: %s", open)
	}
	fails(t, server, command.ExitUsage, "", []string{"want VERB"}, "auth", "can-i")
	fails(t, server, command.ExitUsage, "", []string{"--list takes no VERB"}, "auth", "can-i", "get", "--list")
	fails(t, server, command.ExitFailed, "", []string{`verb "eat": want apply`}, "auth", "can-i", "eat")
}

// A token decides what its owner may do, names the author of a change, and is not sent where
// others could read it.
func TestTokenFile(t *testing.T) {
	server, editor, admin := serveTokens(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml", "--token-file", admin)
	const limit = head + "kind: Limit\nname: tenants/%s/limits/mine\nspec: {rate: 7/s}\n"
	must(t, server, fmt.Sprintf(limit, "acme"), "apply", "-f", "-", "--token-file", editor)
	fails(t, server, command.ExitFailed, fmt.Sprintf(limit, "bolt"),
		[]string{"token:ci may not call Apply on tenants/bolt/limits/",
			"roles of its token", "it may change tenants/acme with quotas and limits, and read everything"},
		"apply", "-f", "-", "--token-file", editor)
	out := must(t, server, "", "history", "--token-file", editor)
	if !strings.Contains(out, "token:ci") || !strings.Contains(out, "token:ops") {
		t.Errorf("history:\n%s", out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("nobodys"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, server, command.ExitFailed, "", []string{"none of the coordinator's --tokens"}, "get", "--token-file",
		wrong)
	fails(t, server, command.ExitFailed, "", []string{"no credentials", "--token-file"}, "get")
	fails(t, "192.0.2.1:7400", command.ExitUsage, "", []string{"not sent to 192.0.2.1:7400 without TLS", "--tls-ca"},
		"get",
		"--insecure", "--token-file", editor)
	if err := os.WriteFile(wrong, []byte("two words"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, server, command.ExitUsage, "", []string{"2 words", wrong}, "get", "--token-file", wrong)
	fails(t, server, command.ExitUsage, "", []string{"--token-file", "no such file"}, "get", "--token-file", wrong+"x")
}

// What an editor gives is held to its ceiling, by plan, too; what an administrator gave may
// be written again, and an administrator has no ceiling.
func TestCeiling(t *testing.T) {
	server, editor, admin := serveTokens(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml", "--token-file", admin)
	limit := func(rate string) string {
		return head + "kind: Limit\nname: tenants/acme/limits/mine\nspec: {rate: " + rate + "}\n"
	}
	const quota, tenant = head + "kind: Quota\nname: tenants/acme/quotas/batch\nspec: {%s}\n",
		head + "kind: Tenant\nname: tenants/acme\nspec: {weight: %d}\n"
	apply := []string{"apply", "-f", "-", "--token-file", editor}
	no := func(document string, reason string, args ...string) {
		t.Helper()
		fails(t, server, command.ExitFailed, document,
			[]string{"the ceiling of token:ci is rate 100/s, weight 5, max 50", reason},
			args...)
	}
	no(limit("101/s"), "rate 101/s is above 100/s", apply...)
	no(limit("101/s"), "rate 101/s is above 100/s", "plan", "-f", "-", "--token-file", editor)
	no(fmt.Sprintf(quota, "max: 51"), "max 51 is above 50", apply...)
	no(fmt.Sprintf(quota, "guaranteed: 1"), "without max it is unbounded", apply...)
	no(fmt.Sprintf(tenant, 6), "weight 6 is above 5", apply...)
	no("", "neither weight nor quotas", "delete", "tenants/acme", "--token-file", editor)
	for _, fits := range []string{limit("6000/min"), fmt.Sprintf(quota, "max: 50"), fmt.Sprintf(tenant, 5)} {
		must(t, server, fits, apply...)
	}
	no("", "there would be no max", "delete", "tenants/acme/quotas/batch", "--token-file", editor)
	must(t, server, limit("500/s"), "apply", "-f", "-", "--token-file", admin)
	if out := must(t, server, limit("500/s"), apply...); !strings.Contains(out, "unchanged") {
		t.Errorf("what is stored already: %s", out)
	}
	must(t, server, "", "delete", "tenants/acme/limits/mine", "--token-file", editor)
}
