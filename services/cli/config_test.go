package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// fresh makes a file for contexts that is not there yet, and clears the environment.
func fresh(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "deep", "config.yaml")
	for name, value := range map[string]string{contextsEnv: path, contextEnv: "", tokenEnv: ""} {
		t.Setenv(name, value)
	}
	return path
}

// From nothing: two contexts, a command in each, and none.
func TestContexts(t *testing.T) {
	path, one, two := fresh(t), serveAPI(t), serveAPI(t)
	must(t, one, head+"kind: Pool\nname: pools/one\nspec: {capacity: 1}\n", "apply", "-f", "-")
	must(t, two, head+"kind: Pool\nname: pools/two\nspec: {capacity: 1}\n", "apply", "-f", "-")
	if got := must(t, "", "", "config", "set", "first", "--server", one); got !=
		"context first created: "+one+", the current one\n" {
		t.Errorf("set: %q", got)
	}
	must(t, "", "", "config", "set", "second", "--server", two)
	pools := func(server, want string, args ...string) {
		t.Helper()
		if got := must(t, server, "", append([]string{"get", "pools"}, args...)...); !strings.Contains(got, want) {
			t.Errorf("get pools %v: want %s in\n%s", args, want, got)
		}
	}
	pools("", "pools/one")
	pools("", "pools/two", "--context", "second")
	pools("", "pools/two", "--server", two)
	pools(two, "pools/two")
	pools(two, "pools/one", "--context", "first")
	if got := must(t, "", "", "config", "use", "second"); got != "context second: "+two+"\n" {
		t.Errorf("use: %q", got)
	}
	pools("", "pools/two")
	t.Setenv(contextEnv, "first")
	pools("", "pools/one")
	fails(t, one, command.ExitUsage, "", []string{serverEnv, contextEnv, "unset one"}, "get")
	t.Setenv(contextEnv, "")
	if got := must(t, "", "", "config", "list"); !strings.Contains(got, "*        second") ||
		strings.Count(got, "*") != 1 {
		t.Errorf("list:\n%s", got)
	}
	must(t, "", "", "config", "delete", "second")
	if got := must(t, "", "", "config", "show"); !strings.Contains(got, defaultServer+"  default") {
		t.Errorf("show after the current one is gone:\n%s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v (%v)", info.Mode(), err)
	}
}

// Each setting is said by a flag, the environment or the context, in this order. Where a flag or
// the environment names the coordinator, nothing of a context counts, its token least of all.
func TestWhatSaysASetting(t *testing.T) {
	fresh(t)
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"ca", "token", "other"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "", "", "config", "set", "prod", "--server", "prod:1", "--tls-ca", "ca", "--token-file", "token")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		server, token string
		args          string
		want          [][3]string
	}{
		{"", "", "", [][3]string{{"server", "prod:1", "context prod"}, {"tls-ca", in("ca"), "context prod"},
			{"token-file", in("token"), "context prod"}}},
		{"", "env", "--tls-ca other", [][3]string{{"server", "prod:1", "context prod"}, {"tls-ca", "other", "--tls-ca"},
			{"token-file", "env", tokenEnv}}},
		{"", "env", "--token-file flag", [][3]string{{"server", "prod:1", "context prod"},
			{"tls-ca", in("ca"), "context prod"}, {"token-file", "flag", "--token-file"}}},
		{"", "", "--server x:1", [][3]string{{"server", "x:1", "--server"}}},
		{"e:1", "", "", [][3]string{{"server", "e:1", serverEnv}}},
		{"e:1", "", "--context prod --insecure", [][3]string{{"server", "prod:1", "context prod"},
			{"tls-ca", in("ca"), "context prod"}, {"token-file", in("token"), "context prod"},
			{"insecure", "true", "--insecure"}}},
	} {
		t.Setenv(tokenEnv, c.token)
		want := command.NewTable("SETTING", "VALUE", "SAID BY")
		for _, row := range c.want {
			want.Add(row[:]...)
		}
		got := must(t, c.server, "", append([]string{"config", "show"}, strings.Fields(c.args)...)...)
		if got != want.Text() {
			t.Errorf("%+v:\n%s", c, got)
		}
	}
}

// What is wrong is said, with what would be right, and changes nothing.
func TestContextsThatAreWrong(t *testing.T) {
	path := fresh(t)
	fails(t, "", command.ExitFailed, "", []string{`context "x"`, path, "titrate config set x"}, "config", "use", "x")
	fails(t, "", command.ExitUsage, "", []string{"is new", "--server"}, "config", "set", "x", "--tls-ca", path)
	must(t, "", "", "config", "set", "a", "--server", "127.0.0.1:1")
	before, _ := os.ReadFile(path)
	for _, c := range []struct {
		args   string
		status int
		words  []string
	}{
		{"get --context b", command.ExitUsage, []string{`"b" is none of those`, path, ": a"}},
		{"get --context a --server x:1", command.ExitUsage, []string{"--server and --context"}},
		{"config use b", command.ExitFailed, []string{`"b" is none of those`}},
		{"config use", command.ExitUsage, []string{"want one NAME"}},
		{"config delete b", command.ExitFailed, []string{`"b" is none of those`}},
		{"config set a/b --server x:1", command.ExitUsage, []string{`"a/b" is no name`}},
		{"config set b --server x", command.ExitUsage, []string{`server "x"`, "host:port"}},
		{"config set a --token-file gone", command.ExitUsage, []string{"--token-file", "gone", "no such file"}},
		{"config set a --tls-cert " + path, command.ExitUsage, []string{"tls-cert and tls-key belong together"}},
		{"config set a --insecure --tls-ca " + path, command.ExitUsage, []string{"insecure contradicts"}},
		{"get", command.ExitFailed, []string{"127.0.0.1:1 (context a)", "connection refused"}},
	} {
		fails(t, "", c.status, "", c.words, strings.Fields(c.args)...)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Errorf("the file was changed:\n%s", after)
	}
	for text, words := range map[string][]string{
		"contexts: {a: {server: x:1, tls_ca: f}}": {path, "line 1", "tls_ca"},
		"contexts: {a: {server: x}}":              {path, "contexts.a", "host:port"},
		"contexts: {a: }":                         {path, "contexts.a", "host:port"},
		"current: gone":                           {`context "gone"`, path},
		"contexts: [":                             {path},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, "", command.ExitUsage, "", words, "get")
	}
	t.Setenv(contextsEnv, "")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "") // as in a container
	if got := must(t, "", "", "config", "show"); !strings.Contains(got, "default") {
		t.Errorf("without a home:\n%s", got)
	}
	fails(t, "", command.ExitFailed, "", []string{contextsEnv}, "config", "list")
}

// A user whose HOME is no directory, as many of services are, has no contexts.
func TestContextsWithoutAHome(t *testing.T) {
	t.Setenv(contextsEnv, "")
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "/dev/null")
	if c, err := readContexts(); err != nil || len(c.Contexts) > 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
