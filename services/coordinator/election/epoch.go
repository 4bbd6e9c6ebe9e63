package election

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/titrate/titrate/services/pause"
	"github.com/titrate/titrate/services/store"
)

const (
	// checkEvery is the interval at which a candidate checks that etcd has not been restored or replaced, and a leader
	// that its epoch is high enough.
	checkEvery = time.Second
	// maxAhead bounds how far an epoch or a revision of an agent may lie beyond the time of day. A larger one is a
	// mistake, or invented.
	maxAhead = 30 * 24 * time.Hour
)

// Plausible reports whether an agent can have obeyed the epoch, or have the revision.
func Plausible(epoch int64) bool { return epoch <= time.Now().Add(maxAhead).UnixMilli() }

func (e *Elector) epochKey() string { return e.config.Prefix + "-epoch" }

// nextEpoch stores the next epoch, while this candidate has the leader's key, and who shares the
// pools in it; nil: this candidate leads all.
func (e *Elector) nextEpoch(under context.Context, contest *concurrency.Election) (int64, *Sharing, error) {
	for {
		stored, unchanged, err := e.storedEpoch(under)
		if err != nil {
			return 0, nil, err
		}
		e.mu.Lock()
		epoch := max(stored+1, e.heard+1, e.state.Epoch+1, time.Now().UnixMilli())
		writes := []clientv3.Op{clientv3.OpPut(e.epochKey(), strconv.FormatInt(epoch, 10))}
		var sharing *Sharing
		if e.config.Share {
			sharing = &Sharing{Epoch: epoch, Chair: e.key, Sharers: e.joined(epoch, e.wanted()),
				Homes: e.homes(), self: e.key}
		}
		e.mu.Unlock()
		if sharing != nil {
			value, err := json.Marshal(sharing)
			if err != nil {
				return 0, nil, err
			}
			writes = append(writes, clientv3.OpPut(e.sharingKey(), string(value)))
		}
		asking, cancel := context.WithTimeout(under, requestTimeout)
		done, err := e.config.Client.Txn(asking).
			If(clientv3.Compare(clientv3.CreateRevision(contest.Key()), "=", contest.Rev()), unchanged).
			Then(writes...).
			Else(clientv3.OpGet(contest.Key())).Commit()
		cancel()
		switch {
		case err != nil:
			return 0, nil, err
		case done.Succeeded:
			return epoch, sharing, nil
		case len(done.Responses[0].GetResponseRange().Kvs) == 0:
			return 0, nil, errors.New("the leader's key was deleted")
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
	// A value that cannot be read counts as 0: the clock and the agents' epochs are higher.
	epoch, _ = strconv.ParseInt(string(kv.Value), 10, 64)
	return epoch, clientv3.Compare(clientv3.ModRevision(e.epochKey()), "=", kv.ModRevision), nil
}

// Heard notes the epoch that an agent has obeyed. A leader with a lower one takes one above it within checkEvery.
func (e *Elector) Heard(epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if Plausible(epoch) {
		e.heard = max(e.heard, epoch)
	}
}

func (e *Elector) epochTooLow() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard > e.state.Epoch
}

// checkSession returns when the session has become useless, with the reason, or when ctx ends. After etcd was restored
// from a backup, the events that the campaign and the leader wait for may never come.
func (e *Elector) checkSession(ctx context.Context, own string) error {
	var seen store.History
	for wrong := 0; ctx.Err() == nil; pause.For(ctx, checkEvery) {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		got, err := e.config.Client.Get(asking, e.config.Prefix+"/", clientv3.WithFirstCreate()...)
		cancel()
		if err != nil {
			continue
		}
		if err := seen.Observe(got.Header.ClusterId, got.Header.Revision); err != nil {
			return err
		}
		if first := len(got.Kvs) > 0 && string(got.Kvs[0].Key) == own; first == e.elected() {
			wrong = 0
		} else if wrong++; wrong == maxWrong {
			return errors.New("etcd's keys contradict this candidate's role, and no event explains it")
		}
	}
	return nil
}

func (e *Elector) elected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.chair
}

// maxWrong is the number of successive checks that must contradict a candidate's role: an event may still be on its
// way.
const maxWrong = 3
