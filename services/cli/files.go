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

// openFiles reads the documents of files, of directories (their .yaml, .yml and .json files by name, not those of
// directories below) and of standard input ("-"). What is wrong in them the files know. There is one file at least. The
// second result is what was left out of the directories.
func openFiles(stdin io.Reader, paths []string) ([]*document.File, leftOut, error) {
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

// readDocuments reads the resources of files. All mistakes of all files come back
// joined; then there are no documents. What of directories is not read is named on stderr; with prune it is an error
// if it may hold documents, for what these name would be deleted.
func readDocuments(cmd *cobra.Command, paths []string, prune bool) ([]*document.Document, error) {
	files, left, err := openFiles(cmd.InOrStdin(), paths)
	if err != nil {
		return nil, err
	}
	left.note(cmd.ErrOrStderr())
	if documents := left.documents(); prune && len(documents) > 0 {
		return nil, fmt.Errorf("--prune deletes what no document mentions, and these may hold documents that are not "+
			"read: %s; give each with -f, or move it out of the directory", documents)
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
func expand(paths []string) (files []string, left leftOut, err error) {
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

// documentsIn returns the files of a directory that are read, and what is left out of it.
func documentsIn(dir string, given map[string]bool) (files []string, left leftOut, err error) {
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
