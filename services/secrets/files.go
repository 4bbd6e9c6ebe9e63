package secrets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Files is a directory with a directory for each secret, and a file for each of its parts.
type Files string

// Has reports whether all of the files are there and not empty.
func (d Files) Has(_ context.Context, name string, parts ...string) (bool, error) {
	for _, part := range parts {
		info, err := os.Stat(filepath.Join(string(d), name, part))
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Put writes the files; only this user may read them.
func (d Files) Put(_ context.Context, s Secret) error {
	dir := filepath.Join(string(d), s.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for part, content := range s.Parts {
		if err := os.WriteFile(filepath.Join(dir, part), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
