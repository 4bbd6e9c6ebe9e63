package console

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/titrate/titrate/lab/installation"
)

// grants are the roles in the file of tokens, by name, with what follows the role.
var grants = map[string]string{"viewer": "viewer", "editor": "editor, tenants: [dart]", "admin": "admin",
	"tenant-viewer": "tenant-viewer, tenants: [dart]"}

// grant writes the file of tokens.
func (s *system) grant(t *testing.T, grants map[string]string) {
	t.Helper()
	text := "tokens:\n"
	for _, name := range slices.Sorted(maps.Keys(grants)) {
		text += fmt.Sprintf("- {name: %s, sha256: %x, role: %s}\n", name, sha256.Sum256([]byte(tokenOf(name))), grants[name])
	}
	if err := os.WriteFile(s.tokens, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// hides waits until the page does not have a text any more.
func (b *browser) hides(text string) {
	b.t.Helper()
	for end := time.Now().Add(patience); strings.Contains(b.text(), text); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("the page still shows %q:\n%s", text, b.text())
		}
	}
}

// revoked takes the token of a reader away while a screen is open, and then its role. The page says so, and asks no
// more.
func revoked(t *testing.T, s *system, b *browser) {
	signIn := func() {
		t.Helper()
		b.shows("Paste a token")
		b.do(chromedp.SendKeys("input[type=password]", tokenOf("viewer")))
		b.press("Sign in")
		b.shows("What limits it", "by gateway", "Sign out")
	}
	b.screen("/tenant/acme")
	signIn()
	less := maps.Clone(grants)
	delete(less, "viewer")
	s.grant(t, less)
	b.shows("Refused:", "Paste a token")
	b.quiet(t, "without a token")
	s.grant(t, grants)
	signIn()
	less["viewer"] = grants["tenant-viewer"]
	s.grant(t, less)
	b.shows("Your roles do not allow this.")
	b.quiet(t, "without the role")
	s.grant(t, grants)
}

// quiet fails the test if the page goes on with questions that are refused.
func (b *browser) quiet(t *testing.T, name string) {
	t.Helper()
	time.Sleep(time.Second)
	evaluate[bool](b, "(performance.clearResourceTimings(), true)")
	time.Sleep(5 * time.Second)
	if n := evaluate[int](b, `performance.getEntriesByType("resource").length`); n > 2 {
		t.Errorf("%s the page asks %d times in 5 s", name, n)
	}
}

// faults happen while a screen is open. The page is not loaded again.
func (b *browser) faults(t *testing.T, s *system) {
	b.screen("/")
	b.shows("who fills api", "current")
	evaluate[int](b, "window.mark = 1")
	for _, one := range []struct {
		name string
		run  func(t *testing.T, b *browser, s *system)
	}{{"paused", paused}, {"agent", agentKilled}, {"etcd", etcdAway}} {
		t.Run(one.name, func(t *testing.T) { one.run(t, b.on(t), s) })
		if evaluate[int](b, "window.mark ?? 0") != 1 {
			t.Errorf("%s: the page was loaded again", one.name)
		}
	}
}

// signal sends a signal to a process.
func signal(t *testing.T, to *installation.Server, what syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(to.Process().PID(), what); err != nil {
		t.Fatal(err)
	}
}

// paused stops the coordinator for 15 s. The page says how old its figures are, and goes on with the coordinator.
func paused(t *testing.T, b *browser, s *system) {
	signal(t, s.Coordinators[0].Server, syscall.SIGSTOP)
	time.AfterFunc(15*time.Second, func() { signal(t, s.Coordinators[0].Server, syscall.SIGCONT) })
	b.shows("Last news 1", "who fills api") // ten seconds and more
	b.hides("Last news")
	b.shows("who fills api", "the pool is full")
}

// agentKilled kills an agent. Its gateway's row says so, until the agent is back.
func agentKilled(t *testing.T, b *browser, s *system) {
	agent := s.Gateways[1].Agent
	agent.Kill()
	b.shows("agent not connected since")
	b.picture("agent")
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.hides("agent not connected since")
	b.shows("gw-2", "current")
}

// etcdAway stops etcd. The last figures stay, with their age and the reason, and the others go on, until etcd is back.
func etcdAway(t *testing.T, b *browser, s *system) {
	signal(t, s.Etcd, syscall.SIGSTOP)
	b.shows("store unavailable", "Last news", "who fills api", "etcd does not grant a session", "gw-2")
	b.picture("etcd")
	b.screen("/changes")
	b.shows("could not be read")
	b.screen("/top")
	b.shows("dart")
	signal(t, s.Etcd, syscall.SIGCONT)
	b.screen("/changes")
	b.shows("created")
	b.screen("/")
	b.shows("who fills api", "current")
	b.hides("Last news")
}
