package store

import (
	"context"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Batch is one step of the configuration: whole revisions, never a part of one.
type Batch struct {
	// Revision of the configuration after the step.
	Revision int64
	// Reset says that Resources is the whole configuration: forget the rest.
	Reset bool
	// Resources that are new or changed.
	Resources []*quotav1.Resource
	// Deleted names.
	Deleted []string
}

// rewatchDelay keeps a watch that breaks at once from spinning.
const rewatchDelay = 100 * time.Millisecond

// Watch delivers every change after the revision from, the one of a Snapshot or
// of the last Batch; 0 starts with the whole configuration as a Reset. When the
// history is gone (compacted, or etcd was restored from a backup) it delivers the
// whole configuration as a Reset and goes on from there. While etcd is away it
// waits and tries again. A stored value that cannot be read is reported to the
// log and left out, so that what was in force before stays in force.
//
// The channel is unbuffered and closes when ctx ends, never before.
func (s *Store) Watch(ctx context.Context, from int64) <-chan Batch {
	out := make(chan Batch)
	w := &watcher{store: s, out: out, revision: from, next: from + 1}
	go func() {
		defer close(out)
		w.run(ctx)
	}()
	return out
}

type watcher struct {
	store    *Store
	out      chan<- Batch
	revision int64 // of the configuration that the receiver has
	next     int64 // etcd revision to watch from
}

func (w *watcher) run(ctx context.Context) {
	reset := w.revision == 0
	for ctx.Err() == nil {
		if reset {
			if err := w.reset(ctx); err != nil && ctx.Err() == nil {
				slog.WarnContext(ctx, "configuration cannot be read; the last one stays in force", "error", err)
				pause(ctx, time.Second)
				continue
			}
		}
		reset = w.follow(ctx)
		pause(ctx, rewatchDelay)
	}
}

// reset delivers the whole configuration, unless the receiver has that revision.
func (w *watcher) reset(ctx context.Context) error {
	snap, err := w.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	w.next = snap.seen + 1
	if snap.Revision == w.revision && snap.Revision != 0 {
		return nil
	}
	w.send(ctx, Batch{Revision: snap.Revision, Reset: true, Resources: snap.Resources})
	return nil
}

func (w *watcher) send(ctx context.Context, b Batch) {
	select {
	case w.out <- b:
		w.revision = b.Revision
	case <-ctx.Done():
	}
}

// follow delivers changes until the watch breaks; it returns whether the history
// from w.next on is gone.
func (w *watcher) follow(ctx context.Context) (lost bool) {
	// Cancelling ends this watch; a member without a leader ends it too, or it
	// would keep silent instead of failing over to another member.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := w.store.client.Watch(ctx, w.store.first(), clientv3.WithRange(w.store.last()),
		clientv3.WithRev(w.next), clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())
	for response := range events {
		if response.Err() != nil {
			return response.CompactRevision > 0
		}
		if response.Created && response.Header.Revision+1 < w.next {
			return true
		}
		w.next = max(w.next, delivered(&response)+1)
		if b, ok := w.store.batch(ctx, response.Events); ok {
			w.send(ctx, b)
		}
	}
	return false
}

// delivered returns the etcd revision up to which nothing is outstanding. While
// etcd replays history the header is ahead of the events, so it counts only where
// it says so: in a progress notification.
func delivered(r *clientv3.WatchResponse) int64 {
	if r.IsProgressNotify() {
		return r.Header.Revision
	}
	if n := len(r.Events); n > 0 {
		return r.Events[n-1].Kv.ModRevision
	}
	return 0
}

// batch folds events into one step: of several changes to a key the last counts.
func (s *Store) batch(ctx context.Context, events []*clientv3.Event) (Batch, bool) {
	var b Batch
	last := make(map[string]*clientv3.Event, len(events))
	var order []string
	for _, e := range events {
		key := string(e.Kv.Key)
		if _, seen := last[key]; !seen {
			order = append(order, key)
		}
		last[key] = e
		b.Revision = max(b.Revision, e.Kv.ModRevision)
	}
	for _, key := range order {
		e := last[key]
		if !s.ours(e.Kv) {
			continue
		}
		if e.Type == clientv3.EventTypeDelete {
			b.Deleted = append(b.Deleted, key[len(s.prefix):])
			continue
		}
		m, err := s.decode(e.Kv)
		if err != nil {
			slog.ErrorContext(ctx, "stored resource ignored; the one before stays in force", "error", err)
			continue
		}
		b.Resources = append(b.Resources, resource.Of(m))
	}
	return b, len(b.Resources)+len(b.Deleted) > 0
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
