// Package store keeps the configuration, that is pools, plans, tenants, quotas, limits and overrides, in etcd.
//
// # Model
//
// A resource is stored at prefix + its name, as a binary quotav1.Resource with its etag and update time and without
// status. In addition, at prefix + "head", there is the head, JSON: the Revision of the configuration and how many
// resources it has. Every change rewrites the head, and what the head says is in force.
//
// Apply reads the head first and then the keys that the changes depend on. It decides (type plan, without I/O) and
// commits in a transaction with one comparison: the stored head still equals the head that was read. Every write
// through a Store changes the head, so this one comparison guards all keys that were read, missing ones too. If the
// head has changed, Apply reads and decides again. Writers of one process wait for a lock instead of racing.
//
// A change that fits one transaction of etcd (128 operations, 1.5 MiB) is one. A larger one is first written apart from
// the configuration, under prefix + "changes/", in chunks: a change set. Then the head names the change set. From then
// on it is in force: readers prefer its values to the resources' own keys, and Apply returns. Then the writer carries
// it out, and the next Apply of the process waits for that. It writes the keys, one transaction a chunk, each on the
// condition that the head still names the change set, and removes the name from the head. A writer that crashes before
// the head names the change set leaves chunks that nobody reads; Tidy removes them. A writer that crashes later leaves
// work that the next writer, or Tidy, does.
//
// # History
//
// Each change stores an entry under prefix + "changelog/": who, when, why, how many resources; and what it changed,
// before and after, compressed, under prefix + "diffs/". Both are in the transaction of the change. Those of a staged
// change are written before, like its chunks, and the entry is in the transaction that changes the head. What no entry
// names does not count, and Tidy removes it. The same transaction deletes the entries that Retention no longer keeps;
// the head has the account of the rest. An entry names the revision that it changed, so that a gap is noticed. Undo
// goes back from entry to entry, and refuses to go over a change that was not recorded.
//
// # Revisions
//
// A revision is the time of day in milliseconds, or the last revision plus one where the clock is behind it. It does
// not depend on etcd's own revisions: they start again when etcd is restored from a backup or replaced. The etag of a
// resource is the revision that last changed it, in hexadecimal. Where a reader has seen a revision that etcd no longer
// knows, Raise makes the stored one higher.
//
// # When etcd loses something
//
// Watch notices an etcd that went back or that is another cluster, and delivers what is stored there now as a whole. It
// does so under a revision above all that it delivered before. A configuration that is gone, or of which resources are
// missing that nobody deleted through a Store, is not delivered. It is held (ErrHeld) until Accept or Replace (titrate
// recover), so that no limit disappears unnoticed. A stored value that cannot be read is named in Batch.Unreadable and
// stops nothing else.
//
// # Invariants
//
//   - A change is all or nothing, for every reader, however large.
//   - A quota's tenant and pool, a limit's tenant and pools exist in every
//     configuration that a reader can see (the tenant "-" always exists).
//   - Watch delivers whole revisions, in order; after a compaction or a lost
//     history it delivers the full state instead and says so.
//   - Revisions rise, also over a restored or replaced etcd.
//   - The history has an entry for each change, or the change was not made.
//   - Calls end with their context. A request to etcd fails after Timeout with
//     ErrUnavailable; Apply makes several.
//
// # Cost
//
// Get is one read. Apply of n changes is one read of the head, reads of the keys that they name, and a transaction of
// n+3 operations. Staged, it writes every value twice, and the compressed history. Where the history is full, a change
// also reads the oldest entries and deletes them in its transaction. Deleting a pool reads all quotas and limits in
// pages, for any of them may name it. Watch costs one read of the head a second.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Prefix is the default prefix of Titrate's resources.
const Prefix = "/titrate/v1alpha1/"

const (
	// Timeout bounds the time for one request to etcd. Longer survives a slow election of etcd's leader; shorter
	// answers the caller sooner. One API call may make several requests.
	Timeout = 2 * time.Second
	// MaxChanges is the most changes in one Apply, MaxStaged the most bytes of all of them: they are in memory, and for
	// a moment twice in etcd.
	MaxChanges = 500_000
	MaxStaged  = 96 << 20
	// MaxValue is the largest resource, bytes.
	MaxValue = 1 << 20
	// MaxBytes is the most bytes of values in one transaction; a larger change is staged.
	MaxBytes = 1 << 20

	// maxOps is etcd's own default limit of operations in a transaction.
	maxOps = 128
	// pageKeys is the number of keys that one ranged read asks for.
	pageKeys = 1000
	// overridePage is the most where all are overrides, of at most 2 KiB each. etcd counts the rest of the range for
	// each page: a million keys in pages of 1000 took it a minute.
	overridePage = 20_000
)

