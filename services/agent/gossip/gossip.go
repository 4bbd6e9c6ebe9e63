package gossip

import (
	"cmp"
	"fmt"
	"log"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/titrate/titrate/control/exchange"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
	"golang.org/x/time/rate"
)

const (
	// inboxFrames bounds the frames of 1.4 KB that wait to be read: more are dropped.
	inboxFrames = 4096
	maxEvents   = 4096
	// readAtOnce is the number of packets that State is given together. Their wait, for its lock above all, is as long
	// for one: an agent with much to do would read a few packets a second.
	readAtOnce = 16
	// longestInbox is the longest wait of a frame there: older ones are dropped. An agent that receives more than it
	// can read would else read only what is old, acknowledge it too late, and be sent all of it again, for ever.
	longestInbox = schedule.Longest / 2
	// maxName bounds an agent's name, in bytes, maxSite that of its site.
	maxName, maxSite = 256, 128
	// label keeps other users of memberlist out.
	label = "titrate"
)

// State makes the messages that the agents gossip, and keeps the other agents' ones; package core has it. Its methods
// must not block, and must not call the Node.
type State interface {
	// PeerSite notes the site of a peer, before PeerAlive.
	PeerSite(name, site string)
	// PeerAlive notes that memberlist knows a peer as alive, see [schedule.Peers.Alive].
	PeerAlive(name, address string, newLife bool, version uint8)
	// PeerFailed notes that a peer has failed or left, see [schedule.Peers.Failed].
	PeerFailed(name string) (inOrder bool)
	// Round returns the packets that are due, at a tick of half a period or soon after a
	// fresh claim or sum, and the names of peers that were forgotten.
	Round(soon bool) (out []schedule.Outgoing, forgotten []string)
	// LastRound returns the packets to send when the agent stops in order.
	LastRound() []schedule.Outgoing
	// ReceivePackets takes packets, each of the agent that it names, and says of each why it was dropped, if it was;
	// soon asks for a round.
	ReceivePackets(packets ...*gossipv1.Packet) (drops []schedule.Drop, soon bool)
	// PeerAddresses returns the addresses of peers, see [schedule.Peers.Addresses].
	PeerAddresses() schedule.Addresses
}

// Options of a Node.
type Options struct {
	Name      string        // unique in the cluster
	Site      string        // at most maxSite bytes
	Bind      string        // IP:port, UDP and TCP; port 0 takes a free one
	Advertise string        // host:port that others reach it at; "" = as bound
	Join      []string      // host:port of any others; may name itself
	Keys      [][]byte      // of AES: 16, 24 or 32 bytes; the first seals, all open; none = no encryption
	Period    time.Duration // P; default 50 ms
	Paced     bool          // the caller calls Round when something is due; else Run does, each half period
	Log       *slog.Logger

	newest uint8 // version of the gossip; default current. For tests.
}

// Node is this agent's end of the gossip. Safe for concurrent use.
type Node struct {
	o     Options
	state State
	wire  *transport
	list  *memberlist.Memberlist
	self  identity
	ring  *memberlist.Keyring // the gossip keys in use; nil: no encryption
	inbox chan *frame
	// events has what memberlist says of peers. Once maxEvents wait memberlist waits, too.
	events chan memberlist.NodeEvent

	frames sync.Pool // of *frame: what was in the inbox
	boxes  sync.Pool // of *outbox
	// Of the inbox's reader: the last packet in the clear, and packets that State is given together.
	plain []byte
	read  []*gossipv1.Packet

	joining sync.WaitGroup

	mu       sync.Mutex
	contacts map[string]*contact
	senders  map[sender]*contact // those with a session

	dropped  [schedule.Drops]atomic.Uint64
	conflict rate.Sometimes // bounds the lines about two agents of one name
	unopened unopened
}

// frame is a sealed packet that has come.
type frame struct {
	bytes []byte
	came  time.Time
}

// contact is the address and the session of another agent.
type contact struct {
	node    memberlist.Node
	alive   bool     // according to memberlist
	version uint8    // of the gossip; 0: none in common
	session *session // nil: no version in common
}

// Open opens the port. Run starts the work.
func Open(o Options, state State) (*Node, error) {
	o.Period = cmp.Or(o.Period, exchange.DefaultPeriod)
	ip, port, err := resolve(o.Bind)
	if err != nil {
		return nil, fmt.Errorf("gossip: --gossip: %w", err)
	}
	m := &Node{o: o, state: state, inbox: make(chan *frame, inboxFrames),
		events:   make(chan memberlist.NodeEvent, maxEvents),
		contacts: map[string]*contact{}, senders: map[sender]*contact{},
		conflict: rate.Sometimes{First: 1, Interval: time.Minute},
		unopened: unopened{lines: rate.Sometimes{First: 1, Interval: unopenedFor}}}
	if m.self, err = newIdentity(cmp.Or(o.newest, current)); err != nil {
		return nil, err
	}
	m.self.site = o.Site
	if len(o.Keys) > 0 {
		if m.ring, err = memberlist.NewKeyring(o.Keys, o.Keys[0]); err != nil {
			return nil, fmt.Errorf("gossip: %w", err)
		}
	}
	wire, err := newTransport(ip, port)
	if err != nil {
		return nil, err
	}
	m.wire = wire
	wire.serve(m.enqueue)
	c, err := m.config(log.New(lines{m}, "", 0))
	if err == nil {
		m.list, err = memberlist.Create(c)
	}
	if err != nil {
		_ = wire.Shutdown() // it never served
		return nil, fmt.Errorf("gossip: %w", err)
	}
	return m, nil
}

// Address returns the node's address, with the port that the system gave.
func (m *Node) Address() string {
	n := m.list.LocalNode()
	return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
}

// SendSoon sends what is fresh now and not with the next tick, though not more often than
// twice a period to one peer.
func (m *Node) SendSoon() { m.send(m.state.Round(true)) }

// Partition cuts the agent off from all others, or ends that. For tests and
// demonstrations.
func (m *Node) Partition(on bool) { m.wire.cut.Store(on) }

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

// Stats are cumulative counters of datagrams, memberlist's own among them, in
// bytes as they are on the wire without IP and UDP headers.
type Stats struct {
	BytesIn, BytesOut     uint64
	PacketsIn, PacketsOut uint64
	Keys                  int // gossip keys in force, of now
	Dropped               [schedule.Drops]uint64
}

// Stats returns the counters.
func (m *Node) Stats() Stats {
	s := Stats{BytesIn: m.wire.bytesIn.Load(), BytesOut: m.wire.bytesOut.Load(),
		PacketsIn: m.wire.in.Load(), PacketsOut: m.wire.out.Load(), Keys: m.Keys()}
	for i := range s.Dropped {
		s.Dropped[i] = m.dropped[i].Load()
	}
	return s
}
