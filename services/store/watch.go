package store

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Batch is one step of the configuration: whole revisions, never a part of one.
type Batch struct {
	// Revision of the configuration after the step.
	Revision int64
	// Reset says that Resources is the whole configuration: forget the rest, but for
	// what is Unreadable.
	Reset bool
	// Resources that are new or changed.
	Resources []*quotav1.Resource
	// Deleted names.
	Deleted []string
	// Unreadable names: what is stored there cannot be read. What was in force of
	// them stays in force.
	Unreadable []string
	// Held says why nothing is delivered until somebody recovers the configuration;
	// what was in force stays in force. The other fields are empty but for Revision,
	// which is that of the last batch, 0 if there was none.
	Held string
	// Lost says that etcd's history is not the one of the batches before, and why. The
	// batch is a Reset, or Held.
	Lost string
}

const (
	// rewatchDelay keeps a watch that breaks at once from spinning.
	rewatchDelay = 100 * time.Millisecond
	// lookEvery is how often the head is read beside the watch, which finds an etcd
	// that was restored or replaced, and a watch that has gone deaf. Shorter finds it
	// sooner, at one read each.
	lookEvery = time.Second
)

// Watch delivers every change after the snapshot from; the zero Snapshot starts with
// the whole configuration as a Reset. When the history is gone (compacted, or etcd
// was restored from a backup or replaced) it delivers the whole configuration as a
// Reset and goes on from there. While etcd is away it waits and tries again.
//
// The channel is unbuffered and closes when ctx ends, never before.
func (s *Store) Watch(ctx context.Context, from Snapshot) <-chan Batch {
	out := make(chan Batch)
	w := &watcher{store: s, out: out, revision: from.Revision, next: from.seen + 1, told: from.seen > 0,
		history: History{from.cluster, from.seen}}
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
	told     bool  // it has one
	held     string
	next     int64 // etcd revision to watch from
	history  History
	lost     string // why what follows is of another history
	late     int64  // etcd revision of a head that the watch had not brought at the last look
}

func (w *watcher) run(ctx context.Context) {
	reset := !w.told
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
	w.look(snap.cluster, snap.seen)
	w.next, w.late = snap.seen+1, 0
	if reason := w.doubt(snap); reason != "" {
		return w.hold(ctx, snap, reason)
	}
	if snap.Revision < w.revision {
		w.lost = fmt.Sprintf("the configuration in etcd went back from revision %d to %d", w.revision, snap.Revision)
		if err := w.store.Raise(ctx, w.revision); err != nil {
			return err
		}
		return w.reset(ctx)
	}
	if w.told && w.held == "" && snap.Revision == w.revision {
		return nil
	}
	unreadable := slices.Sorted(maps.Keys(snap.Unreadable))
	for _, name := range unreadable {
		slog.ErrorContext(ctx, "stored resource cannot be read; what gateways have of it stays in force", "error", snap.Unreadable[name])
	}
	w.send(ctx, Batch{Revision: snap.Revision, Reset: true, Resources: snap.Resources, Unreadable: unreadable})
	return nil
}

// doubt says why a snapshot is not to be delivered, "" if it is.
func (w *watcher) doubt(snap Snapshot) string {
	switch {
	case snap.Held != "":
		return snap.Held
	case snap.Revision == 0 && (w.revision > 0 || len(snap.Resources) > 0):
		return Gone
	case snap.Missing > 0:
		return fmt.Sprintf("%d resources are missing in etcd that nobody deleted through Titrate", snap.Missing)
	}
	return ""
}

// hold keeps the configuration from being changed and delivered.
func (w *watcher) hold(ctx context.Context, snap Snapshot, reason string) error {
	if snap.Held == "" {
		if err := w.store.hold(ctx, w.revision, reason); err != nil {
			return err
		}
	}
	if w.held != reason {
		w.send(ctx, Batch{Revision: w.revision, Held: reason})
	}
	return nil
}

func (w *watcher) send(ctx context.Context, b Batch) {
	b.Lost = w.lost
	select {
	case w.out <- b:
		w.revision, w.held, w.lost = b.Revision, b.Held, ""
		w.told = w.told || b.Held == ""
	case <-ctx.Done():
	}
}

// look takes the header of an answer of etcd; true means that etcd's history is not
// the one before.
func (w *watcher) look(cluster uint64, revision int64) bool {
	err := w.history.Observe(cluster, revision)
	if err != nil {
		w.lost = err.Error()
	}
	return err != nil
}

