package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/lastgood"
)

// saveEvery is the least time between two snapshots of leases alone.
const saveEvery = 5 * time.Second

// restore puts the last good snapshot in force, if there is a usable one. The agent starts
// without a damaged one.
func (a *Agent) restore() error {
	dir := a.c.SnapshotDir
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--snapshot-dir: %w", err)
	}
	if err := lastgood.Writable(dir); err != nil {
		return fmt.Errorf("--snapshot-dir: %w; name a directory that this user may write, or leave it out", err)
	}
	s, err := lastgood.Load(dir)
	if err == nil && s != nil {
		err = a.apply(s)
	}
	if damaged := new(lastgood.DamagedError); errors.As(err, &damaged) {
		a.log.Error(err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("--snapshot-dir: %w", err)
	}
	if s != nil {
		status := a.core.Status(0).Applied
		a.log.Info("last good snapshot in force", "revision", status.Revision, "resources", status.Resources, "epoch",
			status.Epoch, "leases", status.Leases)
	}
	return nil
}

// apply puts a snapshot in force, or moves it aside.
func (a *Agent) apply(s *lastgood.Snapshot) error {
	config, err := a.offer.Restore(s)
	if err == nil {
		err = a.core.Restore(a.now(), s, config)
	}
	if err != nil {
		return lastgood.Reject(a.c.SnapshotDir, err)
	}
	return nil
}

// keepSnapshot writes the snapshot when it has changed. The disk may be slow: only this
// goroutine waits for it.
func (a *Agent) keepSnapshot(ctx context.Context) {
	if a.c.SnapshotDir == "" {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var revision int64
	var last time.Duration
	for {
		select {
		case <-ctx.Done():
			a.save()
			return
		case <-tick.C:
		}
		s := ask(a, func(_ time.Duration, c *core.Core) *lastgood.Snapshot { return c.Snapshot() })
		if s == nil {
			continue
		}
		if r := s.Configuration.GetRevision(); r != revision || a.now()-last >= saveEvery {
			revision, last = r, a.now()
			a.save()
		}
	}
}

// save writes what is in force if it changed. The first of consecutive failures is
// logged.
func (a *Agent) save() {
	s := ask(a, func(_ time.Duration, c *core.Core) *lastgood.Snapshot { return c.Snapshot() })
	if s == nil || !a.unsaved.Swap(false) {
		return
	}
	if err := lastgood.Save(a.c.SnapshotDir, *s); err != nil {
		a.unsaved.Store(true)
		if a.saveFailures.Add(1) == 1 {
			a.log.Error("the last good snapshot cannot be written; a restart without the coordinator would use an "+
				"older one", "error", err)
		}
		return
	}
	a.saveFailures.Store(0)
	a.saved.Add(1)
}
