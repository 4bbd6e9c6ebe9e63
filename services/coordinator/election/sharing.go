package election

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/titrate/titrate/services/pause"
)

// Sharer is a candidate that shares the pools with others.
type Sharer struct {
	Name    string `json:"name"`
	Address string `json:"address"` // that agents and the other sharers reach it at
	Key     []byte `json:"key"`     // its secret: who knows it has read it in etcd
	Site    string `json:"site,omitempty"`
	Joined  int64  `json:"joined"` // since this epoch it has shared in each; 0 in what it says of itself
}

func (s Sharer) equal(t Sharer) bool {
	return s.Name == t.Name && s.Address == t.Address && s.Site == t.Site && bytes.Equal(s.Key, t.Key)
}

// Sharing says who shares the pools in an epoch. It is the same at all sharers. It does not change.
type Sharing struct {
	Epoch   int64    `json:"epoch"`
	Chair   []byte   `json:"chair"`   // key of the sharer that was elected and wrote this
	Sharers []Sharer `json:"sharers"` // by name, one at least
	// Homes are the sites of pools that have one.
	Homes map[string]string `json:"homes,omitempty"`

	self []byte // key of the candidate that asks
}

// IsSelf reports whether a sharer is this candidate.
func (s *Sharing) IsSelf(one *Sharer) bool { return bytes.Equal(one.Key, s.self) }

// Leads reports whether this candidate leads a pool.
func (s *Sharing) Leads(pool string) bool { return s.IsSelf(s.Leader(pool)) }

// Self is this candidate, nil if it does not share.
func (s *Sharing) Self() *Sharer { return s.find(s.self) }

// GoesOn reports whether this candidate has shared the pools in each epoch from the given one on.
func (s *Sharing) GoesOn(from int64) bool {
	self := s.Self()
	return self != nil && self.Joined <= from
}

// Chairs reports whether this candidate was elected.
func (s *Sharing) Chairs() bool { return bytes.Equal(s.Chair, s.self) }

func (s *Sharing) find(key []byte) *Sharer {
	for i := range s.Sharers {
		if bytes.Equal(s.Sharers[i].Key, key) {
			return &s.Sharers[i]
		}
	}
	return nil
}

// Leader is the sharer that leads a pool: its name and the pool's have the highest hash (rendezvous hashing). A
// sharer that joins takes about its part of the pools from each of the others. The pools of a sharer that leaves go
// to all others; no other pool moves. Of a pool whose home has sharers one of these leads.
func (s *Sharing) Leader(pool string) *Sharer {
	best, highest, home := -1, uint64(0), s.Home(pool)
	for i := range s.Sharers {
		one := &s.Sharers[i]
		if h := rendezvous(one.Name, one.Address, pool); (home == "" || one.Site == home) && (best < 0 || h > highest) {
			best, highest = i, h
		}
	}
	return &s.Sharers[best]
}

// rendezvous is the hash of a sharer and a pool. Sharers of the same name differ by their address.
func rendezvous(name, address, pool string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s", name, pool)
	x := h.Sum64()
	// The finalizer of SplitMix64: FNV's high bits hardly depend on the last bytes.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	h.Reset()
	fmt.Fprintf(h, "%s", address)
	return x ^ h.Sum64()&0xff // among equal names alone
}

// view is the content of etcd about sharing.
type view struct {
	epoch   int64
	sharing *Sharing    // in force, so of that epoch; nil: the elected one does not share
	sharers []Sharer    // that live, by name
	said    []statement // by them
}

const (
	// shareWait is the time that a chair waits for more sharers to come or go, before the next epoch: coordinators
	// often start together.
	shareWait = 200 * time.Millisecond
	// aloneFor is the time for which the chair leads all pools after an agent connected that knows one leader only.
	aloneFor = time.Minute
)

// Key is the secret of this candidate, that others who read etcd know.
func (e *Elector) Key() []byte { return e.key }

func (e *Elector) sharingKey() string { return e.config.Prefix + "-sharing" }
func (e *Elector) sharersKey() string { return e.config.Prefix + "-sharers/" }

// newKey makes the secret of a candidate.
func newKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it does not fail
	return key
}

// HeardOlder notes an agent that knows one leader only: for a while the chair leads all pools.
func (e *Elector) HeardOlder() {
	e.mu.Lock()
	defer e.mu.Unlock()
	alone := time.Now().Before(e.older)
	if e.older = time.Now().Add(aloneFor); !alone {
		e.wakeChair()
	}
}

// Alone reports whether an agent that knows one leader only connected within aloneFor.
func (e *Elector) Alone() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.older)
}

// wakeChair makes a chair look who shares. The lock is held.
func (e *Elector) wakeChair() {
	select {
	case e.sharersChanged <- struct{}{}:
	default:
	}
}

// LeftOut reports whether the elected one is a candidate that shares, and has left out this one.
func (e *Elector) LeftOut() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.view.sharing != nil && !e.view.shares()
}

// register puts this candidate among the sharers, for as long as its session lives.
func (e *Elector) register(ctx context.Context, session clientv3.LeaseID) error {
	e.mu.Lock()
	e.lease = session
	e.mu.Unlock()
	return e.say(ctx, session, statement{Sharer: e.self()})
}

