package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/document"
)

// filesByFlag refuses arguments of a command whose files come with -f.
func filesByFlag(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%q is too much here: a file is given as -f FILE", args[0])
}

// openFiles reads the documents of files, of directories (their .yaml, .yml and .json
// files by name, not what lies deeper) and of standard input ("-"). What is wrong in them
// the files know. There is one file at least.
func openFiles(stdin io.Reader, paths []string) ([]*document.File, error) {
	expanded, err := expand(paths)
	if err != nil {
		return nil, err
	}
	files := make([]*document.File, len(expanded))
	for i, path := range expanded {
		if files[i], err = openFile(stdin, path); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func openFile(stdin io.Reader, path string) (*document.File, error) {
	if path == "-" {
		return document.Open("<stdin>", stdin), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return document.Open(path, f), nil
}

// readDocuments reads the resources of files. All mistakes of all files come back
// joined; then there are no documents.
func readDocuments(stdin io.Reader, paths []string) ([]*document.Document, error) {
	files, err := openFiles(stdin, paths)
	if err != nil {
		return nil, err
	}
	if err := document.Mistakes(files); err != nil {
		return nil, err
	}
	var all []*document.Document
	for _, f := range files {
		all = append(all, f.Documents...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no document of a resource in %s", strings.Join(paths, ", "))
	}
	return all, document.Unique(all)
}

// expand replaces directories by the files in them.
func expand(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case path == "-":
			files = append(files, path)
		case err != nil:
			return nil, err
		case !info.IsDir():
			files = append(files, path)
		default:
			inside, err := documentsIn(path)
			if err != nil {
				return nil, err
			}
			files = append(files, inside...)
		}
	}
	return files, nil
}

func documentsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json file in the directory", dir)
	}
	return files, nil
}
