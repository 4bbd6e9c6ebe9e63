package console

import (
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

const (
	// mostBytes bounds what a browser without a cache takes until the first figures are there, bytes.
	mostBytes = 200_000
	// mostRequests bounds how many requests it makes for them: four files, roles, two streams, the hour of a pool, and
	// the weights of two tenants.
	mostRequests = 14
)

// load has the figures of one load of a page.
type load struct {
	Ready, Long     float64 // ms from the navigation to the first figures; of tasks that take more than 50 ms
	Requests, Bytes int
}

// ready measures from the first byte to the first figures of Fleet, without a cache. Times are reported and not judged;
// how many requests and bytes it takes is judged.
func (b *browser) ready(t *testing.T, base string) {
	if _, err := chromedp.Call(b.ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}); err != nil {
		t.Fatal(err)
	}
	loads := make([]load, 3)
	if *whole {
		loads = make([]load, 15)
	}
	for i := range loads {
		b.do(chromedp.Navigate(base))
		loads[i] = evaluate[load](b, `new Promise((done) => {
			let long = 0;
			new PerformanceObserver((l) => { for (const e of l.getEntries()) long += e.duration; })
				.observe({type: "longtask", buffered: true});
			const look = () => {
				const all = performance.getEntries().filter((e) => e.entryType === "navigation" || e.entryType === "resource");
				if (!document.querySelector(".water .names a") && performance.now() < 30000) return void setTimeout(look, 5);
				const ready = performance.now();
				done({Ready: ready, Long: long, Requests: all.length, Bytes: all.reduce((n, e) => n + e.transferSize, 0)});
			};
			look();
		})`)
		time.Sleep(200 * time.Millisecond)
	}
	slices.SortFunc(loads, func(x, y load) int { return int(x.Ready - y.Ready) })
	m := loads[len(loads)/2]
	t.Logf("figures after %.0f ms, median of %d loads from %.0f to %.0f ms; tasks above 50 ms: %.0f ms; %d requests, %d bytes",
		m.Ready, len(loads), loads[0].Ready, loads[len(loads)-1].Ready, m.Long, m.Requests, m.Bytes)
	for _, l := range loads {
		if l.Requests > mostRequests || l.Bytes > mostBytes || l.Bytes == 0 {
			t.Errorf("%d requests and %d bytes until the first figures, at most %d and %d", l.Requests, l.Bytes, mostRequests,
				mostBytes)
		}
	}
}
