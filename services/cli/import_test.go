package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
)

func runImport(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Run(t.Context(), append([]string{"import", "ratelimit"}, args...), strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// What import writes is what apply reads.
func TestImportRatelimit(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shop.yaml")
	const text = `domain: shop
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 600}}
  - {key: path, value: /search, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 5}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("domain: none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{file}, {dir}, {dir, "-o", "json"}, {file, "--pool", "api", "--capacity", "300"}} {
		status, out, errs := runImport(t, args...)
		documents, err := document.Parse("out", []byte(out))
		if status != command.ExitOK || err != nil || len(documents) < 3 {
			t.Errorf("%v: %d, %s%v, %d documents of\n%s", args, status, errs, err, len(documents), out)
		}
		for _, want := range []string{"identity user", "class path-search", "changed: ",
			"shop.yaml:4: shop.path_/search has quota_mode",
			"2 limits read: 1 changed in meaning, 0 left out"} {
			if !strings.Contains(errs, want) {
				t.Errorf("%v: not told: %s, in\n%s", args, want, errs)
			}
		}
	}
	again := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(again, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{file, "--pool", "A b", "--capacity", "3"}, `--pool: "pools/A b": "A b" is not an ID`, command.ExitUsage},
		{[]string{file, "--pool", "", "--capacity", "3"}, `--pool: "pools/": "" is not an ID`, command.ExitUsage},
		{[]string{file, "--pool", "x", "--capacity", "-3"}, "--capacity -3: must be greater than 0", command.ExitUsage},
		{[]string{file, "--pool", "x", "--capacity", "0"}, "--capacity 0: must be greater than 0", command.ExitUsage},
		{[]string{file, "--pool", "x", "--capacity", "nan"}, "--capacity NaN: must be finite", command.ExitUsage},
		{[]string{file, "--capacity", "3"}, "belong together", command.ExitUsage},
		{[]string{"testdata/demo.yaml"}, "this is a document of Titrate (Quota), which needs no import: titrate apply -f " +
			"testdata/demo.yaml", command.ExitFailed},
		{[]string{file, again}, `"shop" has a file already, ` + file + ": put its descriptors there, or let several files " +
			"have one domain by --merge-domains", command.ExitFailed},
		{nil, "which files?", command.ExitUsage},
		{[]string{file, "--pool", "api"}, "--capacity belong together", command.ExitUsage},
		{[]string{file, "--strict"}, "not all limits mean the same", command.ExitFailed},
		{[]string{file, file}, `"shop" has a file already`, command.ExitFailed},
		{[]string{file, "-o", "table"}, "yaml or json", command.ExitUsage},
		{[]string{filepath.Join(dir, "absent")}, "no such file", command.ExitFailed},
		{[]string{t.TempDir()}, "has no file, so there is no limit", command.ExitFailed},
		{[]string{none}, "has no limit", command.ExitFailed},
	} {
		if status, out, errs := runImport(t, c.args...); status != c.code || out != "" || !strings.Contains(errs,
			c.want) {
			t.Errorf("%v: %d, %q, %s; want %d and %s", c.args, status, out, errs, c.code, c.want)
		}
	}
}

// What a long name of a domain becomes is taken by apply, and so is all else that import writes.
func TestImportWritesWhatApplyTakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long.yaml")
	text := "domain: " + strings.Repeat("é", 300) + "\ndescriptors:\n  - {key: user, rate_limit: {unit: day, " +
		"requests_per_unit: 5}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := runImport(t, file)
	if _, err := document.Parse("out", []byte(out)); status != command.ExitOK || err != nil || out == "" {
		t.Errorf("status %d, %s: %v", status, errs, err)
	}
}
