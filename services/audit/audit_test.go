package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

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

// On a disk that is really full no line is cut; the lost ones are counted and reported once, and lines are written
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

// fifo makes a FIFO.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reader opens a FIFO for reading, and does not read.
func reader(t *testing.T, path string) *os.File {
	t.Helper()
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// While a write hangs, Lost and Trouble answer, and Trouble says that it hangs.
func TestAWriteThatHangsIsTrouble(t *testing.T) {
	path := fifo(t)
	r := reader(t, path)
	f, to, _ := open(t, path)
	done := make(chan struct{})
	go func() { // the FIFO takes 64 KiB
		to.Info("x", "text", strings.Repeat("x", 256<<10))
		close(done)
	}()
	for f.began.Load() == nil {
		runtime.Gosched()
	}
	if err := f.troubleAt(time.Now().Add(-slow)); err != nil || f.Lost() != 0 {
		t.Errorf("at once: %v, %d lost", err, f.Lost())
	}
	if err := f.troubleAt(time.Now().Add(2 * slow)); err == nil || !strings.Contains(err.Error(), "5s") {
		t.Errorf("later: %v", err)
	}
	if err := r.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	<-done
	if err := f.troubleAt(time.Now().Add(2 * slow)); err != nil {
		t.Errorf("after it was read: %v", err)
	}
}

// Lines into a FIFO that nobody reads are lost and counted, not kept by this process itself.
func TestAFIFOWithoutItsReader(t *testing.T) {
	path := fifo(t)
	var log bytes.Buffer
	if _, err := Open(path, slog.New(slog.NewTextHandler(&log, nil))); err == nil {
		t.Error("opened a FIFO that nobody reads")
	}
	r := reader(t, path)
	f, to, _ := open(t, path)
	_ = r.Close()
	to.Info("lost")
	if f.Lost() != 1 || f.Trouble() == nil {
		t.Errorf("%d lost, trouble %v", f.Lost(), f.Trouble())
	}
}

// A file that may be written and not read takes lines.
func TestAFileForWritingOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := os.WriteFile(path, []byte("{\"msg\":\"old\"}\n"), 0o200); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // who may read all files, so another user opens it
		for _, p := range []string{filepath.Dir(filepath.Dir(path)), filepath.Dir(path)} {
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if os.Getuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				opened <- err
				return
			}
		}
		f, err := Open(path, slog.New(slog.DiscardHandler))
		if err == nil {
			slog.New(slog.NewJSONHandler(f, nil)).Info("new")
		}
		opened <- err
	}()
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if got := lines(t, path); fmt.Sprint(got) != "[old new]" {
			t.Errorf("%v", got)
		}
	}
}
