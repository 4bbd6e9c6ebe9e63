package coordinator

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/telemetry"
)

// changeTraces adds this coordinator's spans to the traces of changes: storing one, reading it from etcd, and the first
// round of shares with it. Nothing of it asks etcd, which may be slow: the seed is learned elsewhere, and without it
// there are no spans.
type changeTraces struct {
	sender *telemetry.Traces // nil: nothing is sent

	mu       sync.Mutex
	seed     uint64 // 0: not read yet
	revision int64  // that no round was computed with yet; 0: none
	known    time.Time
}

// seedPause is the time between two attempts to learn the seed.
const seedPause = time.Second

// learn asks for the seed until it is known or ctx ends.
func (t *changeTraces) learn(ctx context.Context, from func(context.Context) (uint64, error)) {
	for t.sender != nil && ctx.Err() == nil {
		seed, err := from(ctx)
		if err == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.seed = seed
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(seedPause):
		}
	}
}

// change names a change; false: it cannot be named yet.
func (t *changeTraces) change(revision int64) (telemetry.Change, bool) {
	return telemetry.Change{Seed: t.seed, Revision: revision}, t.seed != 0
}

// stored says that a change has become a revision in etcd.
func (t *changeTraces) stored(action string, changes int, revision int64, began time.Time) {
	if t.sender == nil {
		return
	}
	ended := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.change(revision); ok {
		t.sender.Stored(c, began, ended, attribute.String("titrate.action", action),
			attribute.Int("titrate.resources", changes))
	}
}

// read says that a step of the configuration has come from etcd and is in force here.
func (t *changeTraces) read(b store.Batch, began time.Time) {
	if t.sender == nil || b.Reset || b.Held != "" {
		return
	}
	ended := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.change(b.Revision); ok {
		t.sender.Step(c, "coordinator reads change", began, ended)
		t.revision, t.known = b.Revision, ended
	}
}

// round says that shares were computed from a revision.
func (t *changeTraces) round(revision func() int64) {
	if t.sender == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.revision == 0 || revision() < t.revision {
		return
	}
	if c, ok := t.change(t.revision); ok {
		t.sender.Step(c, "first round with change", t.known, time.Now())
	}
	t.revision = 0
}

// follows says that this coordinator does not lead: a round that it computes later, once it leads,
// is not the first one with a change of before.
func (t *changeTraces) follows() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revision = 0
}
