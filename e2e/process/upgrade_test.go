package process

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/lab/installation"
)

// before are the programs of the version before this one, or skips the test.
func before(t *testing.T, now binaries) binaries {
	t.Helper()
	dir := os.Getenv("TITRATE_PREVIOUS")
	if dir == "" {
		t.Skip("TITRATE_PREVIOUS is not set to a directory with titrate and libtitrate.so of the version before; " +
			"`make e2e-upgrade` builds them")
	}
	old := binaries{titrate: filepath.Join(dir, "titrate"), module: filepath.Join(dir, "libtitrate.so"), envoy: now.envoy}
	for _, path := range []string{old.titrate, old.module} {
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	return old
}

// part is a process that runs in one version or another: coordinator 1 and 2, the agents, the filters.
type part struct {
	kind string
	n    int
}

func (p part) String() string { return fmt.Sprint(p.kind, " ", p.n) }

// orders returns the orders by kind, and some random orders in which the versions of a kind stay mixed.
func orders() (all [][]part) {
	for _, kinds := range []string{"coordinator agent filter", "coordinator filter agent", "agent coordinator filter",
		"agent filter coordinator", "filter coordinator agent", "filter agent coordinator"} {
		var order []part
		for _, kind := range strings.Fields(kinds) {
			order = append(order, part{kind, 1}, part{kind, 2})
		}
		all = append(all, order)
	}
	for seed := range uint64(2) {
		order := slices.Clone(all[0])
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
		all = append(all, order)
	}
	return all
}

// change gives a part another version, as an operator does: a service is stopped and started again with its
// flags and files, an Envoy is restarted hot.
func (w *system) change(p part, to binaries) {
	w.t.Helper()
	switch p.kind {
	case "filter":
		w.reload(p.n-1, to)
	case "agent":
		w.replace(w.Gateways[p.n-1].Agent, to)
	default:
		w.replace(w.Coordinators[p.n-1].Server, to)
	}
}

func (w *system) replace(s *installation.Server, to binaries) {
	w.t.Helper()
	if err := s.Stop(); err != nil {
		w.t.Errorf("%s did not end when it was told to: %v", s.Name, err)
	}
	s.Path = to.titrate
	w.start(s)
}

// reload starts an Envoy with another module while the old one runs, and waits for the old one's end.
func (w *system) reload(gateway int, to binaries) {
	w.t.Helper()
	g := w.Gateways[gateway]
	modules, err := os.MkdirTemp(w.Dir, "modules-")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(to.module, filepath.Join(modules, "libtitrate.so")); err != nil {
		w.t.Fatal(err)
	}
	g.Spec.Env = append(slices.Clone(g.Spec.Env), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+modules) // the last one counts
	parent, err := g.HotRestart(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	exited(w.t, parent, patience)
}

// What one change adds to what the limited client may have, or takes from it, and adds to the tenant's max,
// requests. While an Envoy's parent drains, for a second here, two processes admit for one gateway, and when it
// ends it admits what it holds, at most a second's worth here. The next one begins without shares. An agent's
// count starts afresh (docs/guarantees.md).
var changes = map[string]allowance{
	"agent":  {more: thirtyRate, less: thirtyBurst},
	"filter": {more: thirtyRate, capped: cappedMax, refused: 3},
}

// TestUpgrade replaces the parts of an installation by those of another version, one after the other and in any
// order, under traffic. After each step all gateways take a change of the configuration, from a command of
// either version.
func TestUpgrade(t *testing.T) {
	now := need(t)
	old := before(t, now)
	all := orders()
	for _, order := range all {
		t.Run(fmt.Sprint(order), func(t *testing.T) { upgrade(t, old, now, order) })
	}
	for _, order := range [][]part{all[5], all[7]} { // filters first, as the way back is; and any
		t.Run(fmt.Sprint("back ", order), func(t *testing.T) { upgrade(t, now, old, order) })
	}
}

func upgrade(t *testing.T, from, to binaries, order []part) {
	w := newSystemOf(t, from, true)
	w.apply(strings.Replace(documents, "delayTarget: 10s", "delayTarget: 1s", 1))
	w.linked(t, patience, 0)
	load := w.begin(t)
	sum := allowance{void: .5}
	for i, p := range order {
		began := time.Now()
		w.change(p, to)
		w.bin = []binaries{from, to}[i%2]
		w.apply(tenant(fmt.Sprint("step-", i), i+1))
		w.linked(t, patience, 0)
		t.Logf("%s changed, and all gateways have the next configuration, after %.1f s", p, time.Since(began).Seconds())
		load.pass(t, .5)
		sum.more += changes[p.kind].more
		sum.less += changes[p.kind].less
		sum.capped += changes[p.kind].capped
		sum.refused += changes[p.kind].refused
	}
	load.end(t, sum)
	w.healthy(t)
}
