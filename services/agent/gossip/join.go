package gossip

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
	// doubles with each attempt, and a random half of it is taken off: a cluster of many
	// does not come at once.
	joinLeast = time.Second
	joinMost  = 10 * time.Second
	// joinAtOnce is how many addresses are tried at a time, by a TCP connection each:
	// a cluster with hundreds of dead addresses costs no more.
	joinAtOnce = 8
)

// attempt is the next one at an address.
type attempt struct {
	at    time.Duration
	pause time.Duration
}

// join keeps the cluster whole until ctx ends: it tries without end the addresses of peers
// that failed or are silent, those that the coordinator knows, and --join. Two halves of a
// cluster that were apart for long know each other by these addresses only.
func (m *Node) join(ctx context.Context) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	start, attempts := time.Now(), map[string]attempt{}
	warned := false
	for {
		if to := m.due(time.Since(start), attempts); len(to) > 0 && !m.wire.cut.Load() {
			err := m.joinAll(to)
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

// joinAll joins the addresses at the same time: a dead one costs its timeout. The error is
// of one of them, nil if any has answered.
func (m *Node) joinAll(to []string) error {
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
func (m *Node) due(now time.Duration, attempts map[string]attempt) []string {
	missing, here := m.missing()
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

// missing returns the addresses at which no peer is known to be alive, of those that
// peers, --join and the coordinator name. here are the addresses of the other peers, and
// this agent's.
func (m *Node) missing() (out []string, here map[string]bool) {
	missing, heard := m.state.PeerAddresses()
	here = map[string]bool{m.Address(): true}
	for _, a := range heard {
		here[a] = true
	}
	out = slices.Concat(missing, m.o.Join)
	out = slices.DeleteFunc(out, func(a string) bool { return here[a] })
	slices.Sort(out)
	return slices.Compact(out), here
}

// allHere reports whether peers are alive at all addresses that a name stands for; false
// if the name does not resolve now.
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

// alone reports whether no peer is alive.
func (m *Node) alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.contacts {
		if c.alive {
			return false
		}
	}
	return true
}
