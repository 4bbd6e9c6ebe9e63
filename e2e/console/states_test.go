package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/titrate/titrate/services/console"
)

// state names a way in which the admin API of a test answers.
type state string

const (
	full      state = "full" // every text that it has is hostile
	empty     state = "empty"
	loading   state = "loading" // it does not answer
	failing   state = "failing"
	forbidden state = "forbidden"
)

// everyScreen has the words that each screen shows in a state. Without an entry it shows those of wordsOf.
var everyScreen = []struct {
	hash  string
	words map[state]string
}{
	{"/", map[state]string{empty: "There is no pool yet", full: "who fills"}},
	{"/pool/api", map[state]string{empty: "There is no such thing", full: "Refused, marked, waiting"}},
	{"/top/CLIENT/REFUSED", map[state]string{empty: "No request in the last minute", full: "Refused, two minutes"}},
	{"/tenants", map[state]string{loading: "tenants so far", empty: "There is no tenant yet", full: "1 tenant"}},
	{"/tenant/acme", map[state]string{empty: "Nothing is used in a period", full: "700 of 1,000"}},
	{"/limit", map[state]string{empty: "No client was limited", full: "Refused, two minutes"}},
	{"/limit/acme/l/c", map[state]string{empty: "There is no such thing", full: "is asked to give back"}},
	{"/changes", map[state]string{empty: "No change in this list was made for a set", full: "belongs to set other"}},
	{"/changes/7", map[state]string{empty: "There is no such thing", full: "What revision 7 changed"}},
	{"/changes/set/mine", map[state]string{empty: "Nothing belongs to it", full: "2 resources"}},
	{"/request/x", map[state]string{empty: "No gateway knows", full: "It may be sent again"}},
}

var wordsOf = map[state]string{loading: "Loading…", failing: "This could not be read.",
	forbidden: "Your roles do not allow this."}

// stated is an admin API in a state.
type stated struct{ now atomic.Value }

func (s *stated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	now := s.now.Load().(state)
	if strings.HasSuffix(r.URL.Path, ":access") {
		fmt.Fprint(w, `{"caller":"<img src=x onerror=document.title=1>","credential":"","grants":[{"role":"admin"}]}`)
		return
	}
	var status int
	var body string
	switch now {
	case loading:
		<-r.Context().Done()
		return
	case failing:
		status, body = http.StatusInternalServerError, `{"status":500,"message":"<img src=x onerror=document.title=1>"}`
	case forbidden:
		status, body = http.StatusForbidden, `{"status":403,"message":"<img src=x onerror=document.title=1>"}`
	default:
		if status, body = http.StatusOK, answerOf(now, r.URL.Path); body == "" {
			status, body = http.StatusNotFound, `{"status":404,"message":"<img src=x onerror=document.title=1>"}`
		}
	}
	w.WriteHeader(status)
	fmt.Fprint(w, strings.ReplaceAll(body, "NAME", hostile))
}

const activity = `{"tenant":"NAME","pool":"NAME","limit":"NAME","client":"NAME","gateway":"NAME","admitted":"60",
	"waited":"1","marked":"1","shadowed":"1","limitShadowed":"0","refused":"60","error":"0","waitedSeconds":1,"window":"60s",
	"newestPart":"5s","admittedParts":["9","9"],"refusedParts":["1","1"]}`

