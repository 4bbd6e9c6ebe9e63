package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A second installation replaces the file; a process that has the first file open keeps it.
func TestInstall(t *testing.T) {
	from, dir := filepath.Join(t.TempDir(), "libtitrate.so"), t.TempDir()
	write(t, from, "first")
	if err := install(from, dir); err != nil {
		t.Fatal(err)
	}
	first, err := os.Open(filepath.Join(dir, "libtitrate.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if info, err := first.Stat(); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the copy's mode: %v, %v", info.Mode(), err)
	}
	write(t, from, "again")
	if err := install(from, dir); err != nil {
		t.Fatal(err)
	}
	kept := make([]byte, 5)
	if _, err := first.Read(kept); err != nil || string(kept) != "first" {
		t.Errorf("the open file became %q, %v", kept, err)
	}
	if now, err := os.ReadFile(first.Name()); err != nil || string(now) != "again" {
		t.Errorf("installed is %q, %v", now, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}

// What cannot be copied is named, and leaves nothing.
func TestInstallFails(t *testing.T) {
	dir := t.TempDir()
	if err := install(filepath.Join(dir, "none.so"), dir); err == nil || !strings.Contains(err.Error(), "none.so") {
		t.Errorf("a file that is not there: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
	from := filepath.Join(dir, "libtitrate.so")
	write(t, from, "x")
	missing := filepath.Join(dir, "missing")
	if err := install(from, missing); err == nil || !strings.Contains(err.Error(), "mount a volume at "+missing) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := install(dir, dir); err == nil || !strings.Contains(err.Error(), "copy "+dir) {
		t.Errorf("a directory in place of the file: %v", err)
	}
}
