package settings

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docs/filter.md names every field that this package reads, and fieldNames finds them where
// they are read. They are in the calls of object, and in the lists given to it, which are
// variables called …Fields or …Names.
func TestEveryFieldIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/filter.md")
	if err != nil {
		t.Fatal(err)
	}
	names := fieldNames(t)
	if len(names) < 30 {
		t.Fatalf("found only %d fields: %v", len(names), names)
	}
	for name := range names {
		// As a code span, or as a key in an example.
		if !regexp.MustCompile("`[^`\n]*\\b" + name + "\\b[^`\n]*`").Match(page) {
			t.Errorf("docs/filter.md does not mention the field %s", name)
		}
	}
}

func isFieldList(name string) bool {
	return strings.HasSuffix(name, "Fields") || strings.HasSuffix(name, "Names")
}

func fieldNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, kind := range kindNames {
		names[kind] = true
	}
	add := func(list []ast.Expr) {
		for _, e := range list {
			if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == gotoken.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
					names[s] = true
				}
			}
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "object" {
					add(n.Args)
				}
			case *ast.ValueSpec:
				if len(n.Values) == 1 && isFieldList(n.Names[0].Name) {
					if list, ok := n.Values[0].(*ast.CompositeLit); ok {
						add(list.Elts)
					}
				}
			}
			return true
		})
	}
	return names
}
