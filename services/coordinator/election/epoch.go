package election

import (
	"context"
	"errors"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/titrate/titrate/services/store"
)

const (
	// lookEvery is how often a candidate looks whether etcd is still the one that it
	// was, and a leader whether its epoch is high enough.
	lookEvery = time.Second
	// ahead is how far beyond the time of day an epoch or a revision may be that an
	// agent claims to have obeyed. A larger one is a mistake, or is made up.
	ahead = 30 * 24 * time.Hour
)

// Plausible tells whether an agent may have obeyed an epoch, or hold a revision.
func Plausible(epoch int64) bool { return epoch <= time.Now().Add(ahead).UnixMilli() }

func (e *Elector) epochKey() string { return e.config.Prefix + "-epoch" }

// claim stores the next epoch, while this candidate has the leader's key.
func (e *Elector) claim(under context.Context, contest *concurrency.Election) (int64, error) {
	for {
		stored, unchanged, err := e.storedEpoch(under)
		if err != nil {
			return 0, err
		}
		e.mu.Lock()
		epoch := max(stored+1, e.heard+1, e.state.Epoch+1, time.Now().UnixMilli())
		e.mu.Unlock()
		asking, cancel := context.WithTimeout(under, requestTimeout)
		done, err := e.config.Client.Txn(asking).
			If(clientv3.Compare(clientv3.CreateRevision(contest.Key()), "=", contest.Rev()), unchanged).
			Then(clientv3.OpPut(e.epochKey(), strconv.FormatInt(epoch, 10))).
			Else(clientv3.OpGet(contest.Key())).Commit()
		cancel()
		switch {
		case err != nil:
			return 0, err
		case done.Succeeded:
			return epoch, nil
		case len(done.Responses[0].GetResponseRange().Kvs) == 0:
			return 0, errors.New("the leader's key was deleted")
		}
	}
}

// storedEpoch reads the last epoch, and the condition that it still is.
func (e *Elector) storedEpoch(under context.Context) (epoch int64, unchanged clientv3.Cmp, err error) {
	asking, cancel := context.WithTimeout(under, requestTimeout)
	defer cancel()
	got, err := e.config.Client.Get(asking, e.epochKey())
	if err != nil {
		return 0, unchanged, err
	}
	if len(got.Kvs) == 0 {
		return 0, clientv3.Compare(clientv3.CreateRevision(e.epochKey()), "=", 0), nil
	}
	kv := got.Kvs[0]
	// One that cannot be read counts as none: the clock and the agents know better.
	epoch, _ = strconv.ParseInt(string(kv.Value), 10, 64)
	return epoch, clientv3.Compare(clientv3.ModRevision(e.epochKey()), "=", kv.ModRevision), nil
}

// Heard notes the epoch that an agent has obeyed. A leader with a lower one takes one
// above it within lookEvery.
func (e *Elector) Heard(epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if Plausible(epoch) {
		e.heard = max(e.heard, epoch)
	}
}

func (e *Elector) outdated() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard > e.state.Epoch
}

// patrol returns when this session is of no use any more, with the reason, or when
// ctx ends. etcd may have gone back; then it may never bring the events that the
// campaign or the lead waits for.
func (e *Elector) patrol(ctx context.Context, own string) error {
	var seen store.History
	for wrong := 0; ctx.Err() == nil; wait(ctx, lookEvery) {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		got, err := e.config.Client.Get(asking, e.config.Prefix+"/", clientv3.WithFirstCreate()...)
		cancel()
		if err != nil {
			continue
		}
		if err := seen.Observe(got.Header.ClusterId, got.Header.Revision); err != nil {
			return err
		}
		state, _ := e.State()
		if first := len(got.Kvs) > 0 && string(got.Kvs[0].Key) == own; first == (state.Role == Leading) {
			wrong = 0
		} else if wrong++; wrong == misses {
			return errors.New("etcd does not tell this candidate of its turn, or that it is over")
		}
	}
	return nil
}

// misses is how many looks in a row must contradict what a candidate believes: an
// event may be on its way.
const misses = 3
