package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// mostStops bounds the stops of the tabulator on one screen.
const mostStops = 400

// stop is the element that has the focus.
type stop struct {
	Tag, Text string
	Fault     string // what is wrong with it, such as that the reader cannot see it
}

func (s stop) String() string { return fmt.Sprintf("%s %q", s.Tag, s.Text) }

// lookAtFocus returns a stop. Of a page without a focus its tag is "".
const lookAtFocus = `(() => {
	const e = document.activeElement;
	if (!e || e === document.body) return {Tag: "", Text: "", Fault: ""};
	window.stops?.add(e);
	const label = e.labels?.[0]?.firstChild.textContent ?? e.getAttribute("aria-label");
	const text = e.tagName === "INPUT" || e.tagName === "SELECT" ? label : e.getAttribute("aria-label") ?? e.innerText;
	const r = e.getBoundingClientRect(), style = getComputedStyle(e);
	let fault = "";
	if (!e.matches(":focus-visible") || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) {
		fault = "it is not marked";
	} else if (r.width < 1 || r.height < 1 || r.bottom <= 0 || r.right <= 0 || r.top >= innerHeight || r.left >= innerWidth) {
		fault = "it is out of sight at " + [r.left, r.top, r.right, r.bottom].map(Math.round);
	} else {
		const left = Math.max(r.left, 0), right = Math.min(r.right, innerWidth);
		const top = Math.max(r.top, 0), bottom = Math.min(r.bottom, innerHeight);
		const seen = [.1, .5, .9].some((x) => [.1, .5, .9].some((y) => {
			const at = document.elementFromPoint(left + (right - left) * x, top + (bottom - top) * y);
			return at && (e.contains(at) || at.contains(e));
		}));
		if (!seen) fault = "something covers it";
	}
	return {Tag: e.tagName.toLowerCase(), Text: (text ?? "").trim().slice(0, 120), Fault: fault};
})()`

// key presses and lets go keys, as kb names them.
func (b *browser) key(keys string, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
}

// focus returns what has the focus, and fails the test if the reader cannot see it.
func (b *browser) focus() stop {
	b.t.Helper()
	s := evaluate[stop](b, lookAtFocus)
	if s.Fault != "" {
		b.t.Errorf("%s: the focus is on %v: %s", evaluate[string](b, "location.hash"), s, s.Fault)
	}
	return s
}

// focusIs waits until an element with a tag and a text has the focus. The focus is marked.
func (b *browser) focusIs(tag, text string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		s := b.focus()
		if s.Tag == tag && strings.Contains(s.Text, text) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("the focus is on %v, want %s %q", s, tag, text)
		}
	}
}

// tabTo presses the tabulator until an element with this text has the focus; back goes the other way.
func (b *browser) tabTo(tag, text string, back ...chromedp.Modifier) {
	b.t.Helper()
	var passed []string
	for range mostStops {
		b.key(kb.Tab, back...)
		s := b.focus()
		if s.Tag == tag && s.Text == text {
			return
		}
		passed = append(passed, s.String())
	}
	b.t.Fatalf("the tabulator does not lead to %s %q, but to %s", tag, text, strings.Join(passed[:min(len(passed), 60)], ", "))
}

// typed types a text slowly: news come meanwhile, each two seconds at least.
func (b *browser) typed(text string) {
	b.t.Helper()
	b.key(text[:len(text)/2])
	time.Sleep(2500 * time.Millisecond)
	b.key(text[len(text)/2:])
}

// walk presses the tabulator until the focus returns to its first stop. The focus comes by all that can be operated, is
// seen on each stop, and is never caught or lost.
func (b *browser) walk(t *testing.T, name string) {
	t.Helper()
	evaluate[bool](b, `(() => {
		window.stops = new Set();
		window.wanted = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")];
		return true;
	})()`)
	first, n := stop{}, 0
	for n = range mostStops {
		b.key(kb.Tab)
		before := evaluate[int](b, "window.stops.size")
		s := b.focus()
		if s.Tag == "" && n > 0 && !b.left() {
			t.Errorf("%s: the focus is lost after %d stops", name, n)
		}
		if n == 0 {
			first = s
		} else if s.Tag != "" && evaluate[int](b, "window.stops.size") == before {
			break // this stop came before
		}
	}
	missed := evaluate[[]string](b, `window.wanted.filter((e) => e.isConnected && e.checkVisibility() && !window.stops.has(e))
		.map((e) => e.tagName + " " + (e.innerText || e.getAttribute("aria-label") || e.labels?.[0]?.innerText))`)
	if len(missed) > 0 || n < 8 {
		t.Errorf("%s: from %v on, %d stops; the tabulator does not come to %q", name, first, n, missed)
	}
}

