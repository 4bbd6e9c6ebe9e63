package rls

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	api "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/e2e/ratelimit"
	"github.com/titrate/titrate/services/cli"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/rls"
	"github.com/titrate/titrate/services/rls/ratelimitconfig"
)

// module is the directory in which the pinned module of ratelimit is built.
const module = "../../tools/ratelimit"

// inModule runs go in the module that depends on ratelimit, or in RATELIMIT_SOURCE, a working copy of
// ratelimit.
func inModule(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = module
	if dir := os.Getenv("RATELIMIT_SOURCE"); dir != "" {
		cmd.Dir = dir
	}
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, errs.String())
	}
	return out
}

// source is the directory of ratelimit's module.
func source(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("RATELIMIT_SOURCE"); dir != "" {
		return dir
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(inModule(t, "mod", "download", "-json", "github.com/envoyproxy/ratelimit"), &found); err != nil {
		t.Fatal(err)
	}
	return found.Dir
}

// theirFiles are the YAML files of ratelimit's tests and examples.
func theirFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, dir := range []string{"test/config", "examples"} {
		err := filepath.WalkDir(filepath.Join(source(t), dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".yaml") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 20 {
		t.Fatalf("only %d files: %v", len(files), files)
	}
	return files
}

// checker is ratelimit's own check of a directory of files.
func checker(t *testing.T) func(files ...string) error {
	t.Helper()
	program := filepath.Join(t.TempDir(), "check")
	inModule(t, "build", "-o", program, "github.com/envoyproxy/ratelimit/src/config_check_cmd")
	return func(files ...string) error {
		dir := t.TempDir()
		for i, text := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".yaml")), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), program, "-config_dir", dir, "-merge_domain_configs").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %.500s", err, out)
		}
		return nil
	}
}

// Files of ratelimit's own tests and examples that ratelimit accepts are accepted here, and files that it
// refuses are refused. Import makes documents of accepted files, and reports the mistakes of refused ones.
func TestTheReferencesOwnFiles(t *testing.T) {
	check, accepted := checker(t), 0
	for _, path := range theirFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		there := check(string(text))
		c, here := ratelimitconfig.ReadFiles([]string{path}, ratelimitconfig.Options{})
		if (there == nil) != (here == nil) {
			t.Errorf("%s: %v there, %v here", path, there, here)
			continue
		}
		var out, errs bytes.Buffer
		status := cli.Run(t.Context(), []string{"import", "ratelimit", path}, strings.NewReader(""), &out, &errs)
		if here != nil || len(c.Limits()) == 0 {
			if status == 0 || out.Len() > 0 || errs.Len() == 0 {
				t.Errorf("import %s: status %d, %s%s", path, status, out.String(), errs.String())
			}
			continue
		}
		accepted++
		documents, err := document.Parse("out", out.Bytes())
		if want := fmt.Sprintf("%d limits", len(c.Limits())); status != 0 || err != nil || len(documents) == 0 ||
			!strings.Contains(errs.String(), want) && len(c.Limits()) > 1 {
			t.Errorf("import %s: status %d, %v, without %q:\n%s", path, status, err, want, errs.String())
		}
	}
	if accepted < 8 {
		t.Errorf("only %d files are configurations", accepted)
	}
}

// odd are files that are spelled in unusual ways. same: both accept them. Files that only ratelimit accepts are
// refused here, because it reads them in another way than YAML defines, or ignores parts.
var odd = []struct {
	limit string
	same  bool
}{
	{"{unit: day, requests_per_unit: 10_000}", true}, {"{unit: day, requests_per_unit: 0x10}", true},
	{"{unit: day, requests_per_unit: 010}", true}, {"{unit: day, requests_per_unit: 0o10}", true},
	{"{unit: day, requests_per_unit: 0b11}", true}, {"{unit: day, requests_per_unit: +5}", true},
	{"{unit: day, requests_per_unit: 08}", true}, {"{unit: day, requests_per_unit: 5.0}", true},
	{`{unit: day, requests_per_unit: "5"}`, true}, {"{unit: day, requests_per_unit: -1}", true},
	{"{unit: day, requests_per_unit: ~}", true}, {"{unit: day}", true}, {"{unit: Day, requests_per_unit: 1}", true},
	{"{unlimited: On}", true}, {"{unlimited: yEs}", true}, {"{unlimited: 1}", true}, {"{unlimited: y, unit: ''}", true},
	{"{<<: *five, requests_per_unit: 6}", true}, {"*five", true}, {"{<<: [*five, *seven]}", true},
	{"{unit: day, <<: {requests_per_unit: 3}}", true}, {"{<<: 5}", true}, {"*none", true},
	{"{requests_per_unit: 6, <<: *five}", false}, {"{unit: day, unit: hour}", false}, {"{unit: day, shadow_mode: yes}", false},
}

const anchored = `
domain: odd
descriptors:
  - {key: five, rate_limit: &five {unit: minute, requests_per_unit: 5}}
  - {key: seven, rate_limit: &seven {unit: hour, requests_per_unit: 7}}
`

// Files that are spelled in unusual ways are accepted or refused as in ratelimit, and have the same meaning.
func TestUnusualSpellings(t *testing.T) {
	check := checker(t)
	all := anchored
	for i, c := range odd {
		text := fmt.Sprintf("  - {key: k%d, rate_limit: %s}\n", i, c.limit)
		there, here := check(anchored+text), new(ratelimitconfig.Config).Add("f", strings.NewReader(anchored+text),
			ratelimitconfig.Options{})
		if (there == nil) != (here == nil) && c.same || here == nil && there != nil {
			t.Errorf("%s: %v there, %v here", c.limit, there, here)
		}
		if there == nil && here == nil {
			all += text
		}
	}
	program := binary(t, "RATELIMIT_BIN", "run tools/sh/ratelimit.sh FILE and set it to FILE")
	files := map[string]string{"odd.yaml": all}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	theirs, err := ratelimit.Start(ctx, group(t).Start, ratelimit.Options{Binary: program, Dir: t.TempDir(), Files: files})
	if err != nil {
		t.Fatal(err)
	}
	address, _ := ours(t, files, rls.Options{})
	a, b := client(t, fmt.Sprintf("127.0.0.1:%d", theirs.Port)), client(t, address)
	for i, c := range odd {
		q := &api.RateLimitRequest{Domain: "odd", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: fmt.Sprint("k", i), Value: "x"}}}}}
		want, errA := a.ShouldRateLimit(ctx, q)
		got, errB := b.ShouldRateLimit(ctx, q)
		if errA != nil || errB != nil || want.GetOverallCode() != got.GetOverallCode() ||
			!proto.Equal(want.GetStatuses()[0].GetCurrentLimit(), got.GetStatuses()[0].GetCurrentLimit()) {
			t.Errorf("%s: %v %v there, %v %v here", c.limit, want, errA, got, errB)
		}
	}
}