// follow delivers changes until the watch breaks; it returns whether the history
// from w.next on is gone.
func (w *watcher) follow(ctx context.Context) (lost bool) {
	// Cancelling ends this watch; a member without a leader ends it too, or it
	// would keep silent instead of failing over to another member.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := w.store.client.Watch(ctx, w.store.headKey(), clientv3.WithRange(w.store.last()),
		clientv3.WithRev(w.next), clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case response, open := <-events:
			if !open {
				return false
			}
			if done, lost := w.take(ctx, &response); done {
				return lost
			}
		case <-look.C:
			if w.stray(ctx) {
				return true
			}
		}
	}
}

// stray reads the head beside the watch. It tells whether the watch will not bring
// what is stored now.
func (w *watcher) stray(ctx context.Context) bool {
	got, err := w.store.get(ctx, w.store.headKey())
	if err != nil {
		return false // away: the watch goes on when etcd is back
	}
	if w.look(got.Header.ClusterId, got.Header.Revision) {
		return true
	}
	h := headOf(got)
	deaf := h.mod >= w.next && h.mod == w.late
	w.late = 0
	if h.mod >= w.next {
		w.late = h.mod
	}
	return deaf || h.raw == "" && w.revision > 0 && w.held == ""
}

// take delivers a response of the watch. done means that the watch is over, lost that
// the history is.
func (w *watcher) take(ctx context.Context, r *clientv3.WatchResponse) (done, lost bool) {
	if r.Err() != nil {
		return true, r.CompactRevision > 0
	}
	if r.Created && r.Header.Revision+1 < w.next {
		return true, true
	}
	if r.IsProgressNotify() {
		w.passed(r.Header.Revision)
	}
	// While etcd replays history the header is ahead of the events: they count.
	for events := r.Events; len(events) > 0; {
		rev := events[0].Kv.ModRevision
		n := slices.IndexFunc(events, func(e *clientv3.Event) bool { return e.Kv.ModRevision != rev })
		if n < 0 {
			n = len(events)
		}
		if w.step(ctx, events[:n]) {
			return true, true
		}
		w.passed(rev)
		events = events[n:]
	}
	return false, false
}

// passed notes that everything up to an etcd revision was taken.
func (w *watcher) passed(rev int64) {
	w.next = max(w.next, rev+1)
	w.history.revision = max(w.history.revision, rev)
}

// step delivers the events of one etcd revision, if they move the head: others carry
// out what was delivered when the head moved, or were made by hand and do not count.
// It returns whether the receiver has to start over.
func (w *watcher) step(ctx context.Context, events []*clientv3.Event) (over bool) {
	i := slices.IndexFunc(events, func(e *clientv3.Event) bool { return string(e.Kv.Key) == w.store.headKey() })
	if i < 0 {
		return false
	}
	if events[i].Type == clientv3.EventTypeDelete {
		return w.revision > 0
	}
	h := parseHead(events[i].Kv)
	switch {
	case h.Held != "" || w.held != "" || h.Revision < w.revision || h.Base > w.revision:
		return true
	case h.Revision == w.revision:
		return false
	case h.Prev != w.revision:
		return true
	case h.Staged == "":
		w.send(ctx, w.store.batch(ctx, h, events))
		return false
	}
	chunks, err := w.store.chunks(ctx, h, h.mod)
	if err != nil {
		return true
	}
	w.send(ctx, staged(h, chunks))
	return false
}

// batch is the step that a transaction made.
func (s *Store) batch(ctx context.Context, h head, events []*clientv3.Event) Batch {
	b := Batch{Revision: h.Revision}
	for _, e := range events {
		name := s.nameOf(e.Kv.Key)
		if !s.ours(name) {
			continue
		}
		if e.Type == clientv3.EventTypeDelete {
			b.Deleted = append(b.Deleted, name)
			continue
		}
		m, err := s.decode(e.Kv)
		if err != nil {
			slog.ErrorContext(ctx, "stored resource ignored; the one before stays in force", "error", err)
			b.Unreadable = append(b.Unreadable, name)
			continue
		}
		b.Resources = append(b.Resources, resource.Of(m))
	}
	return b
}

// staged is the step that a change set makes.
func staged(h head, chunks []*controlv1.Configuration) Batch {
	b := Batch{Revision: h.Revision}
	for _, c := range chunks {
		b.Resources = append(b.Resources, c.GetResources()...)
		b.Deleted = append(b.Deleted, c.GetDeleted()...)
	}
	return b
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