// answerOf is the answer for a path, "" if there is none.
func answerOf(now state, path string) string {
	list := func(name, one string) string {
		if now == empty {
			one = ""
		}
		return `"` + name + `":[` + one + `]`
	}
	const pool = `{"name":"pools/NAME","capacity":9,"sharing":"NAME","status":{"demand":12,"admitted":9,"fairRate":3,
		"price":1,"capacity":9,"inFlight":1,"leader":"NAME"},"set":"mine"}`
	const sample = `"admitted":9,"demand":12,"capacity":9,"fairRate":3,"waiting":1,"marked":1,"refused":3,
		"tenants":[{"tenant":"NAME","share":3,"admitted":3}]`
	const why = `"explanations":[{"tenant":"NAME","pool":"pools/NAME","sentence":"NAME","boundBy":"NAME","gateways":[
		{"gateway":"NAME","demand":1,"admitted":1}]}],"limits":[{"limit":"NAME","mode":"NAME","key":"NAME",
		"concurrency":"0","rate":1,"burst":1,"sentence":"NAME","gateways":[],"activity":` + activity + `}]`
	some := func(body string) string {
		if now == empty {
			return ""
		}
		return body
	}
	switch strings.TrimPrefix(path, "/v1alpha1") {
	case ":check":
		return `{` + list("findings", `{"category":"NAME","state":"OK","message":"NAME","advice":"NAME"}`) + `}`
	case ":top":
		return `{` + list("rows", activity) + `,"agents":1,` + list("silent", `"NAME"`) + `,` + list("notes", `"NAME"`) + `}`
	case "/pools":
		return `{` + list("pools", pool) + `}`
	case "/pools/api":
		return some(pool)
	case "/pools/api:history", "/pools/" + hostile + ":history":
		return some(fmt.Sprintf(`{"pool":"NAME","since":"2026-01-01T00:00:00Z","step":"10s","samples":[{"time":%q,%s},{"time":%q,%s}]}`,
			time.Now().Add(-20*time.Second).UTC().Format(time.RFC3339), sample,
			time.Now().Add(-10*time.Second).UTC().Format(time.RFC3339), sample))
	case "/gateways":
		return `{"revision":"7",` + list("gateways", `{"name":"NAME","agent":"NAME","revision":"7","behind":0,
			"refused":"6","reason":"NAME","leftOut":0,"site":"NAME","owned":3,"delay":"0.001s"}`) + `}`
	case "/tenants":
		return `{` + list("tenants", `{"name":"tenants/NAME","displayName":"NAME","weight":1,"set":"mine"}`) + `,"nextPageToken":""}`
	case "/tenants/acme":
		return `{"name":"tenants/acme","displayName":"NAME","weight":1,"plan":"","set":"NAME"}`
	case "/tenants/acme:why":
		if now == empty {
			return `{"notes":[],"clients":[],"explanations":[],"limits":[]}`
		}
		return `{"notes":["NAME"],"clients":[` + activity + `],` + why + `}`
	case "/tenants/acme/quotas":
		return `{` + list("quotas", `{"name":"tenants/acme/quotas/NAME","guaranteed":1,"mode":"NAME"}`) + `}`
	case "/tenants/acme/limits":
		return `{` + list("limits", `{"name":"tenants/acme/limits/NAME","key":"NAME","rate":"NAME","burst":1,"mode":"NAME",
			"concurrency":"0","quota":{"amount":1000,"per":"DAY","zone":"NAME"},
			"overrides":[{"client":"NAME","rate":"0","burst":1}]}`) + `}`
	case "/tenants/acme/usage":
		return `{` + list("usage", `{"id":"1","limit":"tenants/acme/limits/NAME","client":"NAME","period":"NAME","amount":1000,
			"begins":"2026-01-01T00:00:00Z","ends":"2026-02-01T00:00:00Z","admitted":700,"settled":700,"refused":5,
			"booked":800,"final":true,"lost":1}`) + `,"nextPageToken":""}`
	case "/plans", "/tenants/*/quotas", "/tenants/*/limits", "/tenants/*/overrides", "/tenants/acme/overrides":
		return `{"nextPageToken":""}`
	case "/tenants/acme/limits/l:bucket", "/tenants/acme/limits/" + hostile + ":bucket":
		return some(`{"limit":"NAME","client":"NAME","rate":1,"burst":9,"exact":true,"sentence":"NAME","agents":2,
			"silent":["NAME"],"owners":[{"agent":"NAME","free":3,"out":2,"site":"NAME"}],"gateways":[{"gateway":"NAME","agent":"NAME",
			"free":4,"rate":1,"admitted":1,"tokens":2,"granted":5,"returned":1,"whole":false,"need":1,"recalled":true},
			{"gateway":"","agent":"NAME","rate":0,"admitted":0,"tokens":0,"granted":0,"returned":0,"whole":true,"need":0}]}`)
	case "/revisions":
		return `{` + list("revisions", `{"revision":"NAME","previous":"1","time":"2026-01-01T00:00:00Z","author":"NAME",
			"message":"NAME","action":"NAME","set":"NAME","created":1,"updated":0,"deleted":0,"bytes":"1"}`) + `,"nextPageToken":""}`
	case "/revisions/NAME", "/revisions/" + hostile, "/revisions/7":
		return some(`{"revision":{"revision":"7","set":"mine","bytes":"1","author":"NAME"},"more":"0","changes":[
			{"name":"pools/NAME","before":{"pool":{"name":"pools/NAME","capacity":8,"set":"other"}},
			"after":{"pool":{"name":"pools/NAME","capacity":9,"set":"other"}}}]}`)
	case "/requests/x":
		return `{"agents":1,"silent":[],"remembered":"0",` + list("decisions", `{"request":"NAME","gateway":"NAME",
			"tenant":"NAME","client":"NAME","pool":"NAME","ago":"1s","cost":1,"refused":true,"reason":"NAME","limit":"NAME",
			"waited":"1s","heldBy":"NAME","revision":"7","retryAfter":"2s","steps":["NAME"],"limits":[{"limit":"NAME","client":"NAME",
			"passes":false,"rate":1,"burst":1,"free":0,"exact":true,"concurrency":"0","wait":"2s"}]}`) +
			`,"notes":["No gateway knows request NAME"]}`
	}
	return ""
}

