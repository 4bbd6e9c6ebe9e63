package repository

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const prefix = "github.com/titrate/titrate/"

// allowed lists the modules of ours that a module's packages may import. An entry that ends in / allows
// everything below it.
var allowed = map[string][]string{
	"control":      {"control/"},
	"proto/link":   {"control/config", "control/exchange"},
	"proto":        {"proto/", "control/config", "control/exchange"},
	"envoy-filter": {"envoy-filter/", "control/", "proto/link"},
	"papers":       {"papers/", "control/"},
	"services": {"services/", "control/", "proto/", "envoy-filter/enforcer", "envoy-filter/agentlink",
		"envoy-filter/alarm"},
	"lab": {"lab/", "papers/", "services/", "control/", "proto/", "envoy-filter/enforcer",
		"envoy-filter/agentlink"},
	"e2e": {"e2e/", "lab/", "services/", "papers/markdown", "papers/experiment", "control/", "proto/",
		"envoy-filter/enforcer", "envoy-filter/agentlink"},
}

// stdlibOnly are the modules that may import only the standard library and our own modules.
var stdlibOnly = []string{"control", "proto/link", "envoy-filter"}

type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// packages lists the packages below dir, with their imports.
func packages(t *testing.T, dir string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = filepath.Join(root(t), dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", dir, err)
	}
	var list []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

func TestImportLaw(t *testing.T) {
	for module, may := range allowed {
		for _, p := range packages(t, module) {
			path := strings.TrimPrefix(p.ImportPath, prefix)
			for _, imported := range p.Imports {
				ours, is := strings.CutPrefix(imported, prefix)
				if is && !permitted(ours, may) {
					t.Errorf("%s imports %s; %s may import only %v", path, ours, module, may)
				}
			}
		}
	}
}

// TestControlIsWhatShips: a package of control that neither the filter nor a service imports
// belongs into papers, or into nothing. (Packages named …test serve the tests of others.)
func TestControlIsWhatShips(t *testing.T) {
	imports := map[string][]string{}
	var todo []string
	for _, p := range packages(t, "control") {
		imports[p.ImportPath] = p.Imports
	}
	for _, module := range []string{"services", "envoy-filter", "proto/link"} {
		for _, p := range packages(t, module) {
			todo = append(todo, p.Imports...)
		}
	}
	reached := map[string]bool{}
	for len(todo) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !reached[path] {
			reached[path] = true
			todo = append(todo, imports[path]...)
		}
	}
	for path := range imports {
		name := strings.TrimPrefix(path, prefix)
		if !reached[path] && !strings.HasSuffix(name, "test") {
			t.Errorf("no binary reaches %s: what only reproduces a paper belongs into papers", name)
		}
	}
}

func TestStandardLibraryOnly(t *testing.T) {
	for _, module := range stdlibOnly {
		for _, p := range packages(t, module) {
			if strings.HasSuffix(p.ImportPath, "test") { // serves tests
				continue
			}
			for _, imported := range p.Imports {
				first, _, _ := strings.Cut(imported, "/")
				if strings.Contains(first, ".") && !strings.HasPrefix(imported, prefix) {
					t.Errorf("%s imports %s; %s is standard library only", p.ImportPath, imported, module)
				}
			}
		}
	}
}

func permitted(path string, may []string) bool {
	for _, m := range may {
		if path == strings.TrimSuffix(m, "/") || strings.HasSuffix(m, "/") && strings.HasPrefix(path, m) {
			return true
		}
	}
	return false
}

// wires are the parts of services and of the laboratory that are programs, and their permitted importers. The other
// parts, such as store and telemetry, may be imported by all.
var wires = map[string][]string{
	"services/agent":       {"services/cli", "lab/simulate"},
	"services/cli":         {"services/cmd"},
	"services/coordinator": {"services/cli", "lab/simulate", "lab/solve"},
	"services/operator":    {"services/cli"},
	"lab/cli":              {"lab/cmd"},
	"lab/dev":              {"lab/cli"},
	"lab/simulate":         {"lab/cli"},
	"lab/solve":            {"lab/cli"},
}

// part returns the first two folders of a path of ours: services/agent.
func part(path string) string {
	module, below, _ := strings.Cut(strings.TrimPrefix(path, prefix), "/")
	below, _, _ = strings.Cut(below, "/")
	return module + "/" + below
}

// TestServicesAreSiblings: only cli wires programs together; simulate and solve run parts of the programs that
// they play. Agent and coordinator are connected over the wire only.
func TestServicesAreSiblings(t *testing.T) {
	for _, p := range append(packages(t, "services"), packages(t, "lab")...) {
		for _, imported := range p.Imports {
			may, program := wires[part(imported)]
			if from := part(p.ImportPath); program && from != part(imported) && !slices.Contains(may, from) {
				t.Errorf("%s imports %s; only %v may", p.ImportPath, imported, may)
			}
		}
	}
}

// laboratory are the beginnings of packages that services and their tests may not import: the laboratory, the papers,
// libraries that draw and compute for them, and etcd's server.
var laboratory = []string{prefix + "lab/", prefix + "papers", "gonum.org/", "go.etcd.io/etcd/server/", "go.etcd.io/bbolt",
	"go.etcd.io/raft/"}

func ofLaboratory(path string) bool {
	return slices.ContainsFunc(laboratory, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// TestServicesNeedNoLaboratory: services and their tests import nothing of the laboratory, and the module does not
// require it.
func TestServicesNeedNoLaboratory(t *testing.T) {
	for _, p := range packages(t, "services") {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if ofLaboratory(imported) {
				t.Errorf("%s imports %s, which is of the laboratory", p.ImportPath, imported)
			}
		}
	}
	module, err := os.ReadFile(filepath.Join(root(t), "services", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(module)) {
		for _, field := range strings.Fields(line) {
			if ofLaboratory(field + "/") {
				t.Errorf("services/go.mod: %s", strings.TrimSpace(line))
			}
		}
	}
}

// files calls visit for every file of the work tree that is ours and not generated.
func files(t *testing.T, suffix string, visit func(path string, content []byte)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || path == filepath.Join(top, "bin")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, suffix) || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		content, err := os.ReadFile(path)
		if err == nil {
			visit(strings.TrimPrefix(path, top+"/"), content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	files(t, ".go", func(path string, content []byte) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		dir := filepath.Dir(path)
		f, err := parser.ParseFile(token.NewFileSet(), path, content, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		documented[dir] = documented[dir] || f.Doc != nil && len(f.Doc.Text()) > 40
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment that says what it is for", dir)
		}
	}
}

func TestFilesStaySmall(t *testing.T) {
	files(t, ".go", func(path string, content []byte) {
		if n := strings.Count(string(content), "\n"); n > 600 {
			t.Errorf("%s has %d lines; above 600 there is more than one idea in it", path, n)
		}
	})
}

func TestNoMachinePaths(t *testing.T) {
	banned := []string{"/root" + "/", "/work" + "/main", "/tmp" + "/dl", "proxy.golang" + ".org", "pypi" + ".org"}
	for _, suffix := range []string{".go", ".md", ".sh", ".yaml", ".yml", ".proto", "Makefile"} {
		files(t, suffix, func(path string, content []byte) {
			for _, b := range banned {
				if strings.Contains(string(content), b) {
					t.Errorf("%s names %s", path, b)
				}
			}
		})
	}
}
