package gossip

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
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
	// joinAtOnce bounds the addresses that are tried at a time, by a TCP connection each:
	// a cluster with hundreds of dead addresses costs no more.
	joinAtOnce = 8
	// resolveWait bounds the resolver's time for a name. By itself it tries for up to a minute.
	resolveWait = 2 * time.Second
)

// attempt is the next one at an address.
type attempt struct {
	at    time.Duration
	pause time.Duration
	back  bool // a peer is received there that memberlist takes for gone
	busy  bool // one is under way
}

// tried is an address at which an attempt has ended.
type tried struct {
	at  string
	err error // nil: an agent has answered, or all agents of the name are here
}

// join keeps the cluster whole until ctx ends: it tries without end the addresses of peers
// that failed or are unreachable, addresses of the coordinator, and --join. Two halves of a
// cluster that were apart for long know each other by these addresses only.
func (m *Node) join(ctx context.Context) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	start, attempts, over := time.Now(), map[string]*attempt{}, make(chan tried, joinAtOnce)
	warned := false
	for {
		missing, back, here := m.missing()
		if !m.wire.cut.Load() {
			for _, at := range pick(time.Since(start), attempts, missing, back) {
				m.joining.Go(func() { over <- tried{at, m.joinAt(ctx, at, here)} })
			}
		}
		select {
		case <-ctx.Done():
			return
		case t := <-over:
			if t.err != nil && !warned && ctx.Err() == nil && m.alone() {
				m.o.Log.Warn("no other agent answers yet; trying on", "join", t.at, "error", t.err)
			}
			warned = t.err != nil
			attempts[t.at].busy = false
		case <-tick.C:
		}
	}
}

// joinAt joins an address: a dead one costs its timeout, and a name that of the resolver.
func (m *Node) joinAt(ctx context.Context, to string, here map[string]bool) error {
	at, err := addressesOf(ctx, to)
	if err != nil {
		return err
	}
	if at = slices.DeleteFunc(at, func(a string) bool { return here[a] }); len(at) > 0 {
		if _, err = m.list.Join(at); err != nil && unopenable(err.Error()) {
			m.noteUnopened(to)
		}
	}
	return err
}

// pick picks the addresses to try now, the longest due first, and plans their next
// attempts. Where a peer begins to be received again it is tried at once. After a long cut
// the pause is long, and until then two agents each take themselves for the owner of a key.
func pick(now time.Duration, attempts map[string]*attempt, missing, back []string) (out []string) {
	busy := 0
	for at, next := range attempts {
		switch {
		case next.busy:
			busy++
		case !slices.Contains(missing, at):
			delete(attempts, at)
		}
	}
	for _, at := range missing {
		next := attempts[at]
		if next == nil {
			next = &attempt{}
			attempts[at] = next
		}
		is := slices.Contains(back, at)
		if is && !next.back {
			next.at, next.pause = min(next.at, now), 0
		}
		next.back = is
	}
	slices.SortStableFunc(missing, func(a, b string) int { return cmp.Compare(attempts[a].at, attempts[b].at) })
	for _, at := range missing {
		next := attempts[at]
		if next.at > now || busy+len(out) == joinAtOnce {
			break
		}
		if next.busy {
			continue
		}
		next.pause = min(max(2*next.pause, joinLeast), joinMost)
		next.at, next.busy = now+next.pause/2+rand.N(next.pause/2), true
		out = append(out, at)
	}
	return out
}

// missing returns the addresses at which no peer is known to be alive, among the addresses that
// peers, --join and the coordinator name. Of these it also returns the addresses at which one is
// received. here are the addresses of the other peers, and this agent's.
func (m *Node) missing() (out, back []string, here map[string]bool) {
	known := m.state.PeerAddresses()
	here = map[string]bool{m.Address(): true}
	for _, a := range known.Here {
		here[a] = true
	}
	out = slices.Concat(known.Missing, m.o.Join)
	out = slices.DeleteFunc(out, func(a string) bool { return here[a] })
	slices.Sort(out)
	return slices.Compact(out), known.Back, here
}

// addressesOf returns the addresses, host:port, that an address of a host or a name stands for.
func addressesOf(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(ips))
	for i, ip := range ips {
		out[i] = net.JoinHostPort(ip.String(), strconv.Itoa(number))
	}
	return out, nil
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
