package command

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/wording"
)

// LeftOut lists the entries of directories that are not read: files with another ending, and directories that have
// documents. It does not list hidden entries.
type LeftOut []string

// mostLeftOut bounds the names in a message.
const mostLeftOut = 5

// String implements fmt.Stringer.
func (l LeftOut) String() string { return wording.Few(l, mostLeftOut) }

// Note names what is left out.
func (l LeftOut) Note(w io.Writer) {
	if len(l) > 0 {
		fmt.Fprintf(w, "note: not read: %s; of a directory, only the .yaml, .yml and .json files in it are read\n", l)
	}
}

// Documents returns the entries that may hold documents.
func (l LeftOut) Documents() (out LeftOut) {
	for _, path := range l {
		if strings.HasSuffix(path, "/") || mayHold(path) {
			out = append(out, path)
		}
	}
	return out
}

// leftOutOf returns what an entry of a directory adds to what is left out.
func leftOutOf(path string, given map[string]bool) LeftOut {
	info, err := os.Stat(path)
	switch {
	case err != nil: // a symbolic link to nothing
	case info.Mode().IsRegular():
		return LeftOut{path}
	case info.IsDir() && anyBelow(path, given):
		return LeftOut{path + "/"}
	}
	return nil
}

// mostBelow bounds the entries below a directory that are looked at. With more, it may hold documents.
const mostBelow = 10_000

// anyBelow reports whether documents may be below a directory. What is given itself is not left out.
func anyBelow(dir string, given map[string]bool) (found bool) {
	n, root := 0, dir+"/" // which is followed if it is a symbolic link
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		n++
		switch own := path == root; {
		case err != nil || n > mostBelow:
			found = true
		case !own && (given[filepath.Clean(path)] || hidden(e.Name())):
			if e.IsDir() {
				return fs.SkipDir
			}
		case !e.IsDir() && isDocuments(e.Name()):
			found = mayHold(path)
		}
		if found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// apiGroup is in each document, as its apiVersion.
var apiGroup = regexp.MustCompile(regexp.QuoteMeta(strings.SplitN(document.APIVersion, "/", 2)[0]))

// mayHold reports whether a file may hold documents. A file that cannot be read may.
func mayHold(path string) bool {
	if filepath.Ext(path) == ".md" { // prose shows examples
		return false
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // to open a pipe may take without end
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	return apiGroup.MatchReader(bufio.NewReader(io.LimitReader(f, document.MaxBytes)))
}
