// Package election chooses the coordinator that leads, in etcd.
//
// # Model
//
// Each candidate has an etcd session (a lease that it keeps alive) and a key under one
// prefix, with its address as the value. The candidate with the oldest key leads. A leader
// has an epoch, which fences older leaders: agents refuse leases of an epoch below the
// highest that they have obeyed. The epoch is the time of day in milliseconds, or the last epoch plus one if the clock
// is behind that. It is stored in etcd next to the candidates' keys. So it also rises after etcd was restored from a
// backup or replaced. If it did not rise, agents report a higher epoch, and the leader takes one above that.
//
//	Following ──elected──► Leading ──session lost──► Orphaned ──elected──► Leading
//	    ▲                                                │      (higher epoch)
//	    └───────────── another leads ────────────────────┘
//
// An orphaned candidate has led and does not know whether another leads now: etcd is away,
// or the session has ended. It may renew its last leases unchanged and nothing else. It
// follows as soon as it sees another leader, and leads again if it is elected.
//
// # Sharing
//
// Candidates may share the pools (Config.Share). Each of these puts its name, address and a secret next to the keys
// of the election, under its session. The elected candidate, the chair, writes the list of sharers with the epoch, in
// one transaction. All of these lead then, under the one epoch, each the pools that [Sharing.Leader] gives it. When a
// sharer comes or goes, or a pool has another home (homes.go), the chair writes the next epoch. So two candidates
// never lead one pool in one epoch, and agents refuse the older epoch.
//
// A candidate that does not share (an older release does not) may be elected as well. It writes an epoch and no
// sharers: the others stop leading when they see that epoch. It is never among the sharers while another candidate is
// the chair. And while agents that know one leader only are connected, the chair shares with no other candidate
// (HeardOlder).
//
// # Invariants
//
//   - Leading is left at the latest when the session's time to live has passed without
//     etcd, on this process's clock. Etcd gives the key to nobody earlier than that by more
//     than the delay of one message. The epoch fences that gap.
//   - Epochs rise: within one history of etcd always, beyond it by the clock and by
//     the epochs that agents report.
//   - A session ends when etcd was restored from a backup or is another cluster: the
//     events that the candidate waits for may never come.
//   - The absence of etcd does not end Run: it tries again. A leader that stops deletes
//     its key first.
package election

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/titrate/titrate/services/pause"
)

// Role is a candidate's part.
type Role uint8

// The roles.
const (
	Following Role = iota
	Leading
	Orphaned
)

var roleNames = [...]string{"following", "leading", "orphaned"}

// String is the role in a word.
func (r Role) String() string { return roleNames[r] }

// State is a candidate's state of the election.
type State struct {
	Role   Role
	Epoch  int64     // of this candidate, while Leading or Orphaned
	Leader string    // address of the leader; "" = none known
	Since  time.Time // of the role
	// Sharing says who leads which pools; nil: this candidate leads all, or none.
	Sharing *Sharing
}

// Config is a candidate's. All fields but Log and TTL are required.
type Config struct {
	Client  *clientv3.Client
	Prefix  string // of the keys, without a slash at its end
	Address string // that agents and clients reach this candidate at
	// Share makes the candidate share the pools with the others that do; Name and Site are its own then.
	Share      bool
	Name, Site string
	// TTL of the session, whole seconds, default 5 s. Shorter replaces a dead
	// leader sooner and makes a slow etcd cost the lead.
	TTL time.Duration
	Log *slog.Logger
}

// Elector is a candidate. Safe for concurrent use.
type Elector struct {
	config Config

	mu      sync.Mutex
	state   State
	changed chan struct{}
	etcd    error // nil while the session lives

	key            []byte           // secret of this candidate, as a sharer
	lease          clientv3.LeaseID // of its session; 0: there is none
	view           view             // what etcd has about sharing
	chair          bool             // it was elected
	leader         string           // address of the elected one, "" = not known, or this one
	older          time.Time        // until when it leads alone, if it is the chair
	sharersChanged chan struct{}    // one token: a chair should look who shares

	heard int64 // highest epoch that an agent has obeyed

	won, lost uint64 // elections, see Elections

	unrevoked clientv3.LeaseID // of a session that could not be revoked; Run's own
}