// left is whether the focus has left the page at its end: then the next stop is the first one of the page.
func (b *browser) left() bool {
	b.key(kb.Tab)
	return b.focus().Text == "Skip to the content"
}

// focusEmulated has the page behave as if its window had the focus.
func (b *browser) focusEmulated() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		b.t.Fatal(err)
	}
}

// keyboard does with keys alone what the screens are for. Without -whole it walks over each third screen.
func (b *browser) keyboard(t *testing.T, s *system) {
	b.focusEmulated()
	b.screen("/")
	b.shows("who fills api")
	b.do(chromedp.Reload())
	b.shows("who fills api")
	b.key(kb.Tab)
	b.focusIs("a", "Skip to the content")
	b.key(kb.Enter)
	b.focusIs("h1", "Fleet")
	for i, one := range realScreens {
		if !*whole && i%3 != 0 {
			continue
		}
		b.screen(one.hash)
		b.shows(one.words...)
		if one.name != "clients" { // with -whole it is another choice on the screen before
			b.focusIs("h1", "")
		}
		b.walk(t, one.name)
	}
	for _, name := range []string{"Fleet", "Who is limited", "Tenants", "Limit as picture", "Changes", "One request"} {
		b.tabTo("a", name, chromedp.ModifierShift)
		b.key(kb.Enter)
		b.focusIs("h1", name)
	}
	b.keysLimited()
	b.keysBlock(t, s)
	b.keysPlan()
	b.keysForms()
	guarded := tab(t, b.ctx, s.guarded)
	guarded.focusEmulated()
	guarded.keysSignIn(tokenOf("viewer"))
}

// keysLimited chooses and filters who is limited, and follows a row to why, while news come.
func (b *browser) keysLimited() {
	b.tabTo("a", "Who is limited", chromedp.ModifierShift)
	b.key(kb.Enter)
	b.focusIs("h1", "Who is limited")
	b.tabTo("select", "By")
	b.key("cl")
	b.shows("Refused, two minutes", "dart-1")
	b.focusIs("select", "By")
	b.tabTo("input", "Only client")
	b.typed("dart-1")
	b.key(kb.Enter)
	b.shows("dart-1")
	b.focusIs("input", "Only client")
	if hash := evaluate[string](b, "location.hash"); hash != "#/top/CLIENT/REFUSED/client/dart-1" {
		b.t.Errorf("the filter is %q", hash)
	}
	b.tabTo("a", "dart-1")
	b.key(kb.Enter)
	b.focusIs("h1", "Tenant dart")
	b.shows("What limits it", "Only client dart-1")
	b.key(kb.ArrowLeft, chromedp.ModifierAlt)
	b.screen("/top/CLIENT/REFUSED")
	b.shows("acme-1", "bursts")
	b.tabTo("a", "dart-2")
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if on := b.focus(); on.Text != "dart-2" {
			b.t.Fatalf("the focus was on the row of dart-2, and is on %v after news", on)
		}
	}
}

