package agent

import (
	"context"
	"slices"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/proto/link"
	"github.com/titrate/titrate/services/agent/gateways"
	"github.com/titrate/titrate/services/agent/lastgood"
)

// saveEvery is the least time between two snapshots of leases alone.
const saveEvery = 5 * time.Second

// sweepEvery is how many seconds pass between two looks for what was won back.
const sweepEvery = 10

// beat sends sums to the gateways each period while something is contended,
// heartbeats each second, and does what time brings: expiry and forgetting.
func (a *Agent) beat(ctx context.Context) {
	tick := time.NewTicker(a.c.Period)
	defer tick.Stop()
	var last time.Duration
	for sequence := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := a.now()
		if stale := a.orders.Expire(now); stale != nil {
			a.log.Warn("leases are stale: the coordinator was not heard for their soft expiry; shares are frozen", "epoch", stale.Epoch)
			a.hand()
		}
		a.desk.bury(now)
		second := now-last >= link.HeartbeatEvery
		if second {
			last = now
			sequence++
			a.tally.Sweep(now)
			a.heartbeat(sequence)
			a.desk.compare()
			if sequence%sweepEvery == 0 {
				a.spent.Sweep(now)
			}
		}
		a.sums(now, second)
	}
}

// hand gives all gateways what is in force. It is the only one that does, and
// Joined for a newcomer, under one lock: an older order never overtakes.
func (a *Agent) hand() {
	a.handing.Lock()
	defer a.handing.Unlock()
	a.server.Each(a.handTo)
}

func (a *Agent) handTo(g *gateways.Gateway) {
	config, shares := a.orders.InForce()
	if config != nil && a.desk.news(g, config.Revision) {
		g.Send(config)
	}
	if shares != nil {
		g.Send(copied(shares))
	}
}

// copied is a message of one gateway's own: writing one passes through its
// fields by pointer, and gateways are written to at the same time.
func copied(s *exchange.Shares) *exchange.Shares {
	out := *s
	out.Flows, out.Pools = slices.Clone(s.Flows), slices.Clone(s.Pools)
	return &out
}

func (a *Agent) heartbeat(sequence uint64) {
	config, _ := a.orders.InForce()
	beat := link.Heartbeat{Sequence: sequence}
	if config != nil {
		beat.Revision = config.Revision
	}
	a.server.Each(func(g *gateways.Gateway) {
		own := beat
		g.Send(&own)
	})
}

// sums tells each gateway what the others do: always with all, otherwise if
// something is contended or the membership changed.
func (a *Agent) sums(now time.Duration, all bool) {
	contended := a.tally.Contended(now)
	a.server.Each(func(g *gateways.Gateway) {
		if s := a.tally.Sums(now, g.Replica()); all || contended || a.desk.changed(g, s) {
			g.Send(s)
		}
	})
}

// keep writes the snapshot when orders have changed. The disk may be slow: only
// this goroutine waits for it.
func (a *Agent) keep(ctx context.Context) {
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
		status := a.orders.Status(a.now())
		if status.Revision != revision || a.now()-last >= saveEvery {
			revision, last = status.Revision, a.now()
			a.save()
		}
	}
}

// save writes what is in force if it changed. The first of a row of failures is
// logged.
func (a *Agent) save() {
	s := a.orders.Snapshot()
	if s == nil || !a.unsaved.Swap(false) {
		return
	}
	if err := lastgood.Save(a.c.SnapshotDir, *s); err != nil {
		a.unsaved.Store(true)
		if a.saveFail.Add(1) == 1 {
			a.log.Error("the last good snapshot cannot be written; a restart without the coordinator would use an older one", "error", err)
		}
		return
	}
	a.saveFail.Store(0)
	a.saved.Add(1)
}
