package mesh

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// joinEvery is the pause between two looks at who is missing.
	joinEvery = time.Second
	// joinLeast and joinMost bound the pause between two attempts at one address. It
	// doubles with each attempt, and a random half of it is taken off: a mesh of many
	// does not come at once.
	joinLeast = time.Second
	joinMost  = 10 * time.Second
	// joinAtOnce is how many addresses are tried at a time, by a TCP connection each:
	// a mesh with hundreds of dead addresses costs no more.
	joinAtOnce = 8
	// mostTold bounds the addresses that are taken from the coordinator.
	mostTold = 4096
)

// attempt is the next one at an address.
type attempt struct {
	at    time.Duration
	pause time.Duration
}

// join keeps the mesh whole until ctx ends: it goes on for ever to try the addresses
// of peers that failed or are silent, those that the coordinator knows, and --join.
// Two halves of a mesh that were apart for long know each other by these only.
func (m *Mesh) join(ctx context.Context) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	attempts := map[string]attempt{}
	warned := false
	for {
		if to := m.due(m.now(), attempts); len(to) > 0 && !m.wire.cut.Load() {
			err := m.try(to)
			if err != nil && !warned && ctx.Err() == nil && m.alone() {
				m.o.Log.Warn("no other agent answers yet; trying on", "join", to, "error", err)
			}
			warned = err != nil
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// try joins the addresses side by side: a dead one costs its timeout. The error is
// that of one of them, nil if any has answered.
func (m *Mesh) try(to []string) error {
	var all sync.WaitGroup
	errs := make([]error, len(to))
	for i := range to {
		all.Go(func() { _, errs[i] = m.list.Join(to[i : i+1]) })
	}
	all.Wait()
	if slices.Contains(errs, nil) {
		return nil
	}
	return errs[0]
}

// due picks the addresses to try now, the longest due first, and plans their next
// attempts.
func (m *Mesh) due(now time.Duration, attempts map[string]attempt) []string {
	missing, here := m.missing(now)
	return pick(now, attempts, missing, here)
}

func pick(now time.Duration, attempts map[string]attempt, missing []string, here map[string]bool) []string {
	for a := range attempts {
		if !slices.Contains(missing, a) {
			delete(attempts, a)
		}
	}
	slices.SortStableFunc(missing, func(a, b string) int { return cmp.Compare(attempts[a].at, attempts[b].at) })
	var out []string
	for _, a := range missing {
		if attempts[a].at > now || len(out) == joinAtOnce {
			break
		}
		pause := min(max(2*attempts[a].pause, joinLeast), joinMost)
		if allHere(a, here) {
			pause = joinMost
		} else {
			out = append(out, a)
		}
		attempts[a] = attempt{now + pause/2 + rand.N(pause/2), pause}
	}
	return out
}

// missing are the addresses at which no peer is known to be alive: of failed peers, of
// silent ones (they may know this agent by an older address), and of those that --join
// and the coordinator name. here are the addresses of the others, and this agent's.
func (m *Mesh) missing(now time.Duration) (out []string, here map[string]bool) {
	here = map[string]bool{m.Address(): true}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		switch {
		case p.left:
		case p.alive && m.speaks(now, p):
			here[p.node.Address()] = true
		default:
			out = append(out, p.node.Address())
		}
	}
	out = slices.Concat(out, m.o.Join, m.told)
	out = slices.DeleteFunc(out, func(a string) bool { return here[a] })
	slices.Sort(out)
	return slices.Compact(out), here
}

// allHere tells that peers are alive at all addresses that a name stands for. What
// does not resolve now is left to the attempt to join it.
func allHere(name string, here map[string]bool) bool {
	host, port, err := net.SplitHostPort(name)
	if err != nil || net.ParseIP(host) != nil {
		return false
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return false
	}
	ips, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	for _, ip := range ips {
		if !here[net.JoinHostPort(ip.String(), strconv.Itoa(number))] {
			return false
		}
	}
	return true
}

// alone tells that no peer is alive.
func (m *Mesh) alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if p.alive {
			return false
		}
	}
	return true
}

// SetAddresses takes in host:port of the agents that the coordinator hears: those at
// which no peer is alive are joined.
func (m *Mesh) SetAddresses(addresses []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = slices.Clone(addresses[:min(len(addresses), mostTold)])
}

// Missing are the names of peers that failed without a word, or that are silent
// although memberlist hears them: the mesh is not whole without them. One that failed
// long ago is left out if the coordinator does not hear it either: it has crashed.
func (m *Mesh) Missing() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	out := []string{}
	for name, p := range m.peers {
		switch {
		case p.left:
		case p.alive && (p.heard == 0 || m.speaks(now, p)):
		case !p.alive && now-p.failed > sendFailed && len(m.told) > 0 && !slices.Contains(m.told, p.node.Address()):
		default:
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
