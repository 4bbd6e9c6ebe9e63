package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const top = "../../.."

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
	c := readComments(`// What the limiter
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
	for name, want := range map[string]string{"Mode": "What the limiter does.", "Mode.SHADOW": "never acts",
		"Queue.delay_target": "How long. At most maxWait. Default 50ms. Unit: seconds.", "Queue.weight": "",
		"Queue.gte": ""} {
		if c[name] != want {
			t.Errorf("comment of %s: %q, want %q", name, c[name], want)
		}
	}
}