// Every screen says in each state what it has: everything, not at all, not for this reader. With -whole it is also
// nothing and not yet. Names with HTML stay texts in all states.
func TestStates(t *testing.T) {
	t.Parallel()
	api := &stated{}
	api.now.Store(full)
	pages, err := console.New(api)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	t.Cleanup(pages.Close)
	b, source := tab(t, open(t), server.URL), ""
	if *whole {
		source = axe(t)
	}
	states, late := []state{full, failing, forbidden}, everyScreen[:2]
	if *whole {
		states, late = append(states, empty, loading), everyScreen[:7]
	}
	for _, now := range states {
		api.now.Store(now)
		for _, s := range everyScreen {
			b.screen("/request") // what was known of the screen is forgotten
			b.shows("The ID is in")
			b.screen(s.hash)
			words := s.words[now]
			if words == "" {
				words = wordsOf[now]
			}
			b.shows(words)
			name := string(now) + " " + s.hash
			b.harmless(t, name)
			if *whole {
				b.accessible(source, name)
				b.widths(t, name)
			}
		}
	}
	api.now.Store(full)
	b.zones(t)
	for _, s := range late {
		b.screen(s.hash)
		b.shows(s.words[full])
	}
	pages.Close()
	server.CloseClientConnections()
	for _, s := range late {
		b.screen(s.hash)
		if s.hash != "/tenants" { // it is read once
			b.shows("Last news")
		}
	}
}

// zones shows a time of UTC in zones of readers.
func (b *browser) zones(t *testing.T) {
	t.Helper()
	for _, one := range [][2]string{{"Asia/Tokyo", "Jan 1, 2026, 9:00:00"},
		{"America/New_York", "Dec 31, 2025, 7:00:00"}, {"", ""}} {
		if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride,
			emulation.SetTimezoneOverrideParams{TimezoneID: one[0]}); err != nil {
			t.Fatal(err)
		}
		b.do(chromedp.Reload()) // the page knows its zone from then on
		b.screen("/changes")
		b.shows(one[1])
	}
}

// harmless fails the test if a name has become an element or run as a script.
func (b *browser) harmless(t *testing.T, name string) {
	t.Helper()
	if n := evaluate[int](b, "document.querySelectorAll('img, script:not([src]), iframe').length"); n != 0 {
		t.Errorf("%s: %d elements that the console does not have", name, n)
	}
	if title := evaluate[string](b, "document.title"); !strings.Contains(title, "Titrate") {
		t.Errorf("%s: a name has run as a script: the title is %q", name, title)
	}
}

// widths fails the test if a page is wider than the narrowest or the widest screen, or hard to read there. Faults are a
// text beyond the edge that no box scrolls to, small letters, and long lines.
func (b *browser) widths(t *testing.T, name string) {
	t.Helper()
	for _, width := range []int64{360, 2560} {
		b.dress(width, "dark")
		for _, fault := range evaluate[[]string](b, `(() => {
			const out = [], page = document.scrollingElement;
			if (page.scrollWidth > innerWidth) out.push("the page scrolls sideways: " + page.scrollWidth + " px");
			for (const e of document.body.querySelectorAll("*")) {
				const r = e.getBoundingClientRect(), size = parseFloat(getComputedStyle(e).fontSize);
				if (!e.checkVisibility() || r.width === 0 || e.closest(".skip")) continue;
				const what = e.tagName + " " + e.textContent.slice(0, 40);
				const scrolls = e.parentElement.closest(".wide, .scroll, .columns");
				if ((r.left < 0 || r.right > innerWidth + 1) && !scrolls) out.push(what + " ends at " + r.right + " px");
				if (![...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.nodeValue.trim())) continue;
				if (size < 12) out.push(what + " has letters of " + size + " px");
				if (e.matches("p, li") && r.width > 75 * size) out.push(what + " has lines of " + r.width / size + " em");
			}
			return out.slice(0, 5);
		})()`) {
			t.Errorf("%s: on a screen of %d px %s", name, width, fault)
		}
	}
	b.dress(1280, "light")
}
