package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"golang.org/x/time/rate"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/pause"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// Batch is one step of the configuration: whole revisions, never a part of one.
type Batch struct {
	// Revision of the configuration after the step.
	Revision int64
	// Reset says that Resources is the whole configuration: the receiver forgets all other resources except the
	// Unreadable ones.
	Reset bool
	// Resources that are new or changed.
	Resources []*quotav1.Resource
	// Deleted names.
	Deleted []string
	// Unreadable names resources whose stored value cannot be read. What was in force of them stays in force.
	Unreadable []string
	// Held says why nothing is delivered until the configuration is recovered. What was in force stays in force. Of the
	// other fields only Revision is set, to that of the last batch, 0 if there was none.
	Held string
	// Lost says why etcd's history is not that of the last batches, "" if it is. The batch is then a Reset, or Held.
	Lost string
}

const (
	// rewatchDelay is the pause before a broken watch is opened again.
	rewatchDelay = 100 * time.Millisecond
	// checkEvery is the interval at which the head is read in addition to the watch. That finds an etcd that was
	// restored or replaced, and a watch that delivers nothing any more. Shorter finds it sooner, at one read each.
	checkEvery = time.Second
)

// Watch delivers every change after the snapshot from; the zero Snapshot starts with the whole configuration as a
// Reset. When the history is gone (compacted, or etcd was restored from a backup or replaced) it delivers the whole
// configuration as a Reset and goes on from there. While etcd is away it waits and tries again.
//
// The channel is unbuffered and closes when ctx ends, never before.
func (s *Store) Watch(ctx context.Context, from Snapshot) <-chan Batch {
	out := make(chan Batch)
	w := &watcher{store: s, out: out, revision: from.Revision, next: from.seen + 1, delivered: from.seen > 0,
		history: History{from.cluster, from.seen}}
	go func() {
		defer close(out)
		w.run(ctx)
	}()
	return out
}

// WatchResets counts the watches that have ended and begun again. They resumed where they were, or with the whole
// configuration, since etcd did not have what is between, or has another history.
func (s *Store) WatchResets() (resumed, whole uint64) {
	return s.resets.resumed.Load(), s.resets.whole.Load()
}

// followWait is the time for which a Watch may not follow what is stored until Following says so. Each broken watch and
// each replaced member of etcd takes a second or two.
const followWait = 5 * time.Second

// astray is the reason why a Watch does not follow what is stored, and since when.
type astray struct {
	since time.Time
	why   error
}

// Following is nil while Watch follows what is stored, or has not been called; else it says why not.
func (s *Store) Following() error {
	a := s.astray.Load()
	if a == nil || time.Since(a.since) < followWait {
		return nil
	}
	return fmt.Errorf("what is stored has not been followed for %s: %w", time.Since(a.since).Round(time.Second), a.why)
}

// goesAstray notes that a watch cannot follow; the first reason has the time.
func (s *Store) goesAstray(why error) {
	a := &astray{time.Now(), why}
	if before := s.astray.Load(); before != nil {
		a.since = before.since
	}
	s.astray.Store(a)
}

type watcher struct {
	store       *Store
	out         chan<- Batch
	revision    int64 // of the configuration that the receiver has
	delivered   bool  // the receiver has a configuration
	held        string
	next        int64 // etcd revision to watch from
	history     History
	lost        string // why what follows is of another history
	undelivered int64  // etcd revision of a head that the watch had not delivered at the last check
	checked     int64  // next at the last check: a watch that is behind, and moves, still delivers
	unread      rate.Sometimes
}

func (w *watcher) run(ctx context.Context) {
	reset := !w.delivered
	for ctx.Err() == nil {
		if reset {
			if err := w.reset(ctx); err != nil && ctx.Err() == nil {
				w.store.goesAstray(err)
				w.unread.Do(func() {
					w.store.log.WarnContext(ctx, "configuration cannot be read; the last one stays in force; more "+
						"such failures within a minute are not logged", "error", err)
				})
				pause.For(ctx, time.Second)
				continue
			}
		}
		reset = w.follow(ctx)
		w.store.ended(ctx, reset)
		pause.For(ctx, rewatchDelay)
	}
}

// ended counts a watch that has ended while ctx has not.
func (s *Store) ended(ctx context.Context, whole bool) {
	switch {
	case ctx.Err() != nil:
	case whole:
		s.resets.whole.Add(1)
	default:
		s.resets.resumed.Add(1)
	}
}

