package console

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is the time that a test waits for what a sound console shows within a second or two.
const patience = 30 * time.Second

// browser is one tab of Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// open starts a Chromium, or skips the test; with TITRATE_E2E=1 it fails it.
func open(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		complain := t.Skipf
		if os.Getenv("TITRATE_E2E") == "1" {
			complain = t.Fatalf
		}
		complain("no Chromium in PATH: tools/sh/need.sh chromium installs Debian's")
	}
	all, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(patience))...)
	t.Cleanup(cancel)
	return all
}

// tab opens a tab, of a new Chromium or of that of another tab. A script that fails, and all that the page's policy
// forbids, fails the test.
func tab(t *testing.T, of context.Context, base string) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(of)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("a script fails: %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if strings.Contains(e.Entry.Text, "Content Security Policy") {
				t.Errorf("forbidden by the page's policy: %s", e.Entry.Text)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(base))
	return b
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate returns the value of an expression of JavaScript.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience+5*time.Second) // an expression may wait for patience itself
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression[:min(len(expression), 80)], err)
	}
	return value
}

// text returns what the page shows.
func (b *browser) text() string { return evaluate[string](b, "document.body.innerText") }

// shows waits until the page has all of these words, without regard to case.
func (b *browser) shows(words ...string) {
	b.t.Helper()
	wanted, err := json.Marshal(words)
	if err != nil {
		b.t.Fatal(err)
	}
	if missing := evaluate[string](b, fmt.Sprintf(`new Promise((done) => {
		const until = performance.now() + %d;
		const look = () => {
			const text = document.body.innerText.toLowerCase();
			const missing = %s.find((w) => !text.includes(w.toLowerCase()));
			if (missing === undefined || performance.now() > until) done(missing ?? ""); else setTimeout(look, 20);
		};
		look();
	})`, patience.Milliseconds(), wanted)); missing != "" {
		b.t.Fatalf("the page does not show %q:\n%s", missing, b.text())
	}
}

// screen opens a screen by its address.
func (b *browser) screen(hash string) {
	b.t.Helper()
	if before, found := strings.CutSuffix(hash, refusedID); found {
		hash = before + refused.id(b.t)
	}
	evaluate[string](b, "location.hash = "+strconv.Quote(hash))
}

// press clicks the first button with a text.
func (b *browser) press(text string) {
	b.t.Helper()
	if !evaluate[bool](b, `(() => {
		const found = [...document.querySelectorAll("button")].find((b) => b.innerText.trim() === `+strconv.Quote(text)+`);
		found?.click();
		return Boolean(found);
	})()`) {
		b.t.Fatalf("the page has no button %q:\n%s", text, b.text())
	}
}

// dress shows the page at a width, in light or dark colours.
func (b *browser) dress(width int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		b.t.Fatal(err)
	}
}

// document writes a part of the page as a picture for the documents, if these are wanted, once the page has a word.
func (b *browser) document(name, selector, word string, width int64) {
	b.t.Helper()
	if *documented == "" {
		return
	}
	b.dress(width, "light")
	time.Sleep(30 * time.Second) // pictures over time grow
	b.shows(word)
	r := evaluate[[]float64](b, `(() => { const r = document.querySelector(`+strconv.Quote(selector)+
		`).getBoundingClientRect(); return [r.x + scrollX, r.y + scrollY, r.width, r.height]; })()`)
	shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatWebp, Quality: new(int64(80)), CaptureBeyondViewport: new(true),
		Clip: &page.Viewport{X: r[0], Y: r[1], Width: r[2], Height: min(r[3], 1000), Scale: 1}})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*documented, name+".webp"), shot.Data, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.dress(1280, "light")
}

// sightless are kinds of colour-blindness that Chromium imitates, for the pictures of some screens.
var sightless = map[string][]emulation.SetEmulatedVisionDeficiencyType{
	"pool": {"protanopia", "deuteranopia", "tritanopia", "achromatopsia"}, "exact": {"deuteranopia"}}

// picture writes what the tab shows into a file, if pictures are wanted.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {1280, "dark"}, {360, "light"}, {2560, "dark"}} {
		b.dress(look.width, look.scheme)
		b.shoot(fmt.Sprintf("%s-%d-%s", name, look.width, look.scheme))
	}
	b.dress(1280, "light")
	for _, kind := range append(sightless[name], "none") {
		if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedVisionDeficiency,
			emulation.SetEmulatedVisionDeficiencyParams{Type: kind}); err != nil {
			b.t.Fatal(err)
		}
		if kind != "none" {
			b.shoot(name + "-" + string(kind))
		}
	}
}

// shoot writes what the tab shows into a file.
func (b *browser) shoot(name string) {
	b.t.Helper()
	time.Sleep(1200 * time.Millisecond) // the figures of a second
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
