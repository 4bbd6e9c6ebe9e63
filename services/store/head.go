package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/titrate/titrate/services/pause"
)

// head says which configuration is in force. Every change rewrites it.
type head struct {
	// Revision of the configuration.
	Revision int64 `json:"revision"`
	// Prev is the revision before this one. A reader with another revision has missed changes.
	Prev int64 `json:"prev,omitempty"`
	// Base is the lowest revision from which differences are enough: a reader with an older one must read the whole
	// configuration.
	Base int64 `json:"base,omitempty"`
	// Count of stored resources, −1 if unknown. If etcd has fewer, some were deleted without a Store.
	Count int `json:"count"`
	// Staged names the change set that is part of this revision and is not yet in the resources' own keys; Chunks is
	// how many keys it has.
	Staged string `json:"staged,omitempty"`
	Chunks int    `json:"chunks,omitempty"`
	// History is the account of the history, nil if it has to be counted.
	History *account `json:"history,omitempty"`
	// Held says why nothing is changed and nothing is delivered until Recover.
	Held string `json:"held,omitempty"`

	raw string // as stored, "" = nothing is stored
	mod int64  // etcd revision that wrote it
}

// content is the revision whose change made the configuration what it is. Raise makes the revision higher and changes
// nothing.
func (h *head) content() int64 {
	if h.History != nil && h.History.Last > 0 {
		return h.History.Last
	}
	return h.Revision
}

func (s *Store) headKey() string { return s.prefix + "head" }

// parseHead reads a stored head. An unreadable head holds the configuration; the revision is then etcd's.
func parseHead(kv *mvccpb.KeyValue) head {
	h := head{Revision: kv.ModRevision, Count: -1, raw: string(kv.Value), mod: kv.ModRevision}
	if err := json.Unmarshal(kv.Value, &h); err != nil {
		h.Held = fmt.Sprintf("the head of the configuration in etcd, %s, cannot be read: %v", kv.Key, err)
	}
	return h
}

func headOf(got *clientv3.GetResponse) head {
	if len(got.Kvs) == 0 {
		return head{}
	}
	return parseHead(got.Kvs[0])
}

func (s *Store) readHead(ctx context.Context) (head, error) {
	got, err := s.get(ctx, s.headKey())
	if err != nil {
		return head{}, err
	}
	return headOf(got), nil
}

// unchanged compares the stored head with the head that was read. It compares the value and not etcd's revision of it,
// which may repeat after etcd was restored.
func (s *Store) unchanged(h head) clientv3.Cmp {
	if h.raw == "" {
		return clientv3.Compare(clientv3.CreateRevision(s.headKey()), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(s.headKey()), "=", h.raw)
}

func (s *Store) putHead(h head) clientv3.Op {
	b, err := json.Marshal(h)
	if err != nil {
		panic(err) // a struct of numbers and strings
	}
	return clientv3.OpPut(s.headKey(), string(b))
}

// errRaced says that another process moved the head since it was read.
var errRaced = errors.New("another writer was first")

// commit does the operations if the head is still the one given and the further conditions hold.
func (s *Store) commit(ctx context.Context, h head, ops []clientv3.Op, also ...clientv3.Cmp) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	done, err := s.client.Txn(ctx).If(append(also, s.unchanged(h))...).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("the change may or may not have been made, read it again: %w", failed(ctx, err))
	}
	if !done.Succeeded {
		return errRaced
	}
	return nil
}

// rewrite changes the head alone, until no other writer is faster. change returns false if there is nothing to do.
func (s *Store) rewrite(ctx context.Context, change func(*head) (bool, error)) error {
	for attempt := 0; ; attempt++ {
		h, err := s.readHead(ctx)
		if err != nil {
			return err
		}
		next := h
		if ok, err := change(&next); err != nil || !ok {
			return err
		}
		if err = s.commit(ctx, h, []clientv3.Op{s.putHead(next)}); !errors.Is(err, errRaced) {
			return err
		}
		backOff(ctx, attempt)
	}
}

// after is the revision that follows h: the time of day in milliseconds, or the highest of h and floor plus one if the
// clock is behind. So revisions also rise after etcd was restored from a backup or replaced, if clocks are about right.
// If they are not, Raise corrects the revision to what readers have seen.
func (h *head) after(floor int64, now time.Time) int64 {
	return max(h.Revision+1, floor+1, now.UnixMilli())
}

// Raise makes the revision of the stored configuration higher than seen, if it is lower. seen is a revision that a
// reader has, of a history that etcd has lost. All readers then read the whole configuration. If there is no
// configuration, it is held instead. Errors: ErrUnavailable.
func (s *Store) Raise(ctx context.Context, seen int64) error {
	return s.rewrite(ctx, func(h *head) (bool, error) {
		if h.raw == "" {
			h.Revision, h.Held, h.Count = seen, Gone, -1
			return true, nil
		}
		if h.Held != "" || h.Revision >= seen {
			return false, nil
		}
		h.Revision = h.after(seen, time.Now())
		h.Base = h.Revision
		return true, nil
	})
}

// Gone is the reason for holding the configuration when etcd had one and has none now.
const Gone = "the configuration in etcd is gone: the keys were deleted, or etcd was replaced by an empty one"

// hold marks the configuration as not to be trusted, for the reason given: Apply refuses and Watch delivers nothing
// until Accept or Replace.
func (s *Store) hold(ctx context.Context, revision int64, reason string) error {
	return s.rewrite(ctx, func(h *head) (bool, error) {
		if h.Held != "" {
			return false, nil
		}
		if h.raw == "" {
			h.Count = -1
		}
		h.Held, h.Revision = reason, max(h.Revision, revision)
		return true, nil
	})
}

// held is the error of calls while the configuration is held, nil otherwise.
func (h *head) held() error {
	if h.Held == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; gateways keep the configuration of revision %d; see titrate recover --help",
		ErrHeld, h.Held, h.Revision)
}

// History notices that etcd is another cluster, or was restored from a backup. The zero value has seen nothing.
type History struct {
	cluster  uint64
	revision int64
}

// Observe takes the header of a linearizable answer to a request that began after all earlier observations. The error
// says what has changed.
func (o *History) Observe(cluster uint64, revision int64) error {
	was := *o
	*o = History{cluster, revision}
	switch {
	case was.cluster == 0:
		return nil
	case was.cluster != cluster:
		return fmt.Errorf("etcd is another cluster: ID %x instead of %x", cluster, was.cluster)
	case revision < was.revision:
		return fmt.Errorf("etcd went back from its revision %d to %d: it was restored from a backup", was.revision,
			revision)
	}
	return nil
}

// backOff waits a random time that grows with the attempt, up to 64 ms.
func backOff(ctx context.Context, attempt int) {
	pause.For(ctx, rand.N(time.Millisecond<<min(attempt, 6)))
}

func (s *Store) nameOf(key []byte) string {
	return strings.TrimPrefix(strings.TrimPrefix(string(key), s.prefix), overrides)
}

// keyOf returns the key of a resource in etcd. Overrides stand apart: a million of them would be among the limits of a
// tenant.
func (s *Store) keyOf(name string) string {
	if strings.Count(name, "/") == 5 {
		return s.prefix + overrides + name
	}
	return s.prefix + name
}

// overrides stands before the names of overrides in keys.
const overrides = "overrides/"
