// Package guide runs the shell blocks that people copy from a document, as they are, and compares the output
// with the document's ([Follow]). Its own tests read every document and check the parts that can be checked
// without running them: commands, configurations, links.
package guide

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is the longest time of a guide, with the processes that it starts.
const patience = 4 * time.Minute

// Section returns a section's text, from its heading to the next.
func Section(t testing.TB, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// Blocks returns the fenced blocks of a language in a section, at least one.
func Blocks(t testing.TB, page, heading, language string) (all []string) {
	t.Helper()
	for _, b := range Read(t, page) {
		if b.Section == heading && b.Language == language {
			all = append(all, b.Text)
		}
	}
	if len(all) == 0 {
		t.Fatalf("section %q of %s has no block of %s", heading, page, language)
	}
	return all
}

// Clone makes a directory that looks like a clone after `make build`, docs included, and one with
// other programs, which is first in the PATH. Both are maps from names to files.
func Clone(t testing.TB, bin, others map[string]string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ti") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	docs, err := filepath.Abs("../../docs")
	if err == nil {
		err = os.Symlink(docs, filepath.Join(dir, "docs"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for folder, files := range map[string]map[string]string{"bin": bin, "others": others} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, file := range files {
			if err := os.Symlink(file, filepath.Join(dir, folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// Run runs a script in a clone and returns its output. The script has its own network, of loopback only, so
// that its ports are free; processes that it starts end with the script.
func Run(t testing.TB, clone, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const before = "ip link set lo up\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
	cmd := exec.CommandContext(ctx, "unshare", "--net", "bash", "-euc", before+script)
	if os.Getuid() != 0 {
		cmd.Args = append([]string{"unshare", "--map-root-user"}, cmd.Args[1:]...)
	}
	cmd.Dir = clone
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(clone, "others")+":"+os.Getenv("PATH"), "TMPDIR="+clone)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := os.Create(filepath.Join(clone, "out")) // a pipe would wait for processes that still run
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	said, _ := os.ReadFile(out.Name())
	if err != nil {
		t.Fatalf("%v:\n%s\n%s", err, said, logs(clone))
	}
	return string(said)
}

// logs are the ends of the logs that a script has written.
func logs(clone string) string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(clone, "*", "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		all.WriteString("\n" + filepath.Base(file) + ":\n" + string(text[max(0, len(text)-4096):]))
	}
	return all.String()
}

// CheckLimited checks the output of a guide's loop: of 40 requests of one client a burst of 20 passed, and one
// more for each second that the loop took, at most 15.
func CheckLimited(t testing.TB, said string) {
	t.Helper()
	count := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^ +(\d+) (\d{3})$`).FindAllStringSubmatch(said, -1) {
		count[m[2]], _ = strconv.Atoi(m[1])
	}
	if count["200"] < 20 || count["200"] > 35 || count["200"]+count["429"] != 40 {
		t.Errorf("answers to 40 requests at 1/s with a burst of 20: %v, want 20 to 35 of 200, the rest 429\n%s",
			count, said)
	}
}
