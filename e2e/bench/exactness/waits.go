package exactness

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/titrate/titrate/papers/markdown"
)

// held are the filters' counts of requests that waited for tokens of EXACT limits.
type held struct {
	waits      map[int]float64 // how many waited for so many milliseconds, half a millisecond more or less
	unanswered float64         // number that the ledger decided, because the owner did not answer
}

// holder is a system whose limits hold requests.
type holder interface {
	// held returns the counts since the beginning; nil: the system holds no requests.
	held(ctx context.Context) (*held, error)
}

// flushed is the longest time until Envoy shows new values of a histogram.
const flushed = 6 * time.Second

// held asks the gateways that are there from the beginning.
func (s *ours) held(ctx context.Context) (*held, error) {
	if s.precision != "EXACT" {
		return nil, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(flushed):
	}
	h := &held{waits: map[int]float64{}}
	for _, url := range s.admins {
		page, err := s.rig.Get(ctx, url+"/stats?usedonly&histogram_buckets=detailed&filter=titrate_")
		if err == nil {
			err = h.read(page)
		}
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// read adds up Envoy's text form: "NAME: 12" is a counter; the name of a histogram is followed by
// "totals=LOWER,WIDTH:COUNT, …", bucket by bucket.
func (h *held) read(page string) error {
	of := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		name, text, counter := strings.Cut(line, ": ")
		totals, histogram := strings.CutPrefix(line, "totals=")
		switch {
		case strings.HasSuffix(line, ":"):
			of = line
		case counter && strings.Contains(name, "titrate_exact_unanswered_total"):
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			h.unanswered += n
		case histogram && strings.Contains(of, "titrate_wait_ms"):
			for bucket := range strings.SplitSeq(totals, ", ") {
				var lower, width, count float64
				if _, err := fmt.Sscanf(bucket, "%g,%g:%g", &lower, &width, &count); err != nil {
					return fmt.Errorf("bucket %q of %s %w", bucket, of, err)
				}
				h.waits[int(math.Round(lower))] += count
			}
		}
	}
	return nil
}

// since returns the counts since an earlier state of the same gateways.
func (h *held) since(before *held) *held {
	d := &held{waits: map[int]float64{}, unanswered: h.unanswered - before.unanswered}
	for ms, n := range h.waits {
		d.waits[ms] = n - before.waits[ms]
	}
	return d
}

// count returns the number of held requests.
func (h *held) count() (n float64) {
	for _, of := range h.waits {
		n += of
	}
	return n
}

// within is the least time, ms, within which a part of the held requests were answered.
func (h *held) within(part float64) float64 {
	var all []int
	for ms := range h.waits {
		all = append(all, ms)
	}
	slices.Sort(all)
	n := 0.
	for _, ms := range all {
		if n += h.waits[ms]; n >= part*h.count() {
			return float64(ms) + .5
		}
	}
	return 0
}

// waited is a row: the held requests while some cells ran.
type waited struct {
	*held
	limits   string
	requests int
}

// tabulateWaits has a row for each batch of cells.
func tabulateWaits(rows []waited) (all []markdown.Section) {
	if len(rows) == 0 {
		return nil
	}
	t := markdown.Section{Title: "Requests that waited for tokens of EXACT limits", Head: []string{"limits", "requests",
		"held", "p50 within, ms", "p99 within, ms", "decided by the ledger"}, Notes: []string{
		"Targets 1 ms and 5 ms. At the three gateways that are there all the time; times are whole milliseconds " +
			"and half a one."}}
	for _, r := range rows {
		t.Add(r.limits, r.requests, fmt.Sprintf("%.1f %%", 100*r.count()/float64(max(r.requests, 1))),
			fmt.Sprintf("%.1f", r.within(.5)), fmt.Sprintf("%.1f", r.within(.99)), fmt.Sprintf("%.0f", r.unanswered))
	}
	return append(all, t)
}
