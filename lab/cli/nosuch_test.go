package cli

import (
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// What does not exist, and a number out of its range, are errors.
func TestWhatDoesNotExistIsRefused(t *testing.T) {
	load := func(args ...string) []string { return append([]string{"load", "--tenant", "acme=5"}, args...) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"solve", "problem.yaml"}, `"problem.yaml" is too much here: a file is given as -f FILE`},
		{[]string{"lab", "nosuch"}, `unknown command "nosuch"`},
		{load("--gateways", "nosuch"), `--gateways "nosuch": want a URL such as http://127.0.0.1:8001`},
		{load("--gateways", "ftp://127.0.0.1"), "want a URL"},
		{load("--gateways", "http://127.0.0.1:1", "--duration", "-1s"), "--duration -1s: want a time above 0, or 0"},
		{[]string{"dev", "--gateways", "0"}, "0 gateways: must be 1 to 9"},
		{[]string{"dev", "--duration", "0"}, "--duration 0s: must be at least 24s"},
		{[]string{"dev", "--duration", "-1s", "--no-load"}, "--duration -1s: must be at least 24s"},
	} {
		status, out, errs := runLaboratory(t, c.args...)
		if status != command.ExitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("titrate-lab %v: status %d, %.80q, %s; want %s", c.args, status, out, errs, c.want)
		}
	}
	for want, args := range map[string][]string{"titrate-lab lab list": {"help", "lab"}, "titrate-lab dev": {"help"},
		"\n  load ": nil, "\n  etcd ": nil, "\n  upstream ": nil} { // what the tutorial needs
		if status, out, errs := runLaboratory(t, args...); status != command.ExitOK || !strings.Contains(out, want) {
			t.Errorf("titrate-lab %v: status %d, %s%s; want %s", args, status, out, errs, want)
		}
	}
}
