package coordinator

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/election"
)

// The site where most of a pool's demand is: a coordinator of that site leads the pool (election.Sharing.Home). The
// coordinator that leads a pool finds it, and states a change after SiteSettle.

const (
	// homeFrom is the part of a pool's demand from which on a site is its home. Below homeUntil it is no more. So
	// demand that swings between sites moves no leadership.
	homeFrom, homeUntil = 2. / 3, 1. / 2
	// looks is the number of looks within SiteSettle.
	looks = 6
)

// homes has the findings about the pools that are led here. The goroutine that leads uses it.
type homes struct {
	leans  map[string]lean // pools whose demand comes from elsewhere
	looked time.Time
	epoch  int64
	stated map[string]string // in that epoch
}

// lean is another home of a pool than the one in force, and since when.
type lean struct {
	site  string
	since time.Time
}

// homeOf returns the site that a pool's demand by site makes its home.
func homeOf(demand map[string]float64, home string) string {
	all := 0.
	for _, d := range demand {
		all += d
	}
	for site, d := range demand {
		if all > 0 && d >= homeFrom*all {
			return site
		}
	}
	if all > 0 && demand[home] < homeUntil*all {
		return ""
	}
	return home
}

// look takes the demand of the pools that are led here, by site, and returns the homes that have changed for so long.
// in are the homes in force.
func (h *homes) look(now time.Time, led map[string]map[string]float64, in map[string]string,
	settle time.Duration) map[string]string {
	maps.DeleteFunc(h.leans, func(pool string, _ lean) bool { return led[pool] == nil })
	if h.leans == nil {
		h.leans = map[string]lean{}
	}
	changed := map[string]string{}
	for pool, demand := range led {
		site := homeOf(demand, in[pool])
		switch was, leans := h.leans[pool]; {
		case site == in[pool]:
			delete(h.leans, pool)
		case !leans || was.site != site:
			h.leans[pool] = lean{site, now}
		case now.Sub(was.since) >= settle:
			changed[pool] = site
		}
	}
	return changed
}

// stateHomes finds the homes of the pools that are led here from time to time, and states the homes that have changed.
func (o *Coordinator) stateHomes(ctx context.Context, now time.Time, s *election.Sharing) {
	h := &o.homes
	if s == nil || !s.Sites() || now.Sub(h.looked) < o.config.SiteSettle/looks {
		return
	}
	h.looked = now
	changed := h.look(now, o.demandBySite(s), s.Homes, o.config.SiteSettle)
	if len(changed) == 0 || h.epoch == s.Epoch && maps.Equal(changed, h.stated) {
		return
	}
	if err := o.elector.StateHomes(ctx, s.Epoch, changed); err != nil {
		o.log.Warn("pools should be led at other sites", "pools", len(changed), "error", err)
		return
	}
	h.epoch, h.stated = s.Epoch, changed
	o.log.Info("pools have other sites", "pools", slices.Sorted(maps.Keys(changed)))
}

// demandBySite returns the demand of the pools that are led here, by site. A pool that has a home and is not
// configured any more has none.
func (o *Coordinator) demandBySite(s *election.Sharing) map[string]map[string]float64 {
	sites := o.fleet.SitesOfAgents(o.streams.Agents())
	led := map[string]map[string]float64{}
	for _, pool := range o.part.pools {
		led[pool] = map[string]float64{}
	}
	for pool, demand := range o.loop.DemandByAgent() {
		if by := led[pool]; by != nil {
			for agent, d := range demand {
				if site, known := sites[agent]; known {
					by[site] += d
				}
			}
		}
	}
	for pool := range s.Homes {
		if led[pool] == nil && s.Leads(pool) && o.part.whole != nil && !o.part.whole.Has(pool) {
			led[pool] = map[string]float64{"": 1}
		}
	}
	return led
}

// ledAway returns how many pools are led here though their demand is mostly at another site.
func (o *Coordinator) ledAway(s *election.Sharing, pools []allocation.PoolShare) (n int) {
	for i := range pools {
		if s == nil {
			continue
		}
		if home := s.Homes[pools[i].Pool]; home != "" && home != o.config.Site {
			n++
		}
	}
	return n
}
