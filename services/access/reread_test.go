package access

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watchedFiles are the files of a guard: each with one text after which a caller may come in, and one, of equal
// length, after which it may not.
func watchedFiles(t *testing.T) map[string]struct {
	set     func(*Settings, string)
	in, out string
	knows   func(*Guard) bool
} {
	one, two := newSigner(t, "one"), newSigner(t, "two")
	return map[string]struct {
		set     func(*Settings, string)
		in, out string
		knows   func(*Guard) bool
	}{
		"policy": {func(s *Settings, path string) { s.Policy = path },
			"grants: [{id: a.example.org, role: admin}]", "grants: [{id: b.example.org, role: admin}]",
			func(g *Guard) bool { return g.current().Grants[0].ID == "a.example.org" }},
		"tokens": {func(s *Settings, path string) { s.Tokens = path },
			"tokens:\n" + entry("a", "secret-one", "role: viewer"), "tokens:\n" + entry("a", "secret-two", "role: viewer"),
			func(g *Guard) bool { return find(g.tokens.current(), "secret-one") != nil }},
		"keys": {func(s *Settings, path string) {
			s.JWT = JWT{Keys: path, Issuer: issuer, Audience: audience}
		}, keySet(t, one), keySet(t, two),
			func(g *Guard) bool { return g.jwts.keys.current()[0].KeyID == "one" }},
	}
}

// A file is compared by its contents. A new file of equal size and time is read, and so is a file that is
// written over with its time set back.
func TestAFileCountsByItsBytes(t *testing.T) {
	for what, file := range watchedFiles(t) {
		for how, replace := range map[string]func(path string, text string, before fs.FileInfo){
			"renamed": func(path, text string, before fs.FileInfo) {
				write(t, path+".new", text)
				setTime(t, path+".new", before.ModTime())
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
			},
			"written over": func(path, text string, before fs.FileInfo) {
				write(t, path, text)
				setTime(t, path, before.ModTime())
			},
		} {
			path := filepath.Join(t.TempDir(), "file")
			write(t, path, file.in)
			g := openGuard(t, file.set, path)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if !file.knows(g) {
				t.Fatalf("%s: not read", what)
			}
			replace(path, file.out, info)
			if file.knows(g) || g.Trouble() != nil {
				t.Errorf("%s, %s by one of equal size and time: the old one is in force, trouble %v", what, how, g.Trouble())
			}
		}
	}
}

// A file that cannot be read at first is in force as soon as it can, without another change.
func TestAFileThatCannotBeReadAtFirst(t *testing.T) {
	for what, file := range watchedFiles(t) {
		path := filepath.Join(t.TempDir(), "file")
		for dir := filepath.Dir(path); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // nobody must reach the file
				t.Fatal(err)
			}
		}
		write(t, path, file.in)
		g := openGuard(t, file.set, path)
		write(t, path+".new", file.out)
		chmod(t, path+".new", 0)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		asNobody(t, func() {
			if !file.knows(g) || g.Trouble() == nil {
				t.Errorf("%s that cannot be read: trouble %v; want what was read before, and trouble", what, g.Trouble())
			}
		})
		chmod(t, path, 0o644)
		if file.knows(g) || g.Trouble() != nil {
			t.Errorf("%s that can be read again: the old one is in force, trouble %v", what, g.Trouble())
		}
	}
}

func openGuard(t *testing.T, set func(*Settings, string), path string) *Guard {
	t.Helper()
	s := Settings{Log: slog.New(slog.DiscardHandler)}
	set(&s, path)
	g, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func setTime(t *testing.T, path string, to time.Time) {
	t.Helper()
	if err := os.Chtimes(path, to, to); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// asNobody runs something without the rights of root on files, which no mode would keep away.
func asNobody(t *testing.T, run func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 {
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setfsuid(0) }()
	}
	run()
}
