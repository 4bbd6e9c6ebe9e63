package world

import (
	"slices"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/simulate/scenario"
)

// flying is a request at the upstream of an adaptive pool.
type flying struct {
	flight *limiter.Flight
	micros int64
	since  time.Duration
}

// depart sends a released request to its pool's upstream: one server that takes
// requests in order, at the capacity that the scenario has now.
func (w *World) depart(r *limiter.Request, f *limiter.Flight) {
	upstreams := w.stage.Scenario.Upstreams
	at := slices.IndexFunc(upstreams, func(u scenario.Upstream) bool { return u.Pool == r.Pool })
	work := time.Duration(float64(r.Micros()) * 1e-6 / upstreams[at].Capacity * float64(time.Second))
	w.servers[at] = max(w.servers[at], w.now) + work
	f.Depart(r.Micros())
	w.add(item{at: w.servers[at] + upstreams[at].Takes, task: landFlight,
		load: &flying{flight: f, micros: r.Micros(), since: w.now}})
}

func (f *flying) land(now time.Duration) { f.flight.Land(f.micros, f.micros, now-f.since) }
