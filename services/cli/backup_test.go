package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// A backup brings back what was configured, whatever has become of it since.
func TestBackup(t *testing.T) {
	server, dir := serveAPI(t), t.TempDir()
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	if said := must(t, server, "", "backup", "--dir", dir); !strings.Contains(said, ": 7 resources\n") {
		t.Errorf("%q", said)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 {
		t.Fatalf("%v", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(text), "etag") || strings.Contains(string(text), "status") {
		t.Errorf("the backup has what apply compares or what was only so at the time: %v\n%s", err, text)
	}
	const other = "{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/api, spec: {capacity: 5}}"
	must(t, server, other, "apply", "-f", "-")
	if said := must(t, server, "", "apply", "-f", files[0]); strings.Count(said, " updated\n") != 1 ||
		strings.Count(said, " unchanged\n") != 6 {
		t.Errorf("%s", said)
	}
}

// The newest few stay, and files that are no backups.
func TestOldBackupsAreDeleted(t *testing.T) {
	server, dir := serveAPI(t), t.TempDir()
	must(t, server, "", "apply", "-f", "testdata/demo.yaml")
	for _, name := range []string{"titrate-20200101T000000Z.yaml", "titrate-20210101T000000Z.yaml", "notes.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must(t, server, "", "backup", "--dir", dir, "--keep", "2")
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 3 || filepath.Base(files[0]) != "notes.yaml" ||
		filepath.Base(files[1]) != "titrate-20210101T000000Z.yaml" {
		t.Errorf("%v", files)
	}
}

// Nothing is written of nothing, or it would displace what is worth keeping.
func TestNoBackupOfNothing(t *testing.T) {
	server, dir := serveAPI(t), t.TempDir()
	status, out, errs := titrate(t, server, "", "backup", "--dir", dir)
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); status != command.ExitOK || out != "" || len(files) != 0 ||
		!strings.Contains(errs, "no backup") {
		t.Errorf("status %d, %q, %q, %v", status, out, errs, files)
	}
	fails(t, server, command.ExitUsage, "", []string{"--keep 0"}, "backup", "--dir", dir, "--keep", "0")
}
