package limiter

import (
	"maps"
	"math"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
)

// shares is the engine's view of the leases. It is replaced as a whole.
type shares struct {
	epoch      int64
	known      bool // a Shares has arrived
	stale      bool
	unlinked   bool  // the link to the agent has been down since they came
	staleSince int64 // nanoseconds; 0: not seen by a tick yet
	flows      map[flowName]lease
	pools      map[string]exchange.PoolShare
	lost       map[string]config.OnLoss // pools past their hard expiry
}

// lease is a flow's share and its measured demand, cost units/s.
type lease struct{ share, demand float64 }

// SetShares installs the leases. An older epoch than the one in force is
// ignored: it is a deposed leader's.
func (e *Engine) SetShares(s *exchange.Shares) {
	e.admin.Lock()
	defer e.admin.Unlock()
	old := e.shares.Load()
	if old.known && s.Epoch < old.epoch {
		return
	}
	sh := &shares{
		epoch: s.Epoch, known: true, stale: s.Stale,
		flows: make(map[flowName]lease, len(s.Flows)),
		pools: make(map[string]exchange.PoolShare, len(s.Pools)),
	}
	for _, f := range s.Flows {
		sh.flows[flowName{f.Tenant, f.Pool}] = lease{f.Share, f.Demand}
	}
	for _, p := range s.Pools {
		sh.pools[p.Pool] = p
	}
	if s.Stale {
		sh.staleSince, sh.lost = old.staleSince, old.lost
	}
	e.shares.Store(sh)
	e.setUnused()
	if e.snap.Load() != nil {
		e.refreshAll()
	}
}

// of is v_max of a flow: its lease, else the pool's share for flows that have
// none or what fits of its guarantee, else what the configuration gives it. At most the
// quota's max.
func (sh *shares) of(s *snapshot, t *tenant, pool int) float64 {
	name := s.list[pool].Name
	own, ok := sh.flows[flowName{t.name, name}]
	share := own.share
	if !ok {
		var p exchange.PoolShare
		p, ok = sh.pools[name]
		share = max(p.IdleShare, t.quotas[name].Guaranteed*p.GuaranteeScale)
	}
	if !ok || !(share >= 0) || math.IsInf(share, 1) {
		share = s.initialShare(t, pool)
	}
	return min(share, t.maxOf(name))
}

// expireShares applies OnLoss to pools whose hard expiry has passed.
func (e *Engine) expireShares(now int64) {
	if sh := e.shares.Load(); !sh.stale || e.snap.Load() == nil {
		return
	}
	e.admin.Lock()
	defer e.admin.Unlock()
	sh, snap := *e.shares.Load(), e.snap.Load()
	if !sh.stale {
		return
	}
	if sh.staleSince == 0 {
		sh.staleSince = max(1, now)
	}
	lost := map[string]config.OnLoss{}
	for i := range snap.list {
		if p := &snap.list[i]; expired(p, now-sh.staleSince) {
			lost[p.Name] = p.OnLoss
		}
	}
	changed := !maps.Equal(lost, sh.lost)
	sh.lost = lost
	e.shares.Store(&sh)
	if changed {
		e.refreshAll()
	}
}

// expired reports whether shares that went stale so long ago are lost.
func expired(p *config.Pool, age int64) bool {
	switch p.OnLoss {
	case config.SafeRate:
		return p.HardExpiry > 0 && age >= int64(p.HardExpiry)
	case config.Open:
		return age >= int64(p.HardExpiry)
	}
	return false
}

func (sh *shares) stats() SharesStats { return SharesStats{sh.known, sh.epoch, sh.stale} }
