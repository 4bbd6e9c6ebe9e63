package cli

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// What does not exist, and a number out of its range, are errors. Each of these commands exited with 0, or ran with
// another number.
func TestWhatDoesNotExistIsRefused(t *testing.T) {
	load := func(args ...string) []string { return append([]string{"load", "--tenant", "acme=5"}, args...) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"help", "nosuch"}, `unknown command "nosuch"`},
		{[]string{"help", "aplly"}, "did you mean apply?"},
		{[]string{"help", "history", "shwo"}, `unknown command "shwo" of titrate history; did you mean show?`},
		{[]string{"completion", "nosuch"}, `unknown command "nosuch"`},
		{[]string{"lab", "nosuch"}, `unknown command "nosuch"`},
		{load("--gateways", "nosuch"), `--gateways "nosuch": want a URL such as http://127.0.0.1:8001`},
		{load("--gateways", "ftp://127.0.0.1"), "want a URL"},
		{load("--gateways", "http://127.0.0.1:1", "--duration", "-1s"), "--duration -1s: want a time above 0, or 0"},
		{[]string{"dev", "--gateways", "0"}, "0 gateways: must be 1 to 9"},
		{[]string{"dev", "--duration", "0"}, "--duration 0s: must be at least 24s"},
		{[]string{"dev", "--duration", "-1s", "--no-load"}, "--duration -1s: must be at least 24s"},
	} {
		status, out, errs := runTitrate(t, c.args...)
		if status != command.ExitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("titrate %v: status %d, %.80q, %s; want %s", c.args, status, out, errs, c.want)
		}
	}
	for want, args := range map[string][]string{"Available Commands:\n  show": {"help", "history"},
		"Usage:\n  titrate completion": {"completion"}, "titrate lab list": {"help", "lab"}, "titrate dev": {"help"}} {
		if status, out, errs := runTitrate(t, args...); status != command.ExitOK || !strings.Contains(out, want) {
			t.Errorf("titrate %v: status %d, %s%s; want %s", args, status, out, errs, want)
		}
	}
}

// A set that owns nothing is an error, as a name that does not exist.
func TestExportOfNoSet(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	fails(t, server, command.ExitFailed, "", []string{`no resource belongs to set "prod", or to any set`}, "export", "--set", "prod")
	must(t, server, "", "apply", "-f", "testdata/demo.yaml", "--set", "prod")
	fails(t, server, command.ExitFailed, "", []string{`no resource belongs to set "prd"; did you mean prod?`}, "export", "--set",
		"prd", "-o", "json")
	if out := must(t, server, "", "export", "--set", "prod"); !strings.Contains(out, "pools/") {
		t.Errorf("a set: %s", out)
	}
}
