package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/titrate/titrate/control/config"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/agent/core"
	"github.com/titrate/titrate/services/agent/lastgood"
)

// saveEvery is the least time between two snapshots of leases alone.
const saveEvery = 5 * time.Second

// restore puts the last good snapshot in force, if there is a usable one. The agent starts without a damaged one.
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
	var err error
	if a.snapshotLock, err = lastgood.LockDir(dir, a.c.Name); err != nil {
		return fmt.Errorf("--snapshot-dir: %w", err)
	}
	s, err := lastgood.Load(dir)
	if damaged := new(lastgood.DamagedError); errors.As(err, &damaged) {
		a.log.Error(err.Error())
		err = nil
	}
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
	compiled, err := a.offer.Restore(s)
	if err == nil {
		a.core.GuessClock(a.now(), wall()+config.Instant(s.Configuration.GetAhead()))
		err = a.core.Restore(a.now(), s, compiled)
	}
	if err != nil {
		return lastgood.Reject(a.c.SnapshotDir, err)
	}
	return nil
}

// unsaved lists the changes since the snapshot was written.
type unsaved struct {
	any     atomic.Bool                // also leases
	whole   bool                       // the configuration was replaced, or could not be written
	changes []*controlv1.Configuration // of the configuration, in order
}

// note notes that a configuration, or a change of it, is in force.
func (u *unsaved) note(c *controlv1.Configuration) {
	u.changes = append(u.changes, c)
	if u.whole = u.whole || c.GetFull(); u.whole {
		u.changes = nil
	}
	u.any.Store(true)
}

// keepSnapshot writes the snapshot when it has changed: the configuration within a second,
// leases alone each saveEvery. The disk may be slow: only this goroutine waits for it.
func (a *Agent) keepSnapshot(ctx context.Context) {
	if a.c.SnapshotDir == "" {
		return
	}
	defer a.snapshotLock.Close()
	k := keeper{a: a, Keeper: lastgood.NewKeeper(a.c.SnapshotDir)}
	defer k.Close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last time.Duration
	for {
		select {
		case <-ctx.Done():
			a.noteAhead()
			k.save()
			return
		case <-tick.C:
		}
		a.noteAhead()
		if k.due() || a.now()-last >= saveEvery {
			last = a.now()
			k.save()
		}
	}
}

// keeper writes the snapshot of an agent.
type keeper struct {
	a *Agent
	*lastgood.Keeper
	leases *controlv1.Leases // written last
}

// due reports that the configuration has changed.
func (k *keeper) due() bool {
	k.a.offering.Lock()
	defer k.a.offering.Unlock()
	return k.a.unsaved.whole || len(k.a.unsaved.changes) > 0
}

// save writes what has changed. The first of consecutive failures is logged.
func (k *keeper) save() {
	a := k.a
	if !a.unsaved.any.Swap(false) {
		return
	}
	leases := ask(a, func(_ time.Duration, c *core.Core) *controlv1.Leases { return c.LastLeases() })
	if err := k.write(leases); err != nil {
		a.offering.Lock()
		a.unsaved.whole = true
		a.offering.Unlock()
		a.unsaved.any.Store(true)
		if a.saveFailures.Add(1) == 1 {
			a.log.Error("the last good snapshot cannot be written; a restart without the coordinator would use an "+
				"older one", "error", err)
		}
		return
	}
	k.leases = leases
	a.saveFailures.Store(0)
	a.saved.Add(1)
}

// unwritten returns an error while the snapshot cannot be written; it is tried each second.
func (a *Agent) unwritten() error {
	n := a.saveFailures.Load()
	if n == 0 {
		return nil
	}
	return fmt.Errorf("the last good snapshot could not be written to --snapshot-dir %s, tried %d times (the log "+
		"has the reason): a restart without the coordinator would use an older one", a.c.SnapshotDir, n)
}

// write writes the changes, or the whole where that is less.
func (k *keeper) write(leases *controlv1.Leases) error {
	u := &k.a.unsaved
	k.a.offering.Lock()
	whole, changes, source := u.whole || k.Full(), u.changes, (*controlv1.Configuration)(nil)
	if whole {
		source = k.a.offer.Source()
	}
	u.whole, u.changes = false, nil
	k.a.offering.Unlock()
	switch {
	case whole && source == nil: // there is no configuration yet
		return nil
	case whole:
		return k.Save(lastgood.Snapshot{Configuration: source, Leases: leases})
	case leases == k.leases:
		leases = nil
	}
	return k.Add(changes, leases)
}
