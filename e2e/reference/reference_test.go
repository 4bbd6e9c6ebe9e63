package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/titrate/titrate/services/cli"
)

const top = "../.."

// The documents say what the API and the commands say.
func TestUpToDate(t *testing.T) {
	docs := t.TempDir()
	before := map[string]string{}
	for _, name := range []string{"configuration.md", "cli.md"} {
		text, err := os.ReadFile(filepath.Join(top, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = string(text)
		if err := os.WriteFile(filepath.Join(docs, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(top, docs); err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		after, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil || string(after) != text {
			t.Errorf("docs/%s is not what the code says: `make generate` and commit (%v)", name, err)
		}
	}
}

// The values of an enum are in one table, also if a field of the status has them.
func TestEachEnumOnce(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(top, resourcesProto))
	if err != nil {
		t.Fatal(err)
	}
	said, err := readComments(resourcesProto, string(source))
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources(said)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text, "\n`Precision`: "); n != 1 {
		t.Errorf("%d tables of Precision", n)
	}
}

// Packages have a manual page for each command that the help names, and completions.
func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	if err := install(cli.Root(), dir); err != nil {
		t.Fatal(err)
	}
	files := []string{"titrate.bash", "titrate.zsh", "titrate.fish", "man/titrate.1"}
	for _, c := range cli.Root().Commands() {
		if c.IsAvailableCommand() {
			files = append(files, "man/titrate-"+c.Name()+".1")
		}
	}
	for _, file := range files {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The examples show every field.
func TestExamplesHaveEveryField(t *testing.T) {
	missing, err := everyField()
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		t.Errorf("%s does not show %s", fileName, strings.Join(missing, ", "))
	}
}

func TestReadComments(t *testing.T) {
	c, err := readComments("test.proto", `syntax = "proto3";

import "buf/validate/validate.proto";
import "google/protobuf/duration.proto";

// What the limiter
// does.
enum Mode {
  MODE_UNSPECIFIED = 0; // ENFORCE
  SHADOW = 2; // never acts
}

message Queue {
  // How long. At most maxWait.
  // Default 50ms. Unit: seconds.
  google.protobuf.Duration delay_target = 2 [(buf.validate.field).duration = {
    gte: {nanos: 1000000}
  }];
  optional double weight = 4;
}
`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[protoreflect.FullName]string{"Mode": "What the limiter does.", "SHADOW": "never acts",
		"Queue.delay_target": "How long. At most maxWait. Default 50ms. Unit: seconds.", "Queue.weight": "",
		"Queue.gte": ""} {
		if got := c.of(name); got != want {
			t.Errorf("comment of %s: %q, want %q", name, got, want)
		}
	}
}

// A field's example is what the document writes for it, in its own spelling.
func TestExampleOfAField(t *testing.T) {
	e, err := readExample("kind: Limit\nname: tenants/acme/limits/a\nspec:\n  rate: 600/min\n  pools: [api, web]\n" +
		"  queue: {maxWait: 500ms}\n  overrides:\n    - {client: mallory, rate: 0}\n    - {client: job, burst: 300}\n")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"name": "`tenants/acme/limits/a`", "rate": "`600/min`",
		"pools": "`[api, web]`", "queue": "as its fields", "queue.maxWait": "`500ms`",
		"overrides": "as its fields", "overrides[].client": "`mallory`", "overrides[].rate": "`0`", "overrides[].burst": "`300`"} {
		if got, err := e.of(path); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"mode", "queue.aqm", "overrides[].aqm", "rate.per", "kind"} {
		if got, err := e.of(path); err == nil {
			t.Errorf("%s, which is not in the document, is %q", path, got)
		}
	}
}
