package grid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/titrate/titrate/lab/simulate"
	"github.com/titrate/titrate/lab/simulate/measure"
	"github.com/titrate/titrate/lab/simulate/scenario"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Options of a run.
type Options struct {
	Quick    bool                   // few limits and cells, seconds instead of minutes
	Gateways []int                  // only cells of so many gateways; nil: all
	Delays   []time.Duration        // only cells of these delays; nil: all
	Seed     uint64                 // 0: 1
	Progress func(fraction float64) // called now and then, 0 to 1; may be nil
}

// Systems of a row besides the baselines.
const (
	Optimistic = "optimistic"
	Strict     = "strict"
)

// ErrNoCells is returned if no cell has the wanted gateways and delays.
var ErrNoCells = errors.New("grid: no cell has these gateways and delays")

// Run plays the grid. The error is ErrNoCells, ctx's, or a fault of the grid itself.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &Result{Quick: o.Quick, Seed: max(o.Seed, 1)}
	jobs := o.chosen()
	if len(jobs) == 0 {
		return nil, ErrNoCells
	}
	for i, j := range jobs {
		if err := j.play(ctx, r, func(part float64) {
			if o.Progress != nil {
				o.Progress((float64(i) + part) / float64(len(jobs)))
			}
		}); err != nil {
			return nil, err
		}
	}
	r.finish()
	return r, nil
}

// job is one scenario to play.
type job struct {
	cell   Cell
	strict bool
	site   string // Exact or Local at a site; "": both modes and the baselines, at any distance
	span   time.Duration
	lead   time.Duration // quiet time before it; 0: the default
	limits []limit
	loads  []load
	seed   uint64
}

// chosen are the jobs whose cells the options name.
func (o Options) chosen() []job {
	return slices.DeleteFunc(append(o.jobs(), o.siteJobs()...), func(j job) bool {
		return len(o.Gateways) > 0 && !slices.Contains(o.Gateways, j.cell.Replicas) ||
			len(o.Delays) > 0 && !slices.Contains(o.Delays, j.cell.Delay)
	})
}

func (o Options) jobs() []job {
	var out []job
	for _, c := range cells(o.Quick) {
		for _, slow := range []bool{false, true} {
			j := job{cell: c, span: c.span(o.Quick, slow), loads: loads(), seed: max(o.Seed, 1)}
			for _, l := range limits(o.Quick) {
				if l.slow() == slow && c.plays(l) {
					j.limits = append(j.limits, l)
				}
			}
			if len(j.limits) == 0 {
				continue
			}
			out = append(out, j)
			j.strict = true
			out = append(out, j)
		}
	}
	return out
}

// scenario makes the job's: a tenant for each limit and load.
func (j *job) scenario() *scenario.Scenario {
	s := scenario.New(j.span, j.cell.Replicas)
	s.Seed, s.Warmup = j.seed, j.span/4
	s.Lead = cmp.Or(j.lead, s.Lead)
	s.Gossip.Delay, s.Gossip.Jitter, s.Gossip.Loss = j.cell.Delay, j.cell.Delay*2/5, j.cell.Loss
	if j.site != "" { // the way of the cell is all that a question to an owner takes
		s.Link, s.Late = scenario.Delay{}, scenario.Late{}
	}
	s.Events = j.cell.happenings(j.span)
	for i, l := range j.limits {
		for k := range j.loads {
			name := tenant(i, k)
			s.Resources = append(s.Resources, &quotav1.Tenant{Name: "tenants/" + name}, &quotav1.Limit{
				Name: "tenants/" + name + "/limits/each", Rate: l.name, Burst: l.burst, Strict: j.strict,
				Precision: j.precision()})
			demand, route := j.loads[k].make(l, j.span)
			s.Clients = append(s.Clients, scenario.Client{Name: name, Tenant: name, Cost: 1, Demand: demand,
				Route: route})
		}
	}
	return s
}

// precision returns the precision of the job's limits.
func (j *job) precision() quotav1.Precision {
	if j.site == Exact {
		return quotav1.Precision_EXACT
	}
	return quotav1.Precision_LOCAL
}

// tenant is the name of the tenant of a limit and a load.
func tenant(limit, load int) string { return fmt.Sprintf("t-%d-%d", limit, load) }

// play plays the job and adds it to the result. The baselines have no modes: they
// play with OPTIMISTIC.
func (j *job) play(ctx context.Context, r *Result, progress func(float64)) error {
	if j.site != "" {
		return j.playSite(ctx, r, progress)
	}
	o := simulate.Options{Progress: progress}
	if !j.strict {
		o.Baselines = rivals()
	}
	played, err := simulate.Run(ctx, j.scenario(), o)
	if err != nil {
		return fmt.Errorf("grid: %v: %w", j.cell, err)
	}
	for i := range played.Systems {
		s := &played.Systems[i]
		name := s.Name
		if name == simulate.Titrate {
			name = Optimistic
			if j.strict {
				name = Strict
			}
		}
		if err := j.add(r, name, s.Keys); err != nil {
			return err
		}
	}
	return nil
}

// rivals are the baselines that are compared with Titrate. All figures are relative to the central bucket.
func rivals() []string {
	return slices.DeleteFunc([]string{"static", "claims"}, func(name string) bool {
		return !slices.Contains(simulate.Baselines(), name)
	})
}

// add adds a system's figures of the job.
func (j *job) add(r *Result, system string, keys []measure.Key) error {
	return j.each(keys, func(l limit, of load, k *measure.Key) { r.row(l, j.cell, system).add(j.cell, of, k) })
}

// each calls f with each limit and load, and the figures of its key.
func (j *job) each(keys []measure.Key, f func(limit, load, *measure.Key)) error {
	byTenant := make(map[string]*measure.Key, len(keys))
	for i := range keys {
		byTenant[keys[i].Tenant] = &keys[i]
	}
	for i, l := range j.limits {
		for k, load := range j.loads {
			key := byTenant[tenant(i, k)]
			if key == nil {
				return fmt.Errorf("grid: %v: the simulation has no figures of %s under %s, burst %g", j.cell, load.name,
					l.name, l.burst)
			}
			f(l, load, key)
		}
	}
	return nil
}
