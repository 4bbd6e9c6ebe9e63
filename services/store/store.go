// Package store keeps the configuration, that is pools, tenants, quotas and
// limits, in etcd.
//
// # Model
//
// A resource lies at prefix + its name, as a binary quotav1.Resource with neither
// etag nor status. Beside them, at prefix + "head", lies the head: every change
// of the configuration rewrites it in the same transaction. The mod revision of
// the head is the configuration's Revision, so that all who look at the same
// configuration give it the same number, whatever else uses the same etcd. The
// etag of a resource is the mod revision of its own key in hexadecimal.
//
// Apply reads the head first, then what it needs to decide, decides (package-
// private plan, free of I/O), and commits with one comparison: the head is still
// the one that was read. Whoever writes through a Store moves the head, so that
// this one comparison guards every key that was read, absent ones too; a loser
// reads again and decides again. Writers of one process queue on a lock instead
// of racing.
//
// # Invariants
//
//   - A change is one etcd transaction: all or nothing.
//   - A quota's tenant and pool, a limit's tenant and pools exist in every
//     configuration that a reader can see (the tenant "-" always exists).
//   - Watch delivers whole revisions, in order; after a compaction or a lost
//     history it delivers the full state instead and says so.
//   - No call outlasts its context, and a call that waits for etcd gives up
//     after Timeout with ErrUnavailable.
//
// # Cost
//
// Get is one read. Apply of n changes is one read of the head, reads of the keys
// that they name, and a transaction of n+1 operations; MaxChanges and MaxBytes
// keep it below etcd's limits of 128 operations and 1.5 MiB. Deleting a pool
// reads all quotas and limits in pages, for any of them may name it.
package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Prefix is where Titrate keeps its resources unless told otherwise.
const Prefix = "/titrate/v1alpha1/"

const (
	// Timeout is how long one request to etcd may take. Longer rides out a slow
	// election; shorter tells the caller sooner. It stays below the CLI's 5 s.
	Timeout = 3 * time.Second
	// MaxChanges is the most changes in one Apply.
	MaxChanges = 100
	// MaxBytes is the most that the keys and values of one Apply may add up to.
	MaxBytes = 1 << 20

	// maxOps is etcd's own default limit of operations in a transaction.
	maxOps = 128
	// pageKeys is how many keys one ranged read asks for.
	pageKeys = 1000
)

// Errors of the store, to be tested with errors.Is. The text around them names
// the resource and what would be right.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("already exists")
	ErrEtag        = errors.New("etag does not match")
	ErrReference   = errors.New("names something that does not exist")
	ErrInUse       = errors.New("still in use")
	ErrTooLarge    = errors.New("too large for one transaction")
	ErrBadChange   = errors.New("malformed change")
	ErrCorrupt     = errors.New("stored value is corrupt")
	ErrUnavailable = errors.New("store unavailable")
)

// Store reads and writes the configuration. It is safe for concurrent use.
type Store struct {
	client *clientv3.Client
	prefix string
	// writer holds one token: the right to write, within this process.
	writer chan struct{}
}

// Open returns the store under the prefix, Prefix if it is empty. It does not
// contact etcd: a store that is away shows in the first call, not at start. The
// caller keeps the client and closes it.
func Open(client *clientv3.Client, prefix string) *Store {
	if prefix == "" {
		prefix = Prefix
	}
	s := &Store{client: client, prefix: prefix, writer: make(chan struct{}, 1)}
	s.writer <- struct{}{}
	return s
}

// Get returns a resource with its etag and update time. Errors: ErrNotFound,
// ErrCorrupt, ErrUnavailable.
func (s *Store) Get(ctx context.Context, name string) (resource.Message, error) {
	got, err := s.get(ctx, s.prefix+name)
	if err != nil {
		return nil, err
	}
	if len(got.Kvs) == 0 {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return s.decode(got.Kvs[0])
}

func (s *Store) headKey() string { return s.prefix + "head" }

// first and last bound the keys of resources, head excluded.
func (s *Store) first() string { return s.prefix + "pools/" }
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

func (s *Store) decode(kv *mvccpb.KeyValue) (resource.Message, error) {
	name := string(kv.Key[len(s.prefix):])
	var r quotav1.Resource
	if err := proto.Unmarshal(kv.Value, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrCorrupt, err)
	}
	m := resource.Unwrap(&r)
	if m == nil || m.GetName() != name {
		return nil, fmt.Errorf("%s: %w: it holds %q", name, ErrCorrupt, resource.Name(&r))
	}
	resource.SetOutput(m, Etag(kv.ModRevision), m.GetUpdateTime())
	return m, nil
}

// Etag returns the etag of a resource that was last changed at the etcd revision.
func Etag(revision int64) string { return strconv.FormatInt(revision, 16) }

// failed says what a failed request to etcd means. A caller who went away gets
// that back; anything else that is not about size is the store's absence.
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
