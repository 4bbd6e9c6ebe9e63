// Package hostile has two programs that send false messages, in their own processes: the program calls [Main] or
// [MainGateway] when it is started as one. Which fields they falsify, and how, is in package simulate/liar: numbers
// and texts at, below and beyond every bound.
//
// # Agent
//
// It joins the gossip. It has no gateway and no coordinator. It sends packets of others back to them, sealed in its
// own name, with some false fields: also about the gateways, keys, processes and sessions of others. It gives no
// answer about keys that it owns, so that ledgers decide: as their owner it could grant any amount.
//
// # Gateway
//
// It links with an agent as one more gateway. Behind it is a filter without an Envoy, with requests of some clients,
// so that it has keys, flows and sessions to send false numbers of. It names no others.
//
//	filter ──agentlink──► relay ──false messages──► agent
//	filter ◄──────────── relay ◄────────────────── agent
package hostile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/protobuf/proto"

	"github.com/titrate/titrate/proto/liar"
	gossipv1 "github.com/titrate/titrate/proto/titrate/gossip/v1alpha1"
	"github.com/titrate/titrate/services/agent/gossip"
	"github.com/titrate/titrate/services/agent/gossip/schedule"
)

// Command is the first argument of a program that is to be a hostile agent.
const Command = "hostile-agent"

// Args returns the arguments of a hostile agent: its name, its address, the agents to join, and a seed of its
// false packets.
func Args(name, bind string, join []string, seed uint64) []string {
	return []string{Command, name, bind, strings.Join(join, ","), strconv.FormatUint(seed, 10)}
}

// Main runs one with Args after Command, until it is killed.
func Main(args []string) error {
	if len(args) != 4 {
		return errors.New("hostile-agent needs a name, an address, addresses to join, and a seed")
	}
	seed, err := strconv.ParseUint(args[3], 10, 64)
	if err != nil {
		return fmt.Errorf("hostile-agent: seed %q: %w", args[3], err)
	}
	a := newAgent(args[0], strings.Split(args[2], ","), seed)
	node, err := gossip.Open(gossip.Options{Name: a.name, Bind: args[1], Join: a.join,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}, a)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return errors.Join(node.Run(ctx), node.Close())
}

// agent makes what the node gossips. Safe for concurrent use.
type agent struct {
	name   string
	join   []string
	fields []string // that it falsifies

	mu     sync.Mutex
	random *rand.Rand
	speaks liar.Liar
	seq    map[string]uint64  // by peer
	heard  []*gossipv1.Packet // of others, the last ones
	owned  map[uint64]bool    // keys of which others have asked it
	number uint32             // of messages about tokens
}

// remembered bounds the packets that it plays back.
const remembered = 64

func newAgent(name string, join []string, seed uint64) *agent {
	fields := slices.DeleteFunc(liar.Fields((&gossipv1.Packet{}).ProtoReflect().Descriptor()), func(field string) bool {
		return field == "agent" // the others drop that at once
	})
	return &agent{name: name, join: join, fields: fields, random: rand.New(rand.NewPCG(seed, 3)),
		seq: map[string]uint64{}, owned: map[uint64]bool{}}
}

// PeerSite, PeerAlive, PeerFailed, Round, LastRound, ReceivePackets and PeerAddresses make it a gossip.State.
func (a *agent) PeerSite(string, string) {}

// PeerAlive is described at PeerSite.
func (a *agent) PeerAlive(name, _ string, _ bool, _ uint8) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq[name]++
}

// PeerFailed is described at PeerSite.
func (a *agent) PeerFailed(name string) (inOrder bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seq, name)
	return false
}

// Round is described at PeerSite.
func (a *agent) Round(bool) (out []schedule.Outgoing, forgotten []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.seq {
		for range 2 {
			if p := a.packet(name); p != nil && proto.Size(p) <= schedule.MaxPacket {
				out = append(out, schedule.Outgoing{To: name, Packet: p})
			}
		}
	}
	return out, nil
}

// LastRound is described at PeerSite.
func (a *agent) LastRound() []schedule.Outgoing { return nil }

// ReceivePackets is described at PeerSite.
func (a *agent) ReceivePackets(packets ...*gossipv1.Packet) (drops []schedule.Drop, soon bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range packets {
		a.speaks.Hear(p)
		a.remember(p.GetTokens())
		drops = append(drops, schedule.Accepted)
	}
	a.heard = append(a.heard, packets...)
	a.heard = a.heard[max(0, len(a.heard)-remembered):]
	return drops, false
}

// PeerAddresses is described at PeerSite.
func (a *agent) PeerAddresses() schedule.Addresses { return schedule.Addresses{Missing: a.join} }

// packet falsifies a packet that it has received; nil: it has received none.
func (a *agent) packet(to string) *gossipv1.Packet {
	if len(a.heard) == 0 {
		return nil
	}
	p := proto.CloneOf(a.heard[a.random.IntN(len(a.heard))])
	a.seq[to]++
	p.Agent, p.Incarnation, p.Seq, p.PromiseMs = a.name, 1, a.seq[to], 50
	for _, r := range p.GetReplicas() {
		if a.random.IntN(2) == 0 { // else of a gateway of the others
			r.Name, r.Process, r.Generation, r.Seq = a.name, 1, 1, a.seq[to]
		}
	}
	if a.random.IntN(3) == 0 {
		p.Tokens = a.tokens(p)
	}
	for range a.random.IntN(4) {
		field := a.fields[a.random.IntN(len(a.fields))]
		if strings.HasPrefix(field, "tokens.") == (p.GetTokens() != nil) {
			a.speaks.Tell(p, field, a.random.IntN(1000))
		}
	}
	a.withhold(p.GetTokens())
	return p
}

// keyed is a record of one key.
type keyed interface{ GetKey() uint64 }

// remember notes the keys of which others have asked the agent as their owner.
func (a *agent) remember(m *gossipv1.Tokens) {
	note(a.owned, m.GetRequests())
	for _, asks := range m.GetSlots().GetAsks() {
		note(a.owned, asks.GetList())
	}
	for _, asks := range m.GetQuotas().GetAsks() {
		note(a.owned, asks.GetList())
	}
}

// withhold removes grants and recalls of keys that the agent owns.
func (a *agent) withhold(m *gossipv1.Tokens) {
	if m == nil {
		return
	}
	m.Grants = others(a.owned, m.GetGrants())
	m.Recalls = others(a.owned, m.GetRecalls())
	for _, replies := range m.GetSlots().GetReplies() {
		replies.List = others(a.owned, replies.GetList())
	}
	for _, replies := range m.GetQuotas().GetReplies() {
		replies.List = others(a.owned, replies.GetList())
	}
}

func note[R keyed](keys map[uint64]bool, records []R) {
	for _, r := range records {
		keys[r.GetKey()] = true
	}
}

// others returns the records of other keys.
func others[R keyed](keys map[uint64]bool, records []R) []R {
	return slices.DeleteFunc(records, func(r R) bool { return keys[r.GetKey()] })
}

// tokens asks for tokens of the keys that others use.
func (a *agent) tokens(p *gossipv1.Packet) *gossipv1.Tokens {
	m := &gossipv1.Tokens{}
	for _, r := range p.GetReplicas() {
		for _, k := range r.GetKeys()[:min(len(r.GetKeys()), 4)] {
			a.number++
			m.Requests = append(m.Requests, &gossipv1.TokenRequest{Key: k.GetKey(), Process: 1 + a.random.Uint64N(3),
				Session: 1, Number: a.number, Seq: a.number, Need: 1e6, Least: 1e6, Level: -1})
		}
	}
	return m
}