const (
	requestTimeout = 3 * time.Second
	minBackoff     = 100 * time.Millisecond
	maxBackoff     = 2 * time.Second
)

var (
	errNotYet       = errors.New("no session with etcd yet")
	errSessionEnded = errors.New("the session with etcd ended")
)

// New makes a candidate that follows until Run gets it elected.
func New(c Config) *Elector {
	if c.TTL < time.Second {
		c.TTL = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Elector{config: c, changed: make(chan struct{}), state: State{Since: time.Now()}, etcd: errNotYet,
		key: newKey(), sharersChanged: make(chan struct{}, 1)}
}

// State is the present state, and a channel that closes when it changes.
func (e *Elector) State() (State, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, e.changed
}

// Elections returns how often this candidate was elected, and how often it was not the elected one any
// more without having given that back. Then its session ended, or its key was deleted.
func (e *Elector) Elections() (won, lost uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.won, e.lost
}

// Etcd is nil while this candidate's session lives, otherwise why not.
func (e *Elector) Etcd() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.etcd
}

// Run takes part until ctx ends. Then it gives the lead back, at most requestTimeout later.
func (e *Elector) Run(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		started := time.Now()
		err := e.campaign(ctx)
		e.sessionEnded(ctx, err)
		if time.Since(started) > maxBackoff {
			backoff = minBackoff
		}
		pause.For(ctx, backoff/2+rand.N(backoff))
		backoff = min(2*backoff, maxBackoff)
	}
}

// sessionEnded notes the end of a session.
func (e *Elector) sessionEnded(ctx context.Context, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() == nil {
		e.lose()
	}
	e.etcd, e.chair, e.view, e.leader, e.lease = err, false, view{}, "", 0
	switch {
	case ctx.Err() != nil:
		e.set(State{Role: Following})
	case e.state.Role == Leading:
		e.config.Log.Warn("the lead is lost; shares are renewed unchanged", "epoch", e.state.Epoch, "error", err)
		e.set(State{Role: Orphaned, Epoch: e.state.Epoch, Sharing: e.state.Sharing})
	default:
		e.config.Log.Debug("no session with etcd", "error", err)
	}
}

// lose counts an election that this candidate had won, if it had. The lock is held.
func (e *Elector) lose() {
	if e.chair {
		e.lost++
	}
	e.chair = false
}

// set moves to a state; the lock is held.
func (e *Elector) set(s State) {
	s.Since = e.state.Since
	if s == e.state {
		return
	}
	if s.Role != e.state.Role || s.Epoch != e.state.Epoch {
		s.Since = time.Now()
	}
	e.state = s
	close(e.changed)
	e.changed = make(chan struct{})
}

// share begins an epoch if others should share the pools than do.
func (e *Elector) share(under context.Context, contest *concurrency.Election) error {
	if !e.sharersMoved() {
		return nil
	}
	return e.becomeLeader(under, contest)
}

// observe follows who leads until ctx ends.
func (e *Elector) observe(ctx context.Context, contest *concurrency.Election, own string) {
	for ctx.Err() == nil {
		for leader := range contest.Observe(ctx) {
			// A key with this candidate's own address was left by an earlier session of this candidate: nobody else
			// leads.
			kv := leader.Kvs[0]
			if value := string(kv.Value); string(kv.Key) != own && value != "" && value != e.config.Address {
				e.follow(value)
			}
		}
		pause.For(ctx, minBackoff)
	}
}

// follow notes that another candidate leads.
func (e *Elector) follow(leader string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leader != leader {
		e.config.Log.Info("another coordinator is elected", "leader", leader)
	}
	e.lose()
	e.leader = leader
	if e.config.Share && e.view.epoch == 0 {
		return // who shares is not read yet: take decides
	}
	if e.view.shares() {
		return // it shares the pools, until another one says who does
	}
	e.set(State{Role: Following, Leader: leader})
}
