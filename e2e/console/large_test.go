package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/titrate/titrate/services/console"
)

// A large installation.
const manyTenants, manyGateways, pageSize = 10_000, 100, 1000

// large answers as the admin API of a large installation does, each second with other figures, and each two rows of
// top in the other order.
func large(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	list := func(name string, n int, one func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = one(i)
		}
		return fmt.Sprintf(`%q:[%s]`, name, strings.Join(all, ","))
	}
	now := time.Now().Unix()
	switch r.URL.Path {
	case "/v1alpha1:access":
		fmt.Fprint(w, `{"caller":"test","credential":"","grants":[]}`)
	case "/v1alpha1:check":
		fmt.Fprintf(w, `{%s}`, list("findings", int(now%2)*20, func(i int) string {
			return fmt.Sprintf(`{"category":"c","state":"WARNING","message":"finding %d","advice":""}`, i)
		}))
	case "/v1alpha1/pools":
		fmt.Fprintf(w, `{%s}`, list("pools", 1, func(int) string {
			return fmt.Sprintf(`{"name":"pools/api","capacity":1e6,"status":{"demand":%d,"admitted":%d,"fairRate":90,
				"price":0,"capacity":1e6,"inFlight":0,"leader":"a"}}`, 900_000+now%1000, 800_000+now%1000)
		}))
	case "/v1alpha1:top":
		fmt.Fprintf(w, `{%s,"agents":%d,"silent":[],"notes":[]}`, list("rows", 200, func(i int) string {
			return fmt.Sprintf(`{"tenant":"tenant-%05d","pool":"","limit":"","client":"","gateway":"","admitted":"%d",
				"waited":"0","marked":"0","shadowed":"0","refused":"%d","error":"0","waitedSeconds":0,"window":"60s",
				"newestPart":"5s","admittedParts":["9","9","%d"],"refusedParts":["1","1","1"]}`, i^int(now%2), 6000-i, i, now%9)
		}), manyGateways)
	case "/v1alpha1/gateways":
		fmt.Fprintf(w, `{"revision":"7",%s}`, list("gateways", manyGateways, func(i int) string {
			return fmt.Sprintf(`{"name":"gw-%03d","agent":"gw-%03d","revision":"7","behind":%d,"refused":"0","leftOut":0,"owned":%d,
				"site":"site-%d"}`, i, i, (now+int64(i))%50/49, i, i%3)
		}))
	case "/v1alpha1/tenants":
		from := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("page_token"), &from)
		next := ""
		if from+pageSize < manyTenants {
			next = fmt.Sprint(from + pageSize)
		}
		fmt.Fprintf(w, `{%s,"nextPageToken":%q}`, list("tenants", pageSize, func(i int) string {
			return fmt.Sprintf(`{"name":"tenants/tenant-%05d","displayName":"Tenant %d","weight":1}`, from+i, from+i)
		}), next)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"status":404,"message":"not here"}`)
	}
}

// Lists of 10,000 tenants and 100 gateways have only the rows in the document that are seen. The focus goes with a row
// that moves, and to the list if its row leaves. News above it do not push it out of sight.
func TestLargeInstallation(t *testing.T) {
	t.Parallel()
	pages, err := console.New(http.HandlerFunc(large))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	t.Cleanup(pages.Close)
	b := tab(t, open(t), server.URL+"/#/tenants")
	b.shows("10,000 tenants")
	t.Logf("ready after %d ms", evaluate[int](b, `Math.round(performance.now())`))
	rows := func() int { return evaluate[int](b, `document.querySelectorAll("tr").length`) }
	if n := rows(); n > 100 {
		t.Errorf("%d rows of tenants in the document", n)
	}
	b.focusEmulated()
	evaluate[bool](b, `(document.querySelector("td a").focus(), true)`)
	b.key(kb.End)
	b.shows("tenant-09999")
	b.focusIs("div", "Tenants") // the row of before is not in the document any more
	evaluate[string](b, `(() => { const i = document.querySelector("input"); i.value = "01234";
		i.dispatchEvent(new Event("input")); return "" })()`)
	b.shows("tenant-01234")
	if n := rows(); n != 2 {
		t.Errorf("%d rows, want the title and the tenant", n)
	}
	b.screen("/top")
	b.shows("tenant-00002")
	evaluate[bool](b, `([...document.querySelectorAll("td a")].find((a) => a.innerText === "tenant-00002").focus(), true)`)
	place := func() int { return evaluate[int](b, `document.activeElement.closest("tr").rowIndex`) }
	for range 2 { // one move is of its row, one of the other row
		for at, end := place(), time.Now().Add(patience); place() == at; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the rows stay in one order")
			}
		}
		b.focusIs("a", "tenant-00002")
	}
	b.screen("/")
	b.shows("gw-000", "fair level")
	if n := rows(); n > 140 { // at most 20 are findings
		t.Errorf("%d rows of gateways in the document", n)
	}
	// The longest time for which the page does not draw, over some seconds of news.
	worst := evaluate[float64](b, `new Promise((done) => {
		let last = performance.now(), worst = 0, until = last + 2000;
		const frame = (at) => {
			worst = Math.max(worst, at - last);
			last = at;
			if (at < until) requestAnimationFrame(frame); else done(worst);
		};
		requestAnimationFrame((at) => { last = at; requestAnimationFrame(frame); });
	})`)
	t.Logf("the longest frame took %.0f ms", worst)
	b.tabTo("a", "gw-000")
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		b.focusIs("a", "gw-000") // in sight
	}
}
