package console

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/titrate/titrate/e2e/artifact"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

var (
	shots      = flag.String("shots", "", "folder that the screens are written to as pictures")
	documented = flag.String("documents", "", "folder that the pictures of the documents are written to")
	measured   = flag.Duration("measure", 2*time.Second, "time for which the coordinator's CPU is measured")
	whole      = flag.Bool("whole", false, "check each screen in each state with axe, narrow and wide, and measure more")
)

// The console in a browser, at an installation under load. The parts share it, in this order.
func TestConsole(t *testing.T) {
	t.Parallel() // most of its time it waits
	chromium, s := open(t), start(t)
	s.load(t)
	b := tab(t, chromium, s.open)
	t.Run("screens", func(t *testing.T) { b.on(t).screens(t) })
	t.Run("ready", func(t *testing.T) { tab(t, b.ctx, s.open).ready(t, s.open) })
	t.Run("documents", func(t *testing.T) { b.on(t).documents() })
	t.Run("watchers", func(t *testing.T) { b.on(t).beside(func() { s.watchers(t) }) })
	t.Run("block", func(t *testing.T) { b.on(t).block(t, s) })
	t.Run("rollback", func(t *testing.T) { b.on(t).rollback(t, s) })
	t.Run("what if", func(t *testing.T) { b.on(t).whatIf() })
	t.Run("sets", func(t *testing.T) { b.on(t).sets(t, s) })
	t.Run("keyboard", func(t *testing.T) { b.on(t).keyboard(t, s) })
	t.Run("roles", func(t *testing.T) { roles(t, tab(t, b.ctx, s.guarded)) })
	other := tab(t, b.ctx, s.guarded)
	t.Run("revoked", func(t *testing.T) { revoked(t, s, tab(t, b.ctx, s.guarded)) })
	t.Run("failover", func(t *testing.T) { b.on(t).failover(t, s, other.on(t)) })
	if *whole {
		t.Run("faults", func(t *testing.T) { b.on(t).faults(t, s) })
	}
}

// realScreens are the screens of a real installation, with words that each shows.
var realScreens = []struct {
	name, hash string
	words      []string
}{
	{"fleet", "/", []string{"who fills api", "the pool is full", "gw-1", "gw-2", "current",
		"Keys its agent owns", "callers show no certificate"}},
	{"top", "/top", []string{"dart", "refused now"}},
	{"clients", "/top/CLIENT/REFUSED", []string{hostile, "dart-1"}},
	{"tenants", "/tenants", []string{"acme", hostile, "2 tenants"}},
	{"tenant", "/tenant/dart", []string{"tenants/dart/limits/per-client", hostile, "2/s", "share", "by gateway",
		"100,000 each month, UTC", "of 100,000", "of 10"}},
	{"shadow", "/tenant/acme", []string{"Would have refused or held", "trial", "in the last minute"}},
	{"choice", "/limit", []string{"dart-1", "Choose a client"}},
	{"exact", "/limit/dart/per-client/dart-1", []string{"EXACT", "The one bucket, at agent gw-", "gw-1", "gw-2", "of 10 tokens"}},
	{"local", "/limit/acme/per-client/acme-1", []string{"LOCAL", "gw-1", "gw-2", "knows of", "reported"}},
	{"changes", "/changes", []string{"8 created"}},
	{"request", "/request/unknown", []string{`No gateway knows request "unknown"`}},
	{"decision", "/request/" + refusedID, []string{"Refused: ", "per-client", "steps", "revision", "It arrives at gw-"}},
	{"pool", "/pool/api", []string{"Known since", "Shares, by tenant", "acme", "dart", "What if"}},
	{"missing", "/tenant/nobody", []string{"There is no such thing."}},
}

// screens opens every screen. Names with HTML stay texts, and axe finds nothing in the way of a screen reader.
func (b *browser) screens(t *testing.T) {
	axe := axe(t)
	for _, one := range realScreens {
		b.screen(one.hash)
		b.shows(one.words...)
		b.harmless(t, one.name)
		b.accessible(axe, one.name)
		b.widths(t, one.name)
		b.picture(one.name)
	}
	b.dress(360, "dark")
	b.accessible(axe, "dark and narrow")
	b.dress(1280, "light")
}

