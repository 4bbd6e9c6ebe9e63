package queues

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/papers/markdown"
)

const (
	cooperative = "cooperative"
	openLoop    = "open-loop"
	retrying    = "retrying"

	capacity = 150.0                  // requests/s of each pool
	clients  = 10                     // of each cell
	target   = 100 * time.Millisecond // delay target
	longest  = time.Second            // wait
	useful   = 500 * time.Millisecond // after which an answer is of no use
	warmUp   = 5 * time.Second
)

// laws by the name that pools have for them here.
var laws = []struct{ name, aqm, queue string }{
	{"variable-structure", "VARIABLE_STRUCTURE", ""},
	{"codel", "CODEL", ""},
	{"drop-tail", "DROP_TAIL", ""},
	// A queue as long as the longest wait: a buffer without a law.
	{"long-drop-tail", "DROP_TAIL", fmt.Sprint(longest)},
}

// Run measures every law with every kind for so long.
func Run(ctx context.Context, r *rig.Rig, duration time.Duration) ([]Figures, []markdown.Section, error) {
	cells, documents := plan()
	in, err := r.Installation(ctx, "queues", documents)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Stop() }() // the rig kills processes that do not end
	g, err := in.Join(ctx, rig.Spec{Name: "queues", PoolHeader: true})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = g.Stop() }()
	r.Say("queues: %d laws with 3 kinds of clients, %v at once", len(laws), duration+warmUp)
	for _, c := range cells {
		c.url = "http://" + g.Address() + "/"
		c.http = withPool(c.tenant())
	}
	figures, err := play(ctx, cells, duration)
	return figures, []markdown.Section{tabulate(figures, duration)}, err
}

// plan makes the cells and the documents of their pools.
func plan() (cells []*cell, documents string) {
	var b strings.Builder
	for _, l := range laws {
		for _, kind := range []string{cooperative, openLoop, retrying} {
			c := &cell{law: l.name, kind: kind}
			cells = append(cells, c)
			delay := target.String()
			if l.queue != "" {
				delay = l.queue
			}
			fmt.Fprintf(&b, "{apiVersion: titrate.dev/v1alpha1, kind: Pool, name: pools/%s, spec: {capacity: %g, "+
				"queue: {aqm: %s, delayTarget: %s, maxWait: %v}}}\n---\n",
				c.tenant(), capacity, l.aqm, delay, longest)
			fmt.Fprintf(&b, "{apiVersion: titrate.dev/v1alpha1, kind: Tenant, name: tenants/%s, spec: {weight: 1}}\n"+
				"---\n", c.tenant())
		}
	}
	return cells, strings.TrimSuffix(b.String(), "---\n")
}

// withPool returns a transport that names the pool, with its own connections.
func withPool(pool string) http.RoundTripper {
	t := &http.Transport{MaxIdleConnsPerHost: 1000}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r.Header.Set("x-pool", pool)
		return t.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// play loads all cells at once. What came before the warm-up's end does not count.
func play(ctx context.Context, cells []*cell, duration time.Duration) ([]Figures, error) {
	ctx, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for _, c := range cells {
		all.Go(func() { c.run(ctx) })
	}
	if err := rig.Sleep(ctx, warmUp); err != nil {
		return nil, err
	}
	for _, c := range cells {
		c.take()
	}
	if err := rig.Sleep(ctx, duration); err != nil {
		return nil, err
	}
	var figures []Figures
	for _, c := range cells {
		figures = append(figures, c.take())
	}
	return figures, nil
}

// take returns the counts since the last call.
func (c *cell) take() Figures {
	c.mu.Lock()
	f, waits := c.seen, c.waits
	c.seen, c.waits = Figures{}, nil
	c.mu.Unlock()
	f.Law, f.Kind = c.law, c.kind
	for _, w := range waits {
		f.MeanMs += w / float64(len(waits))
	}
	f.P99Ms = judge.Quantile(waits, .99)
	return f
}

func tabulate(figures []Figures, duration time.Duration) markdown.Section {
	t := markdown.Section{
		Title: fmt.Sprintf("Queues: delay target %v, longest wait %v, useful time %v, %.0f/s each", target, longest,
			useful, capacity),
		Head: []string{"clients", "law", "wait mean", "wait p99", "goodput", "refused", "marked", "given up"},
	}
	for _, kind := range []string{cooperative, openLoop, retrying} {
		for _, f := range figures {
			if f.Kind != kind {
				continue
			}
			part := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, f.Asked))) }
			t.Add(kind, f.Law, fmt.Sprintf("%.0f ms", f.MeanMs), fmt.Sprintf("%.0f ms", f.P99Ms),
				fmt.Sprintf("%.2f", float64(f.Good)/duration.Seconds()/capacity), part(f.Refused), part(f.Marked),
				part(f.Failed))
		}
	}
	return t
}