func (e *Elector) self() Sharer {
	return Sharer{Name: e.config.Name, Address: e.config.Address, Key: e.key, Site: e.config.Site}
}

// watchSharing follows who shares until ctx ends.
func (e *Elector) watchSharing(ctx context.Context) {
	for ctx.Err() == nil {
		revision, err := e.readSharing(ctx)
		if err != nil {
			pause.For(ctx, minBackoff)
			continue
		}
		watching, cancel := context.WithTimeout(ctx, 5*checkEvery) // then it is read again, whatever was missed
		for range e.config.Client.Watch(watching, e.config.Prefix+"-", clientv3.WithPrefix(),
			clientv3.WithRev(revision+1)) {
			if _, err = e.readSharing(ctx); err != nil {
				break
			}
		}
		cancel()
	}
}

// readSharing reads what etcd has now.
func (e *Elector) readSharing(ctx context.Context) (revision int64, err error) {
	asking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	got, err := e.config.Client.Get(asking, e.config.Prefix+"-", clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() == nil { // else the session has ended
		e.take(e.viewOf(got.Kvs))
	}
	return got.Header.Revision, nil
}

// viewOf reads keys. Values that cannot be read do not count.
func (e *Elector) viewOf(kvs []*mvccpb.KeyValue) (v view) {
	for _, kv := range kvs {
		key := string(kv.Key)
		var says statement
		switch {
		case key == e.epochKey():
			v.epoch, _ = strconv.ParseInt(string(kv.Value), 10, 64)
		case key == e.sharingKey():
			s := &Sharing{self: e.key}
			if json.Unmarshal(kv.Value, s) == nil && len(s.Sharers) > 0 {
				v.sharing = s
			}
		case len(key) > len(e.sharersKey()) && key[:len(e.sharersKey())] == e.sharersKey():
			if json.Unmarshal(kv.Value, &says) == nil && says.Address != "" && len(says.Key) > 0 {
				v.sharers, v.said = append(v.sharers, says.Sharer), append(v.said, says)
			}
		}
	}
	if v.sharing != nil && v.sharing.Epoch != v.epoch { // who was elected since does not share
		v.sharing = nil
	}
	sortSharers(v.sharers)
	v.sharers = slices.CompactFunc(v.sharers, Sharer.equal)
	return v
}

// shares reports whether this candidate is among the sharers.
func (v *view) shares() bool { return v.sharing != nil && v.sharing.Self() != nil }

func sortSharers(s []Sharer) {
	slices.SortFunc(s, func(a, b Sharer) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address), bytes.Compare(a.Key, b.Key))
	})
}

// take puts a view in force. The lock is held, and the session lives.
func (e *Elector) take(v view) {
	if !slices.EqualFunc(v.said, e.view.said, statement.equal) {
		e.wakeChair()
	}
	e.view = v
	if e.chair {
		return // it has written what is in force
	}
	s := v.sharing
	switch in := v.shares(); {
	case in && e.state.Role == Leading && e.state.Epoch == s.Epoch:
	case in:
		if e.state.Role != Leading {
			e.config.Log.Info("shares the pools", "epoch", s.Epoch, "sharers", len(s.Sharers))
		}
		e.set(State{Role: Leading, Epoch: s.Epoch, Leader: s.ChairAddress(), Sharing: s})
	case e.state.Role == Leading:
		e.config.Log.Info("shares the pools no more", "epoch", v.epoch)
		e.set(State{Role: Following, Leader: e.leader})
	case e.leader != "": // also if it was orphaned
		e.set(State{Role: Following, Leader: e.leader})
	}
}

// ChairAddress returns the address of the chair.
func (s *Sharing) ChairAddress() string {
	if one := s.find(s.Chair); one != nil {
		return one.Address
	}
	return ""
}

// joined notes since when each of the sharers of an epoch has shared: those of the last epoch go on. The lock is held.
func (e *Elector) joined(epoch int64, sharers []Sharer) []Sharer {
	last := e.view.sharing
	for i := range sharers {
		sharers[i].Joined = epoch
		if last == nil {
			continue
		}
		if was := last.find(sharers[i].Key); was != nil {
			sharers[i].Joined = was.Joined
		}
	}
	return sharers
}

// wanted lists the sharers of the next epoch: the live sharers, this candidate among them; only this candidate while an
// agent knows one leader only. The lock is held.
func (e *Elector) wanted() []Sharer {
	self := e.self()
	if time.Now().Before(e.older) {
		return []Sharer{self}
	}
	out := slices.DeleteFunc(slices.Clone(e.view.sharers), func(s Sharer) bool {
		return s.Address == self.Address // also one of an earlier life
	})
	out = append(out, self)
	sortSharers(out)
	return slices.CompactFunc(out, func(a, b Sharer) bool { return a.Address == b.Address })
}

// sharersMoved reports whether others should share than do, or pools have another home. Only a chair asks.
func (e *Elector) sharersMoved() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state.Sharing
	return e.config.Share && s != nil &&
		(!slices.EqualFunc(e.wanted(), s.Sharers, Sharer.equal) || !maps.Equal(e.homes(), s.Homes))
}
