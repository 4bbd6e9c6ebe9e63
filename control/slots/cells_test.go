package slots

import (
	"slices"
	"testing"
)

// cell is one measurement.
type cell struct {
	limit, stay int64
	wanted      float64 // of the limit
	gateways    int
	weights     []float64
	wait        int64 // of requests in a queue; 0: none
}

type result struct{ use, refused, wrongly, messages, least float64 }

func (c cell) run(t *testing.T, without rule, seed uint64, d int64, faults ...func(*world)) result {
	w := newWorld(t, seed, c.limit, netParams{delay: millisecond / 4}, without)
	w.wait = c.wait
	all := 0.0
	for i := range c.gateways {
		w.newNode()
		all += c.weight(i)
	}
	rate := c.wanted * float64(c.limit) / float64(c.stay) * 1e9
	until := w.now + second + 5*c.stay + d
	for i, n := range w.nodes {
		w.load(n, until, rate*c.weight(i)/all, w.exponential(c.stay))
	}
	w.run(w.now + second + 5*c.stay)
	w.measure()
	for i, fault := range faults {
		w.after(d*int64(i+1)/int64(len(faults)+1), func() { fault(w) })
	}
	w.run(until)
	if w.most > 0 {
		t.Errorf("%+v: %d requests above the limit", c, w.most)
	}
	s := w.stat
	r := result{use: s.busy / float64(w.now-s.since) / float64(c.limit) / min(1, c.wanted),
		refused: float64(s.refused) / float64(s.wanted), wrongly: float64(s.wrongly) / float64(s.wanted), messages: float64(s.messages) / float64(s.wanted)}
	least, best := 1.0, 0.0
	for i := range w.nodes {
		got := float64(s.got1[i]) / float64(max(1, s.wanted1[i]))
		least, best = min(least, got), max(best, got)
	}
	r.least = least / best
	return r
}

func (c cell) weight(i int) float64 {
	if i < len(c.weights) {
		return c.weights[i]
	}
	return 1
}

// Use and wrongful refusals are within their bounds with all rules, and not without rules 6 to 10.
func TestCells(t *testing.T) {
	for _, c := range []cell{
		{20, second / 5, 1.5, 3, nil, 0}, {200, second / 5, 1.5, 3, nil, 0},
	} {
		if r := c.run(t, 0, 1, 600*second); r.use < .97 || r.wrongly > .015 {
			t.Errorf("%+v: %+v, want a use of .97 and .015 refused wrongly", c, r)
		} else {
			t.Logf("%+v: %+v", c, r)
		}
	}
	few, uneven := cell{20, second / 5, 1, 3, nil, 0}, cell{200, second / 5, 1.5, 3, []float64{8, 1, 1}, 0}
	for _, v := range []struct {
		cell
		without rule
		worse   func(r, without result) bool
	}{
		{few, 6, func(r, o result) bool { return o.wrongly > 4*r.wrongly }},
		{cell{20, second / 5, 20, 3, nil, 0}, 7, func(r, o result) bool { return o.messages > 2*r.messages }},
		{cell{200, second / 5, 1.5, 3, nil, 0}, 8, func(r, o result) bool { return o.wrongly > 2*r.wrongly }},
		{few, 9, func(r, o result) bool { return o.messages > 2*r.messages }},
		{uneven, 10, func(r, o result) bool { return o.least < .7*r.least }},
	} {
		r, o := v.run(t, 0, 1, 20*second), v.run(t, v.without, 1, 20*second)
		if !v.worse(r, o) {
			t.Errorf("%+v: without rule %d %+v, not worse than %+v", v.cell, v.without, o, r)
		} else {
			t.Logf("%+v: without rule %d %+v, with it %+v", v.cell, v.without, o, r)
		}
	}
}

// With a queue requests wait for seconds: below the limit hardly one is refused, above it all slots are in use.
func TestQueueOfACell(t *testing.T) {
	for _, v := range []struct {
		cell
		refused, use float64
	}{
		{cell{20, second / 5, .9, 3, nil, 5 * second}, .001, .99},
		{cell{20, second / 5, 1.5, 3, nil, second}, .4, .999},
		{cell{3, 2 * second, .7, 3, nil, 60 * second}, .01, .9}, // requests that wait for longer than a question holds
	} {
		r := v.run(t, 0, 1, 600*second)
		if t.Logf("%+v: %+v", v.cell, r); r.refused > v.refused || r.use < v.use {
			t.Errorf("%+v: %+v, want at most %v refused and a use of %v", v.cell, r, v.refused, v.use)
		}
	}
}

// Gateways that end without a word, and a network that is cut for 20 s, cost what their slots are worth.
func TestFaultsInCells(t *testing.T) {
	crash := func(w *world) {
		i := slices.IndexFunc(w.nodes, func(n *node) bool { return !n.gone })
		n := w.nodes[i]
		n.gone = true
		for r := range n.open {
			w.end(n, r)
		}
		s := w.owner()
		w.after(100*millisecond, func() { // its agent notices that the process has ended
			s.peers.Forget(n.peer)
			s.o.End(w.now, n.peer, outbox{w, s})
			w.schedule(s)
		})
		load := w.newNode()
		w.load(load, w.now+60*second, 17, w.exponential(second/5))
	}
	c := cell{20, second / 5, .5, 3, nil, 0}
	r := c.run(t, 0, 1, 60*second, crash, crash, crash, crash, crash)
	t.Logf("five crashes in 60 s: %+v", r)
	if r.wrongly > .005 {
		t.Errorf("%+v with five crashes: %+v, want .005 refused wrongly at most", c, r)
	}
	cut := func(w *world) { w.nodes[0].cutTil = w.now + 20*second }
	c = cell{2000, 60 * second, 1.5, 10, nil, 0}
	t.Logf("cut for 20 s: %+v", c.run(t, 0, 1, 100*second, cut))
}
