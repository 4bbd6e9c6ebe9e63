package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/titrate/titrate/services/command"
)

// writeFiles writes files below a directory, and returns it.
func writeFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Files that are not read are named, and --prune is refused if one of them may hold documents.
func TestADirectoryNamesWhatIsNotRead(t *testing.T) {
	const tenant = head + "kind: Tenant\nname: tenants/"
	for name, c := range map[string]struct {
		files    map[string]string
		leftOut  []string // named
		unpruned []string // of them, for which --prune is refused
	}{
		"nothing": {files: map[string]string{}},
		"hidden": {files: map[string]string{".pools.yaml.swp": tenant + "b\n",
			".git/config.yaml": tenant + "b\n"}},
		"prose":         {files: map[string]string{"README.md": tenant + "b\n"}, leftOut: []string{"README.md"}},
		"no document":   {files: map[string]string{"Makefile": "all:\n"}, leftOut: []string{"Makefile"}},
		"of Kubernetes": {files: map[string]string{"chart/values.yaml": "a: 1\n"}},
		"another ending": {map[string]string{"b.yaml.bak": tenant + "b\n"}, []string{"b.yaml.bak"},
			[]string{"b.yaml.bak"}},
		"upper case": {map[string]string{"B.YAML": tenant + "b\n"}, []string{"B.YAML"}, []string{"B.YAML"}},
		"broken":     {map[string]string{"b": tenant + "b\n\t:\n"}, []string{"b"}, []string{"b"}},
		"deeper":     {map[string]string{"x/y/b.yaml": tenant + "b\n"}, []string{"x/"}, []string{"x/"}},
		"many": {map[string]string{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": tenant},
			[]string{"1", "5 and 2 more"}, []string{"7"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["a.yaml"] = tenant + "a\n"
			dir, server := writeFiles(t, c.files), serveAPI(t)
			status, out, errs := titrate(t, server, "", "apply", "-f", dir, "--set", "s")
			if status != command.ExitOK || out != "tenants/a created\n" || (errs == "") != (len(c.leftOut) == 0) {
				t.Errorf("apply: %d %s%s", status, out, errs)
			}
			for _, name := range c.leftOut {
				if !strings.Contains(errs, dir+"/"+name) {
					t.Errorf("not named: %s in %s", name, errs)
				}
			}
			for _, verb := range []string{"apply", "plan"} {
				status, _, errs = titrate(t, server, "", verb, "-f", dir, "--set", "s", "--prune")
				if refused := strings.Contains(errs, "--prune deletes"); refused != (len(c.unpruned) > 0) ||
					(status == command.ExitOK) == refused {
					t.Errorf("%s --prune: %d %s", verb, status, errs)
				}
				for _, name := range c.unpruned {
					if !strings.Contains(errs, "may hold documents that are not read: "+dir+"/"+name+"; give") {
						t.Errorf("%s --prune does not name %s: %s", verb, name, errs)
					}
				}
			}
		})
	}
}

// A file that is given with -f is read, also if its directory is given too.
func TestAFileBesideItsDirectoryIsRead(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.yaml": head + "kind: Tenant\nname: tenants/a\n",
		"b.bak": head + "kind: Tenant\nname: tenants/b\n", "x/c.yaml": head + "kind: Tenant\nname: tenants/c\n"})
	out := must(t, serveAPI(t), "", "apply", "-f", dir, "-f", dir+"/b.bak", "-f", dir+"/x/", "--set", "s", "--prune")
	if out != "tenants/a created\ntenants/b created\ntenants/c created\n" {
		t.Error(out)
	}
}

// A directory without a file to read names the files that it has.
func TestADirectoryOfOtherFiles(t *testing.T) {
	dir := writeFiles(t, map[string]string{"pools": head + "kind: Pool\n"})
	fails(t, "127.0.0.1:1", command.ExitFailed, "",
		[]string{"no .yaml, .yml or .json file in the directory; not read: " + dir +
			"/pools"}, "apply", "-f", dir)
}