// reset delivers the whole configuration, unless the receiver has that revision.
func (w *watcher) reset(ctx context.Context) error {
	snap, err := w.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	w.checkHistory(snap.cluster, snap.seen)
	w.next, w.undelivered = snap.seen+1, 0
	if reason := w.reasonToHold(snap); reason != "" {
		return w.hold(ctx, snap, reason)
	}
	if snap.Revision < w.revision {
		w.lost = fmt.Sprintf("the configuration in etcd went back from revision %d to %d", w.revision, snap.Revision)
		if err := w.store.Raise(ctx, w.revision); err != nil {
			return err
		}
		return w.reset(ctx)
	}
	if w.delivered && w.held == "" && snap.Revision == w.revision {
		return nil
	}
	unreadable := slices.Sorted(maps.Keys(snap.Unreadable))
	for _, name := range unreadable {
		w.store.log.ErrorContext(ctx, "stored resource cannot be read; what gateways have of it stays in force",
			"error", snap.Unreadable[name])
	}
	w.send(ctx, Batch{Revision: snap.Revision, Reset: true, Resources: snap.Resources, Unreadable: unreadable})
	return nil
}

// reasonToHold says why a snapshot must not be delivered, "" if it may.
func (w *watcher) reasonToHold(snap Snapshot) string {
	switch {
	case snap.Held != "":
		return snap.Held
	case snap.Revision == 0 && (w.revision > 0 || len(snap.Resources) > 0):
		return Gone
	case snap.Missing > 0:
		return fmt.Sprintf("%s missing in etcd that nobody deleted through Titrate",
			wording.Does(snap.Missing, "resource", "is", "are"))
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
		w.delivered = w.delivered || b.Held == ""
	case <-ctx.Done():
	}
}

// checkHistory takes the header of an answer of etcd. It reports whether etcd's history has changed.
func (w *watcher) checkHistory(cluster uint64, revision int64) bool {
	err := w.history.Observe(cluster, revision)
	if err != nil {
		w.lost = err.Error()
	}
	return err != nil
}

// follow delivers changes until the watch breaks; it returns whether the history from w.next on is gone.
func (w *watcher) follow(ctx context.Context) (lost bool) {
	// Cancelling ends this watch; a member without a leader ends it too, or it would deliver nothing instead of failing
	// over to another member.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := w.store.client.Watch(ctx, w.store.headKey(), clientv3.WithRange(w.store.last()),
		clientv3.WithRev(w.next), clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case response, open := <-events:
			if !open {
				return false
			}
			if done, lost := w.handle(ctx, &response); done {
				return lost
			}
		case <-check.C:
			if w.missesHead(ctx) {
				return true
			}
		}
	}
}

// missesHead reads the head in addition to the watch. It reports whether the watch will not deliver what is stored now.
// Either the watch delivers nothing, or etcd has another history, though its own revisions may be higher than before.
// Others may have written since a restore, or it was made with raised ones.
func (w *watcher) missesHead(ctx context.Context) bool {
	got, err := w.store.get(ctx, w.store.headKey())
	if err != nil {
		w.store.goesAstray(err)
		return false // away: the watch goes on when etcd is back
	}
	if w.checkHistory(got.Header.ClusterId, got.Header.Revision) {
		return true
	}
	h := headOf(got)
	silent := h.mod >= w.next && h.mod == w.undelivered && w.next == w.checked
	w.checked = w.next
	w.undelivered = 0
	if h.mod >= w.next {
		w.undelivered = h.mod
	} else {
		w.store.astray.Store(nil)
	}
	if h.mod < w.next && h.Revision != w.revision && w.held == "" {
		w.lost = fmt.Sprintf("etcd has revision %d of the configuration where it had revision %d", h.Revision,
			w.revision)
		return true
	}
	return silent
}

// handle delivers a response of the watch. done means that the watch has ended, lost that its history is gone.
func (w *watcher) handle(ctx context.Context, r *clientv3.WatchResponse) (done, lost bool) {
	if r.Err() != nil {
		w.store.goesAstray(r.Err())
		return true, r.CompactRevision > 0
	}
	if r.Created && r.Header.Revision+1 < w.next {
		return true, true
	}
	if r.IsProgressNotify() {
		w.advance(r.Header.Revision)
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
		w.advance(rev)
		events = events[n:]
	}
	return false, false
}

// advance notes that everything up to an etcd revision was handled.
func (w *watcher) advance(rev int64) {
	w.next = max(w.next, rev+1)
	w.history.revision = max(w.history.revision, rev)
}

// step delivers the events of one etcd revision, if they move the head. Others carry out what was delivered when the
// head moved, or were made by hand and do not count. It returns whether the receiver has to start over.
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
			s.log.ErrorContext(ctx, "stored resource ignored; the one before stays in force", "error", err)
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
