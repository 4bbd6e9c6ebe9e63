package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lines reads a file whose lines must be whole JSON objects, and returns their messages.
func lines(t *testing.T, path string) (messages []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var l struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%s: a line that is cut or glued to another: %v: %.60q", path, err, line)
		}
		messages = append(messages, l.Msg)
	}
	return messages
}

func open(t *testing.T, path string) (*File, *slog.Logger, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	f, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return f, slog.New(slog.NewJSONHandler(f, nil)), &log
}

// On a disk that is really full no line is cut; the lost ones are counted and told of once, and lines are written
// again when there is room.
func TestAFullDiskLosesWholeLinesAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("no file system of 8 KiB here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "audit")
	f, to, log := open(t, path)
	sent := 0
	for ; f.Lost() < 3; sent++ {
		to.Info(fmt.Sprint(sent), "text", strings.Repeat("x", 700))
	}
	if f.Trouble() == nil || strings.Count(log.String(), "audit lines are lost") != 1 {
		t.Errorf("trouble %v, log %s", f.Trouble(), log)
	}
	if got := lines(t, path); len(got) != sent-3 {
		t.Errorf("%d lines of %d that were written", len(got), sent-3)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	to.Info("again")
	if got := lines(t, path); fmt.Sprint(got) != "[again]" || f.Trouble() != nil || f.Lost() != 3 ||
		!strings.Contains(log.String(), "written again") {
		t.Errorf("with room again: %v, trouble %v, log %s", got, f.Trouble(), log)
	}
}

// Where nothing can be written and nothing taken back the lines are counted all the same.
func TestLinesIntoADeviceThatIsFull(t *testing.T) {
	f, to, _ := open(t, "/dev/full")
	if err := to.Handler().Handle(t.Context(), slog.Record{Message: "x"}); err == nil {
		t.Error("no error")
	}
	to.Info("y")
	if f.Lost() != 2 || f.Trouble() == nil {
		t.Errorf("%d lost, trouble %v", f.Lost(), f.Trouble())
	}
}

// A line goes to the file that has the name: after a rename to a new one, and after the directory was away.
func TestARenamedFileGetsNoMoreLines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of")
	path := filepath.Join(dir, "audit")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, to, _ := open(t, path)
	to.Info("one")
	rename := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(path, path+".1")
	to.Info("two")
	if before, now := lines(t, path+".1"), lines(t, path); fmt.Sprint(before, now) != "[one] [two]" {
		t.Errorf("after a rename: %v %v", before, now)
	}
	rename(dir, dir+".away")
	to.Info("lost")
	if f.Lost() != 1 || f.Trouble() == nil {
		t.Errorf("without its directory: %d lost, trouble %v", f.Lost(), f.Trouble())
	}
	rename(dir+".away", dir)
	to.Info("three")
	if got := lines(t, path); fmt.Sprint(got) != "[two three]" || f.Trouble() != nil {
		t.Errorf("with its directory again: %v, %v", got, f.Trouble())
	}
}

// Half a line of a process that died is ended before the next line.
func TestHalfALineIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := os.WriteFile(path, []byte("{\"msg\":\"old\"}\n{\"msg"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, to, _ := open(t, path)
	to.Info("new")
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "{\"msg\":\"old\"}\n{\"msg\n{\"time") {
		t.Errorf("%v: %q", err, text)
	}
}