// documents are the pictures of the documents: make console-shots.
func (b *browser) documents() {
	for _, one := range []struct {
		name, hash, part, word, last string
		width                        int64
	}{
		{"console", "/", "body", "who fills api", "the last hour", 1100},
		{"limit-exact", "/limit/dart/per-client/bursts", "main", "EXACT", "granted", 760},
		{"limit-local", "/limit/acme/per-client/bursts", "main", "LOCAL", "takes", 760},
	} {
		b.screen(one.hash)
		b.shows(one.word)
		b.document(one.name, one.part, one.last, one.width)
	}
}

// block blocks a client for an hour, by plan, diff and confirmation; a second time beside the first block.
func (b *browser) block(t *testing.T, s *system) {
	for i, client := range []string{"dart-1", "dart-2"} {
		b.screen("/top/CLIENT/REFUSED/client/" + client)
		b.shows(client)
		if i == 0 {
			if strings.Contains(b.text(), "Block for an hour") {
				t.Error("changes are offered before the reader has asked for them")
			}
			b.press("Read only")
		}
		b.shows("Block for an hour")
		b.press("Block for an hour")
		b.shows("What would change", "tenants/dart/limits/blocked", "tenants/dart/limits/blocked/overrides/"+client)
		if i == 0 {
			b.widths(t, "block")
			b.picture("block")
		}
		b.press("Confirm")
		b.shows("Done: revision")
		b.press("Close")
	}
	l, err := s.api(t).ListOverrides(t.Context(), &quotav1.ListOverridesRequest{Parent: "tenants/dart/limits/blocked"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range l.GetOverrides() {
		if left := time.Until(o.GetUntil().AsTime()); o.GetRate() != "0" || left < 50*time.Minute || left > time.Hour {
			t.Errorf("override %v", o)
		}
	}
	if len(l.GetOverrides()) != 2 {
		t.Errorf("%d overrides, want 2", len(l.GetOverrides()))
	}
}

// rollback undoes the blocks by going back to the first revision.
func (b *browser) rollback(t *testing.T, s *system) {
	b.screen("/changes")
	b.shows("block client")
	first := b.first()
	b.screen("/changes/" + first)
	b.shows("What revision "+first+" changed", "Roll back to here")
	b.press("Roll back to here")
	b.shows("tenants/dart/limits/blocked deleted")
	b.press("Confirm")
	b.shows("Done: revision")
	b.press("Close")
	if _, err := s.api(t).GetLimit(t.Context(), &quotav1.GetLimitRequest{Name: "tenants/dart/limits/blocked"}); err == nil {
		t.Error("the limit of blocks is still there")
	}
	b.press("Changes allowed")
}

// first is the first of all revisions.
func (b *browser) first() string {
	b.t.Helper()
	return evaluate[string](b, `[...document.querySelectorAll("table[aria-label=Revisions] tbody tr")].at(-1)
		.querySelector("a").textContent`)
}

// whatIf plans a tenant more: it takes its part by weight, and nothing is stored.
func (b *browser) whatIf() {
	b.screen("/pool/api")
	b.shows("A tenant more", "dart")
	evaluate[string](b, `(() => { [...document.querySelectorAll("fieldset input")].forEach((input, i) => {
		input.value = ["4", "1000"][i];
		input.dispatchEvent(new Event("input"));
	}); return "" })()`)
	b.shows("A tenant more") // the button is enabled when the page is drawn
	for end := time.Now().Add(patience); evaluate[bool](b,
		`document.querySelector("form button").ariaDisabled !== null`) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	b.press("Plan")
	b.shows("tenants/one-more created", "0/s → 1,000/s", "0/s → 1")
	b.screen("/tenant/one-more")
	b.shows("There is no such thing.")
}

// sets shows what belongs to a set, and what of it somebody else has changed, until the set is applied again.
func (b *browser) sets(t *testing.T, s *system) {
	const name = "tenants/dart/limits/extra"
	api := s.api(t)
	apply := func(set, rate string) {
		t.Helper()
		if _, err := api.Apply(t.Context(), &quotav1.ApplyRequest{Set: set, Resources: []*quotav1.Resource{{
			Kind: &quotav1.Resource_Limit{Limit: &quotav1.Limit{Name: name, Rate: rate}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	apply("repo", "500/s")
	apply("", "400/s")
	b.screen("/changes")
	b.shows("repo", "belongs to set repo", name, "open")
	b.picture("conflict")
	b.screen("/changes/set/repo")
	b.shows("What belongs to set repo", "1 resource", name)
	apply("repo", "600/s")
	b.screen("/changes")
	b.shows("belongs to set repo", "settled by")
}

// roles signs in as each role.
func roles(t *testing.T, b *browser) {
	b.shows("Sign in", "Paste a token")
	signIn := func(token string) {
		b.do(chromedp.SendKeys("input[type=password]", token))
		b.press("Sign in")
	}
	signIn("wrong")
	b.shows("Refused:")
	for _, role := range []struct {
		name      string
		reads     bool // everything
		may       bool // change something
		rollback  bool
		forbidden []string // screens
	}{
		{"viewer", true, false, false, nil},
		{"tenant-viewer", false, false, false, []string{"/", "/pool/api", "/tenant/acme", "/limit/acme/per-client/acme-1", "/changes"}},
		{"editor", true, true, false, nil},
		{"admin", true, true, true, nil},
	} {
		b.screen("/tenants")
		signIn(tokenOf(role.name))
		b.shows("token:"+role.name, "dart")
		if acme := strings.Contains(b.text(), "acme"); acme != role.reads {
			t.Errorf("%s: it sees acme: %v", role.name, acme)
		}
		for _, hash := range role.forbidden {
			b.screen(hash)
			b.shows("Your roles do not allow this.")
		}
		b.screen("/limit/dart/per-client/dart-1")
		b.shows("EXACT", "gw-1")
		b.screen("/top/CLIENT/REFUSED/tenant/dart/client/dart-1")
		b.shows("dart-1")
		if offered := strings.Contains(b.text(), "Read only"); offered != role.may {
			t.Errorf("%s: changes are offered: %v", role.name, offered)
		}
		if role.may {
			b.press("Read only")
			b.shows("Block for an hour")
			b.screen("/changes")
			b.shows("created")
			first := b.first()
			b.screen("/changes/" + first)
			b.shows("What revision " + first + " changed")
			time.Sleep(time.Second) // the answer to whether it may
			if offered := strings.Contains(b.text(), "Roll back to here"); offered != role.rollback {
				t.Errorf("%s: a rollback is offered: %v", role.name, offered)
			}
		}
		if stored := evaluate[string](b, "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])"); strings.Contains(
			stored, tokenOf(role.name)) {
			t.Errorf("the token is kept unasked: %s", stored)
		}
		b.press("Sign out")
		b.shows("Paste a token")
	}
}

// failover kills a coordinator while a screen is open. The page says so, and goes on when the coordinator is back.
// Meanwhile the other coordinator leads all pools: its page goes on at once, and says since when it knows the hour.
func (b *browser) failover(t *testing.T, s *system, other *browser) {
	other.shows("Paste a token")
	other.do(chromedp.SendKeys("input[type=password]", tokenOf("viewer")))
	other.press("Sign in")
	other.screen("/pool/api")
	other.shows("who fills api")
	b.screen("/")
	b.shows("who fills api")
	s.Coordinators[0].Kill()
	b.shows("Last news", "who fills api")
	b.picture("stale")
	other.shows("Leader\nguarded", "who fills api", "Known since")
	if err := s.Coordinators[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.hides("Last news")
}

// axe is the source of axe, which checks a page as a screen reader has it.
func axe(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(artifact.File(t, "TITRATE_AXE", "no-axe", "tools/sh/console.sh axe"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// accessible fails the test if axe finds something in the page.
func (b *browser) accessible(axe, name string) {
	b.t.Helper()
	if !evaluate[bool](b, "Boolean(window.axe)") {
		evaluate[bool](b, axe+";true")
	}
	found := evaluate[string](b, `axe.run({resultTypes: ["violations"]}).then((r) => r.violations.map((v) =>
		v.id + ": " + v.nodes.map((n) => n.target.join(" ") + " " + n.failureSummary).join("; ")).join("\n"))`)
	if found != "" {
		b.t.Errorf("%s: axe finds\n%s", name, found[:min(len(found), 3000)])
	}
}

// on is the tab for a part of the test.
func (b *browser) on(t *testing.T) *browser { return &browser{t: t, ctx: b.ctx} }
