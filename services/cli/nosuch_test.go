package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

func runTitrate(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = Run(t.Context(), args, strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

// A command or topic that does not exist is an error. A command of titrate-lab is named as such.
func TestWhatDoesNotExistIsRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"help", "nosuch"}, `unknown command "nosuch"`},
		{[]string{"help", "aplly"}, "did you mean apply?"},
		{[]string{"help", "history", "shwo"}, `unknown command "shwo" of titrate history; did you mean show?`},
		{[]string{"completion", "nosuch"}, `unknown command "nosuch"`},
		{[]string{"dev", "--no-load"}, `"dev" is a command of another program: titrate-lab dev`},
		{[]string{"simulate", "grid"}, `"simulate" is a command of another program: titrate-lab simulate`},
	} {
		status, out, errs := runTitrate(t, c.args...)
		if status != command.ExitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("titrate %v: status %d, %.80q, %s; want %s", c.args, status, out, errs, c.want)
		}
	}
	for want, args := range map[string][]string{"Available Commands:\n  show": {"help", "history"},
		"Usage:\n  titrate completion": {"completion"}, "titrate-lab": {"help"}} {
		if status, out, errs := runTitrate(t, args...); status != command.ExitOK || !strings.Contains(out, want) {
			t.Errorf("titrate %v: status %d, %s%s; want %s", args, status, out, errs, want)
		}
	}
}

// A set that owns nothing is an error, as a name that does not exist.
func TestExportOfNoSet(t *testing.T) {
	server := serveAPI(t)
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	fails(t, server, command.ExitFailed, "", []string{`no resource belongs to set "prod", or to any set`}, "export",
		"--set", "prod")
	must(t, server, "", "apply", "-f", "testdata/demo.yaml", "--set", "prod")
	fails(t, server, command.ExitFailed, "", []string{`no resource belongs to set "prd"; did you mean prod?`}, "export", "--set",
		"prd", "-o", "json")
	if out := must(t, server, "", "export", "--set", "prod"); !strings.Contains(out, "pools/") {
		t.Errorf("a set: %s", out)
	}
}
