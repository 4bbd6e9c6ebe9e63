package coordinator

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/telemetry"
)

// changeTraces adds this coordinator's spans to the traces of changes: storing one, reading it
// from etcd, and the first round of shares with it.
type changeTraces struct {
	sender *telemetry.Traces // nil: nothing is sent
	store  *store.Store

	mu       sync.Mutex
	seed     uint64 // 0: not read yet
	revision int64  // that no round was computed with yet; 0: none
	known    time.Time
}

// change names a change. Without the seed, which etcd has, there is no trace of it.
func (t *changeTraces) change(revision int64) (telemetry.Change, bool) {
	if t.seed == 0 {
		seed, err := t.store.Seed(context.Background())
		if err != nil {
			return telemetry.Change{}, false
		}
		t.seed = seed
	}
	return telemetry.Change{Seed: t.seed, Revision: revision}, true
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
