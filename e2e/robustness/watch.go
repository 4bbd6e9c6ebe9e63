package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/robustness/check"
	"github.com/titrate/titrate/e2e/robustness/world"
)

// watcher looks at the gateways every second: epochs must not go back, filters
// must not panic, and how long the gossip takes is a part of the bounds.
type watcher struct {
	s      *scene
	cancel context.CancelFunc
	all    sync.WaitGroup

	findings []check.Finding
	epochs   map[string]epoch // by gateway
	panics   map[string]float64
	delays   []delay
	usages   map[string][]usage // by process
}

// delay of the gossip as an agent measures it.
type delay struct{ at, value time.Duration }

// delay returns the longest gossip delay outside faults: an agent that was frozen for seconds measures such a
// delay, which is no excuse.
func (w *watcher) delay(faults []check.Fault) (longest time.Duration) {
	for _, d := range w.delays {
		if !check.During(d.at, faults) {
			longest = max(longest, d.value)
		}
	}
	return longest
}

// epoch of the shares that a process had last.
type epoch struct {
	pid   int
	value float64
}

// status are the fields that are read of an agent's page.
type status struct {
	Epoch          int64   `json:"epoch"`
	ConfigRevision int64   `json:"configRevision"`
	SharesStale    bool    `json:"sharesStale"`
	Isolation      string  `json:"isolation"`
	GossipDelayMs  float64 `json:"gossipDelayMs"`
	Stream         struct {
		Connected bool `json:"connected"`
	} `json:"stream"`
	Gateways []struct {
		ConfigRevision  int64  `json:"configRevision"`
		RefusedRevision int64  `json:"refusedRevision"`
		RefusedReason   string `json:"refusedReason"`
	} `json:"gateways"`
	Peers []struct {
		Alive bool `json:"alive"`
	} `json:"peers"`
}

func watch(ctx context.Context, s *scene) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{s: s, cancel: cancel, epochs: map[string]epoch{}, panics: map[string]float64{},
		usages: map[string][]usage{}}
	w.all.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			w.look(ctx)
			if n%measureEvery == 0 {
				w.measure(ctx)
			}
		}
	})
	return w
}

// measureEvery is the number of seconds between two samples of the processes.
const measureEvery = 4

// done ends the watch.
func (w *watcher) done() *watcher {
	w.cancel()
	w.all.Wait()
	return w
}

// lookWithin is the longest wait for a page; a page that does not come is no finding: its process may be dead
// or frozen.
const lookWithin = 500 * time.Millisecond

func (w *watcher) look(ctx context.Context) {
	for _, g := range w.s.world.Gateways() {
		p := g.Envoy.Process()
		if p == nil {
			continue
		}
		within, cancel := context.WithTimeout(ctx, lookWithin)
		stats, err := g.Statistics(within)
		cancel()
		if err == nil {
			w.compare(g, p.PID(), stats)
		}
		if st, err := agentStatus(ctx, g); err == nil {
			w.delays = append(w.delays, delay{w.s.load.Now(), time.Duration(st.GossipDelayMs * 1e6)})
		}
	}
}

func (w *watcher) compare(g *world.Gateway, pid int, stats map[string]float64) {
	last, now := w.epochs[g.Name], epoch{pid, stats["titrate_shares_epoch"]}
	if last.pid == now.pid && now.value < last.value {
		w.find("epochs", "the filter of %s went from epoch %v to %v", g.Name, last.value, now.value)
	}
	w.epochs[g.Name] = now
	if n := stats["titrate_panics_total"]; n > 0 && n != w.panics[g.Name] {
		w.panics[g.Name] = n
		w.find("panics", "the filter of %s has recovered %v panics", g.Name, n)
	}
}

func (w *watcher) find(name, format string, args ...any) {
	w.findings = append(w.findings, check.Finding{Check: name, At: w.s.load.Now(), What: fmt.Sprintf(format, args...)})
}

func agentStatus(ctx context.Context, g *world.Gateway) (st status, err error) {
	within, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	page, err := g.Page(within, g.AgentURL()+"/status")
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal([]byte(page), &st)
}

// recovery is the time from the last fault until everything was as new.
type recovery struct {
	From    time.Duration `json:"from"` // since the load's start
	Took    time.Duration `json:"took"`
	Missing string        `json:"missing,omitempty"` // what was not, "" if all was
}

// asNewWithin is the bound of this time.
const asNewWithin = 15 * time.Second

// recover waits until everything is as new, for twice as long as it may take.
func (s *scene) recover(ctx context.Context, from time.Duration) recovery {
	began := time.Now()
	r := recovery{From: from}
	for ctx.Err() == nil {
		r.Took = time.Since(began)
		r.Missing = s.missing(ctx)
		if r.Missing == "" || r.Took > 2*asNewWithin {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	say("%7.1f s  all undone; as new after %.1f s %s", s.load.Now().Seconds(), r.Took.Seconds(), r.Missing)
	return r
}

// missing lists the parts that are not like new, "" if there are none.
func (s *scene) missing(ctx context.Context) string {
	var missing []string
	note := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	for _, c := range s.world.Coordinators {
		if _, err := s.world.Get(ctx, world.CoordinatorURL(c)+"/readyz"); err != nil {
			note("%s is not ready: %v", c.Name, err)
		}
	}
	gateways := s.world.Gateways()
	revision := s.api.Revision()
	for _, g := range gateways {
		stats, err := g.Statistics(ctx)
		switch {
		case err != nil:
			note("%s: %v", g.Name, err)
		case stats["titrate_link_connected"] != 1:
			note("the filter of %s has no agent", g.Name)
		case stats["titrate_shares_stale"] != 0 || stats["titrate_shares_epoch"] == 0:
			note("the shares of %s are stale, or there are none", g.Name)
		case int64(stats["titrate_config_revision"]) < revision-behind:
			note("%s has revision %.0f of %d", g.Name, stats["titrate_config_revision"], revision)
		}
		st, err := agentStatus(ctx, g)
		alive := 0
		for _, p := range st.Peers {
			if p.Alive {
				alive++
			}
		}
		switch {
		case err != nil:
			note("the agent of %s: %v", g.Name, err)
		case st.Isolation != "CONNECTED" || !st.Stream.Connected || st.SharesStale:
			note("the agent of %s is %s, stream %v, stale %v", g.Name, st.Isolation, st.Stream.Connected,
				st.SharesStale)
		case alive != len(gateways)-1:
			note("the agent of %s receives %d of %d others", g.Name, alive, len(gateways)-1)
		case len(st.Gateways) != 1 || st.Gateways[0].RefusedRevision != 0:
			note("the agent of %s has gateways %+v", g.Name, st.Gateways)
		}
	}
	return strings.Join(missing, "; ")
}

// behind is the number of revisions that a filter may lag while changes continue.
const behind = 2