// keysBlock plans a block and cancels it, and plans and confirms it.
func (b *browser) keysBlock(t *testing.T, s *system) {
	const block = "Block client dart-2 of dart for an hour"
	blocked := func() int {
		l, err := s.api(t).ListOverrides(t.Context(), &quotav1.ListOverridesRequest{Parent: "tenants/dart/limits/blocked"})
		if err != nil {
			return 0 // there is no such limit
		}
		return len(l.GetOverrides())
	}
	before := blocked()
	b.tabTo("button", "Read only", chromedp.ModifierShift)
	b.key(" ")
	b.focusIs("button", "Changes allowed")
	b.tabTo("button", block)
	b.key(kb.Enter)
	b.focusIs("h2", block)
	b.shows("What would change")
	for range 8 {
		b.key(kb.Tab)
		if inside := evaluate[bool](b, `document.activeElement === document.body ||
			Boolean(document.activeElement.closest("dialog"))`); !inside {
			t.Errorf("from the dialog the tabulator leads to %v, behind it", b.focus())
		}
	}
	b.key(kb.Escape)
	b.focusIs("button", block)
	if n := blocked(); n != before {
		t.Errorf("%d clients are blocked after Escape, %d before", n, before)
	}
	b.key(kb.Enter)
	b.focusIs("h2", block)
	evaluate[bool](b, `document.querySelector("dialog").close(), document.activeElement.click(), true`) // in one frame
	b.focusIs("h2", block)
	b.shows("What would change")
	b.tabTo("input", "Why (kept in the history)")
	b.key("by keys")
	b.tabTo("button", "Confirm")
	b.key(kb.Enter)
	b.shows("Done: revision")
	b.focusIs("h2", block)
	b.tabTo("button", "Close")
	b.key(kb.Enter)
	b.focusIs("button", block)
	if n := blocked(); n != before+1 {
		t.Errorf("%d clients are blocked after Confirm, %d before", n, before)
	}
	b.tabTo("a", "Changes", chromedp.ModifierShift)
	b.key(kb.Enter)
	b.shows("by keys")
	first := b.first()
	b.tabTo("a", first)
	b.key(kb.Enter)
	b.focusIs("h1", "Changes")
	b.shows("What revision "+first+" changed", "Roll back to here")
	b.tabTo("button", "Roll back to here")
	b.key(kb.Enter)
	b.focusIs("h2", "Roll back to revision "+first)
	b.shows("tenants/dart/limits/blocked deleted")
	b.key(kb.Escape)
	b.focusIs("button", "Roll back to here")
	b.tabTo("button", "Changes allowed", chromedp.ModifierShift)
	b.key(kb.Enter)
	b.focusIs("button", "Read only")
}

// keysPlan asks what another capacity would do.
func (b *browser) keysPlan() {
	b.tabTo("a", "Fleet", chromedp.ModifierShift)
	b.key(kb.Enter)
	b.shows("who fills api")
	b.tabTo("a", "api")
	b.key(kb.Enter)
	b.focusIs("h1", "Pool api")
	b.shows("What if", "Shares, by tenant")
	b.tabTo("input", "Capacity")
	b.key("50")
	b.tabTo("button", "Plan")
	b.key(kb.Enter)
	b.shows("25/s → 50/s")
	b.focusIs("button", "Plan")
}

// keysForms asks for a request and for a picture, and opens what is folded.
func (b *browser) keysForms() {
	b.tabTo("a", "One request", chromedp.ModifierShift)
	b.key(kb.Enter)
	b.focusIs("h1", "One request")
	b.tabTo("input", "Request ID")
	b.key(refused.id(b.t))
	b.key(kb.Enter)
	b.shows("Refused: ")
	b.focusIs("h1", "One request")
	b.tabTo("summary", "Steps")
	open := func() bool { return evaluate[bool](b, "document.activeElement.parentElement.open") }
	was := open()
	b.key(" ")
	time.Sleep(2 * time.Second) // the page is drawn each second
	if open() == was {
		b.t.Error("space does not fold the steps, or they unfold by themselves")
	}
	b.tabTo("a", "Limit as picture", chromedp.ModifierShift)
	b.key(kb.Enter)
	b.shows("Choose a client")
	for i, text := range []string{"dart", "per-client", "dart-1"} {
		b.tabTo("input", []string{"Tenant", "Limit", "Client"}[i])
		b.key(text)
	}
	b.key(kb.Enter)
	b.focusIs("h1", "dart-1")
	b.shows("EXACT")
	b.key(kb.Tab, chromedp.ModifierShift)
	b.tabTo("a", "per-client of dart")
	b.key(kb.Enter)
	b.focusIs("h1", "Tenant dart")
}

// keysSignIn signs in and out.
func (b *browser) keysSignIn(token string) {
	b.shows("Paste a token")
	b.tabTo("input", "Token")
	b.key(token)
	b.key(kb.Enter)
	b.focusIs("h1", "")
	b.shows("Sign out")
	b.tabTo("button", "Sign out", chromedp.ModifierShift)
	b.key(kb.Enter)
	b.focusIs("h1", "Sign in")
}
