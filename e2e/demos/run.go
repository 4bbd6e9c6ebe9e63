package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/titrate/titrate/lab/dev/verdict"
)

// The verdicts.
const (
	passed = "PASS"
	failed = "FAIL"
	void   = "VOID"
)

// result of a run.
type result struct {
	seed          uint64
	before, after string // load average of the last minute
	late, path    float64
	word          string
	why           []string // it did not pass
}

// overhead bounds the time that a run takes to start and to end all processes.
const overhead = 2 * time.Minute

// one does a run.
func (o *options) one(ctx context.Context, run int, dir string) *result {
	r := &result{seed: o.seed, before: load(), word: failed}
	if o.vary {
		r.seed += uint64(run)
	}
	file, trace, log := o.files(dir, run)
	r.judge(o.dev(ctx, r.seed, file, trace, log), file)
	if r.after = load(); r.word == passed {
		files, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("run-%d.*", run+1)))
		for _, f := range files {
			_ = os.Remove(f)
		}
	}
	return r
}

// dev runs titrate-lab dev.
func (o *options) dev(parent context.Context, seed uint64, file, trace, log string) error {
	ctx, cancel := context.WithTimeout(parent, o.duration+overhead)
	defer cancel()
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, o.lab, "dev", "--module", o.module, "--duration", o.duration.String(),
		"--seed", fmt.Sprint(seed), "--json", file, "--trace", trace)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd.Run()
}

// judge reads the verdict that a run has left; ended is how its process ended.
func (r *result) judge(ended error, file string) {
	var v verdict.Verdict
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		r.why = []string{fmt.Sprintf("no verdict: %v", ended)}
		return
	}
	r.late, r.path = v.Load.LateP99Ms, v.Load.PathP99Ms
	switch {
	case v.Void:
		r.word, r.why = void, v.VoidReasons
	case v.Pass && ended == nil:
		r.word = passed
	case v.Pass:
		r.why = []string{fmt.Sprintf("every bound was kept, but %v", ended)}
	}
	for _, c := range v.Checks {
		if !c.Pass {
			r.why = append(r.why, broken(&c))
		}
	}
}

// broken describes the bound that a check has broken.
func broken(c *verdict.Check) string {
	relation := ">"
	if c.AtLeast {
		relation = "<"
	}
	what := strings.Fields(c.Phase + " " + c.Name + " " + c.Subject)
	return fmt.Sprintf("%s: %.4g %s %.4g", strings.Join(what, " "), c.Value, relation, c.Bound)
}

// load is the load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
