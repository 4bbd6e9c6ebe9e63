package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/wording"
)

// FilesByFlag refuses arguments of a command whose files come with -f.
func FilesByFlag(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s is too much here: a file is given as -f FILE", wording.Quote(args[0]))
}

// OpenFiles reads the documents of files, of directories (their .yaml, .yml and .json files by name, not those of
// directories below) and of standard input ("-"). What is wrong in them the files know. There is one file at least. The
// second result is what was left out of the directories.
func OpenFiles(stdin io.Reader, paths []string) ([]*document.File, LeftOut, error) {
	expanded, left, err := expand(paths)
	if err != nil {
		return nil, nil, err
	}
	files := make([]*document.File, len(expanded))
	for i, path := range expanded {
		if files[i], err = openFile(stdin, path); err != nil {
			return nil, nil, err
		}
	}
	return files, left, nil
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

// expand replaces directories by the files in them.
func expand(paths []string) (files []string, left LeftOut, err error) {
	given := map[string]bool{}
	for _, path := range paths {
		given[filepath.Clean(path)] = true
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case path == "-":
			files = append(files, path)
		case err != nil:
			return nil, nil, err
		case !info.IsDir():
			files = append(files, path)
		default:
			inside, out, err := documentsIn(path, given)
			if err != nil {
				return nil, nil, err
			}
			files, left = append(files, inside...), append(left, out...)
		}
	}
	return files, left, nil
}

// documentsIn returns the files of a directory that are read, and the entries that are left out.
func documentsIn(dir string, given map[string]bool) (files []string, left LeftOut, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.IsDir() && isDocuments(e.Name()) {
			files = append(files, path)
		} else if !given[path] && !hidden(e.Name()) {
			left = append(left, leftOutOf(path, given)...)
		}
	}
	if len(files) == 0 {
		names := ""
		if len(left) > 0 {
			names = "; not read: " + left.String()
		}
		return nil, nil, fmt.Errorf("%s: no .yaml, .yml or .json file in the directory%s", dir, names)
	}
	return files, left, nil
}

// isDocuments reports whether a file of a directory is read, by its name.
func isDocuments(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// FileFlag adds -f.
func FileFlag(cmd *cobra.Command, files *[]string, help string) {
	cmd.Flags().StringArrayVarP(files, "file", "f", nil, help)
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
}