// Errors of the store, to be tested with errors.Is. The text around them names the resource and what would be right.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("already exists")
	ErrEtag        = errors.New("etag does not match")
	ErrReference   = errors.New("names something that does not exist")
	ErrInUse       = errors.New("still in use")
	ErrTooLarge    = errors.New("too large")
	ErrBadChange   = errors.New("malformed change")
	ErrCorrupt     = errors.New("stored value is corrupt")
	ErrHeld        = errors.New("the configuration is held")
	ErrRevision    = errors.New("the configuration has changed")
	ErrOwned       = errors.New("belongs to another set")
	ErrNoHistory   = errors.New("the history does not go back there")
	ErrRequest     = errors.New("the request ID was used")
	ErrUnavailable = errors.New("store unavailable")
)

// Store reads and writes the configuration. It is safe for concurrent use.
type Store struct {
	client *clientv3.Client
	prefix string
	// writer holds one token: the right to write, within this process.
	writer    chan struct{}
	seed      atomic.Uint64 // of key hashes, 0 = not read yet
	retention Retention
	log       *slog.Logger
	resets    struct{ resumed, whole atomic.Uint64 } // see WatchResets
	astray    atomic.Pointer[astray]                 // nil while a Watch follows what is stored
	own       atomic.Pointer[ownStage]               // that Apply puts in force now, nil: none
}

// Open returns the store under the prefix, Prefix if it is empty. It does not contact etcd: the first call fails if
// etcd is away. The caller closes the client.
func Open(client *clientv3.Client, prefix string) *Store {
	if prefix == "" {
		prefix = Prefix
	}
	s := &Store{client: client, prefix: prefix, writer: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler)}
	s.writer <- struct{}{}
	return s
}

// Retain bounds the history from the next change on. Without it nothing is dropped.
func (s *Store) Retain(r Retention) *Store {
	s.retention = r
	return s
}

// LogTo sets the log for what a caller does not get to know. Without it nothing is logged.
func (s *Store) LogTo(log *slog.Logger) *Store {
	s.log = log
	return s
}

// Get returns a resource with its etag and update time. Errors: ErrNotFound, ErrCorrupt, ErrHeld, ErrUnavailable.
func (s *Store) Get(ctx context.Context, name string) (resource.Message, error) {
	got, err := s.txn(ctx, clientv3.OpGet(s.headKey()), clientv3.OpGet(s.keyOf(name)))
	if err != nil {
		return nil, err
	}
	h := headOf((*clientv3.GetResponse)(got.Responses[0].GetResponseRange()))
	if err := h.held(); err != nil {
		return nil, err
	}
	over, err := s.overlay(ctx, h, got.Header.Revision)
	if err != nil {
		return nil, err
	}
	if m, staged := over[name]; staged {
		if m == nil {
			return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
		}
		return proto.Clone(m).(resource.Message), nil
	}
	kvs := got.Responses[1].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return s.decode(kvs[0])
}

// first and last bound the keys of resources, head excluded.
func (s *Store) first() string { return s.prefix + overrides }
func (s *Store) last() string  { return s.prefix + "tenants0" }

func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	got, err := s.client.Get(ctx, key, opts...)
	if err != nil {
		return nil, failed(ctx, err)
	}
	return got, nil
}

// txn does operations in one transaction, without a condition.
func (s *Store) txn(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	got, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, failed(ctx, err)
	}
	return got, nil
}

func (s *Store) do(ctx context.Context, op clientv3.Op) error {
	_, err := s.txn(ctx, op)
	return err
}

func (s *Store) put(ctx context.Context, key, value string) error {
	return s.do(ctx, clientv3.OpPut(key, value))
}

func (s *Store) decode(kv *mvccpb.KeyValue) (resource.Message, error) {
	name := s.nameOf(kv.Key)
	var r quotav1.Resource
	if err := proto.Unmarshal(kv.Value, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w; apply it again or delete it", name, ErrCorrupt, err)
	}
	m := resource.Unwrap(&r)
	if m == nil || m.GetName() != name {
		return nil, fmt.Errorf("%s: %w: it holds %q; apply it again or delete it", name, ErrCorrupt, resource.Name(&r))
	}
	return m, nil
}

// Etag returns the etag of a resource that was last changed at the revision.
func Etag(revision int64) string { return strconv.FormatInt(revision, 16) }

// failed turns an error of a request to etcd into one of the store's errors. The error of a cancelled caller stays; all
// others that are not about size mean that etcd is away.
func failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), context.Canceled):
		return err
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: etcd did not answer in time: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: etcd: %w", ErrUnavailable, err)
}
