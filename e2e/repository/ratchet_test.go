package repository

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ratchets bound figures of the repository from above. A figure that falls lowers its bound; none is raised without a
// reason in the commit. wanted is the bound that is aimed at.
var ratchets = map[string]struct{ most, wanted int }{
	"lines of services besides tests and generated code": {66_350, 42_500},
	"packages of the laboratory in titrate":              {0, 0},
	"packages of others in titrate":                      {385, 385},
	"MB of titrate, stripped":                            {34, 28},
	"lines of the largest file of the product":           {400, 400},
	"fields of the largest struct of the product":        {25, 25},
	"highest complexity of a function of the product":    {15, 15},
	"lines of the longest function of the product":       {59, 59},
}

// The words of the documents have bounds of their own: TestDocumentsStayShort. Vale finds riddles.
func TestRatchets(t *testing.T) {
	found := sourceFigures(t)
	maps.Copy(found, binaryFigures(t))
	for _, name := range slices.Sorted(maps.Keys(ratchets)) {
		bound, n := ratchets[name], found[name]
		t.Logf("%d %s, at most %d; wanted: %d", n, name, bound.most, bound.wanted)
		if n > bound.most {
			t.Errorf("%d %s: at most %d", n, name, bound.most)
		}
	}
}

// product are the modules that titrate and the filter are made of.
var product = []string{"services/", "control/", "proto/", "envoy-filter/"}

// sourceFigures are the figures of the sources. Generated code and tests are left out.
func sourceFigures(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	highest := func(name string, n int) { found[name] = max(found[name], n) }
	files(t, ".go", func(path string, content []byte) {
		if bytes.Contains(content[:min(len(content), 400)], []byte("DO NOT EDIT")) {
			return
		}
		if strings.HasSuffix(path, "_test.go") || !slices.ContainsFunc(product, func(module string) bool {
			return strings.HasPrefix(path, module)
		}) {
			return
		}
		lines := bytes.Count(content, []byte("\n"))
		highest("lines of the largest file of the product", lines)
		if strings.HasPrefix(path, "services/") {
			found["lines of services besides tests and generated code"] += lines
		}
		fileFigures(t, path, content, highest)
	})
	return found
}

// fileFigures calls highest with the figures of each struct and function of a file.
func fileFigures(t *testing.T, path string, content []byte, highest func(name string, n int)) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, content, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			highest("fields of the largest struct of the product", n.Fields.NumFields())
		case *ast.FuncDecl:
			highest("lines of the longest function of the product",
				set.Position(n.End()).Line-set.Position(n.Pos()).Line+1)
			highest("highest complexity of a function of the product", complexity(n))
		}
		return true
	})
}

// complexity is the number of ways through a function as McCabe counts them: one, and one for each branch.
func complexity(of *ast.FuncDecl) int {
	n := 1
	ast.Inspect(of, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// binaryFigures are the figures of titrate as `make build` builds it.
func binaryFigures(t *testing.T) map[string]int {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = filepath.Join(root(t), "services"), append(os.Environ(), "CGO_ENABLED=0",
			"GOFLAGS=-buildvcs=false -trimpath -tags=grpcnotrace")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %v: %v", args, err)
		}
		return string(out)
	}
	found := map[string]int{}
	for path := range strings.Lines(run("list", "-deps", "./cmd/titrate")) {
		path = strings.TrimSpace(path)
		if ofLaboratory(path) {
			found["packages of the laboratory in titrate"]++
			t.Logf("titrate contains %s", path)
		}
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") && !strings.HasPrefix(path, prefix) {
			found["packages of others in titrate"]++
		}
	}
	program := filepath.Join(t.TempDir(), "titrate")
	run("build", "-ldflags=-s -w", "-o", program, "./cmd/titrate")
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	found["MB of titrate, stripped"] = int(info.Size() >> 20)
	return found
}
