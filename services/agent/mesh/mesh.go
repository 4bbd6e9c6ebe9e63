package mesh

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/mesh/pace"
)

const (
	// sendFailed is how long a peer that memberlist gave up is still sent to.
	sendFailed = 5 * time.Minute
	// keepFailed is how long its address is still tried, keepMost how many such peers
	// are kept: the one that failed first makes room.
	keepFailed = 24 * time.Hour
	keepMost   = 256
	// inbox is how many frames wait for the mesh, of 1.4 KB each: more are dropped.
	inbox = 4096
	// gap is how many periods without a round are taken for a pause of this process.
	gap = 5
	// longestPromise bounds for how long a silent agent may count as heard.
	longestPromise = 10 * time.Second
	// maxName bounds an agent's name, in bytes.
	maxName = 256
	// label keeps other users of memberlist out.
	label = "titrate"
)

// State is what a mesh carries; package tally has it.
type State interface {
	// Outgoing is the state of the local replicas as it is to be gossiped now.
	Outgoing(now time.Duration) []*gossipv1.Replica
	// Hear takes in the state of replicas at another agent, in one of its lives (they
	// are counted by the hearer), which promises to speak again within promise. It must not block.
	Hear(now time.Duration, agent string, life uint64, promise time.Duration, replicas []*gossipv1.Replica)
	// SetDelay tells the largest one-way delay in force.
	SetDelay(d time.Duration)
}

// Options of a Mesh.
type Options struct {
	Name        string        // unique in the mesh
	Incarnation uint64        // differs with each start of the agent; rises, for agents of version 1
	Bind        string        // IP:port, UDP and TCP; port 0 takes a free one
	Advertise   string        // host:port that others reach it at; "" = as bound
	Join        []string      // host:port of any others; may name itself
	Key         []byte        // of AES: 16, 24 or 32 bytes; none = no encryption
	Period      time.Duration // P; default 50 ms
	Start       time.Time     // origin of State's now; default now
	Log         *slog.Logger

	newest uint8 // version of the gossip; default current. For tests.
}

// Mesh is this agent's place among the agents. Safe for concurrent use.
type Mesh struct {
	o     Options
	state State
	wire  *transport
	list  *memberlist.Memberlist
	self  identity
	poke  chan struct{}
	inbox chan []byte // frames

	mu      sync.Mutex
	peers   map[string]*peer
	senders map[sender]*peer // those with a session
	pace    pace.Pace
	told    []string      // addresses, by the coordinator
	ran     time.Duration // when Run last went round
	late    time.Duration // this process did not run until then

	dropped [drops]atomic.Uint64
}

// peer is another agent.
type peer struct {
	node        memberlist.Node
	alive       bool // memberlist's word
	version     uint8
	session     *session // nil in version 1
	life        uint64   // counts the processes that it has been, as seen from here
	failed      time.Duration
	left        bool          // it said goodbye
	incarnation uint64        // as it says
	heard       time.Duration // 0 = never
	lastSeq     uint64        // latest heard from it, and when
	lastAt      time.Duration
	seq         uint64 // latest sent to it
	delays      pace.Delay
}

// Open opens the port. Run starts the work.
func Open(o Options, state State) (*Mesh, error) {
	o.Period = cmp.Or(o.Period, exchange.DefaultPeriod)
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	ip, port, err := resolve(o.Bind)
	if err != nil {
		return nil, fmt.Errorf("mesh: --gossip: %w", err)
	}
	m := &Mesh{o: o, state: state, poke: make(chan struct{}, 1), inbox: make(chan []byte, inbox),
		peers: map[string]*peer{}, senders: map[sender]*peer{}, pace: pace.Pace{Period: o.Period}}
	if m.self, err = newIdentity(o.Key, cmp.Or(o.newest, current)); err != nil {
		return nil, err
	}
	wire, err := newTransport(ip, port)
	if err != nil {
		return nil, err
	}
	m.wire = wire
	wire.serve(m.take)
	c, err := m.config(logAdapter(o.Log))
	if err == nil {
		m.list, err = memberlist.Create(c)
	}
	if err != nil {
		_ = wire.Shutdown() // it never served
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return m, nil
}

// Address is where the mesh listens, with the port that was given by the system.
func (m *Mesh) Address() string {
	n := m.list.LocalNode()
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}

// Poke tells that a gateway announced something new: it is sent at once, though
// not more often than twice a period.
func (m *Mesh) Poke() {
	select {
	case m.poke <- struct{}{}:
	default:
	}
}

// Partition cuts the agent off from all others, or ends that. For tests and
// demonstrations.
func (m *Mesh) Partition(on bool) { m.wire.cut.Store(on) }

func (m *Mesh) now() time.Duration { return time.Since(m.o.Start) }

// resolve turns host:port into an IP and a port; an empty host is all of IPv4.
func resolve(address string) (net.IP, int, error) {
	a, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, 0, fmt.Errorf("address %q: want host:port: %w", address, err)
	}
	if a.IP == nil {
		a.IP = net.IPv4zero
	}
	if v4 := a.IP.To4(); v4 != nil {
		a.IP = v4
	}
	return a.IP, a.Port, nil
}
