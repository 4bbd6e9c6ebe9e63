package ratelimitconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// List returns the files of a directory and of those below it, in the order of their names, as envoyproxy/ratelimit
// reads them with RUNTIME_IGNOREDOTFILES. It takes them whatever their names end in, for the keys of a ConfigMap need
// no .yaml. What begins with a dot is left out, and a symbolic link to a directory, and what is no file. Symbolic
// links to files are followed, as those of a mounted ConfigMap. A directory without a file to read is an error: no
// limits would be in force.
func List(dir string) (files, leftOut []string, err error) {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("%s: no such directory", dir)
	case err != nil:
		return nil, nil, err
	case !info.IsDir():
		return nil, nil, fmt.Errorf("%s is a file: want the directory that it is in, of which all files are read", dir)
	}
	root := strings.TrimSuffix(dir, "/") + "/" // which is followed if it is a symbolic link
	err = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == root:
			return nil
		case strings.HasPrefix(e.Name(), "."):
			if !strings.HasPrefix(e.Name(), "..") { // by which a ConfigMap is mounted
				leftOut = append(leftOut, path)
			}
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.Mode().IsRegular():
			files = append(files, path)
		default:
			leftOut = append(leftOut, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = noFile(dir, leftOut)
	}
	if err != nil {
		return nil, nil, err
	}
	return files, leftOut, nil
}

func noFile(dir string, leftOut []string) error {
	if len(leftOut) == 0 {
		return fmt.Errorf("%s has no file, so there is no limit: want the files of ratelimit", dir)
	}
	return fmt.Errorf("%s has no file that is read, so there is no limit: left out are %s", dir,
		strings.Join(leftOut, ", "))
}
