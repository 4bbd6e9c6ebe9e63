package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/fleet/exact"
	"github.com/titrate/titrate/e2e/fleet/filter"
	"github.com/titrate/titrate/e2e/fleet/workload"
	"github.com/titrate/titrate/lab/installation"
)

// The pool that the synthetic gateways share. Each tenant wants the whole pool, so the shares add up to the
// capacity.
const (
	pool     = "fleet"
	capacity = 1000 // cost units/s
)

var tenants = exact.Tenants

// documents are the configuration: the pool of the synthetic gateways, and a limit for the
// clients of the Envoys.
func documents(o *options) string {
	var b strings.Builder
	item := func(format string, args ...any) {
		fmt.Fprintf(&b, "- {apiVersion: titrate.dev/v1alpha1, "+format+"}\n", args...)
	}
	item("kind: Pool, name: pools/%s, spec: {capacity: %d}", pool, capacity)
	item("kind: Pool, name: pools/%s, spec: {capacity: 1000000}", exact.Pool)
	for i, name := range tenants {
		item("kind: Tenant, name: tenants/%s, spec: {weight: %d}", name, i+1)
	}
	item("kind: Pool, name: pools/api, spec: {capacity: 100000}")
	item("kind: Tenant, name: tenants/%s", tenant)
	item("kind: Limit, name: tenants/%s/limits/each, spec: {rate: %d/s, burst: %d}", tenant, rate, burst)
	for _, name := range exact.Tenants {
		item("kind: Limit, name: tenants/%s/limits/each, spec: {rate: %g/s, burst: %d, precision: EXACT, "+
			"pools: [%s]}", name, exact.Rate(o.agents, o.keys), exact.Burst, exact.Pool)
	}
	return b.String()
}

// fleet is a running one.
type fleet struct {
	o       options
	rig     *rig.Rig
	start   time.Time
	work    *workload.Fleet
	in      *installation.Installation // etcd and the coordinator
	members []*member                  // members with synthetic gateways first, then members with an Envoy
	tokens  tally
	quiet   float64 // token messages/s while nothing happens
	traffic *traffic
	sites   *region // nil: one site
}

// member is an agent with its gateway: synthetic, or an Envoy.
type member struct {
	name, gossip, web string
	site              int
	rig               *rig.Rig // that the agent runs in
	agent             *installation.Server
	running           bool
	gateway           *workload.Gateway // nil: an Envoy
	filter            *filter.Filter    // nil: an Envoy, or not linked
	envoy             *rig.Envoy        // nil: synthetic
	exact             *exactMember      // of a fleet with EXACT keys, or of several sites; nil: there is none
}

// url returns the URL of a page of the agent.
func (m *member) url(path string) string { return "http://" + m.web + path }

// memory is the most that an agent uses here, measured; so much must be free.
const memory = 40 << 20

// newFleet starts everything but the agents that join later.
func newFleet(ctx context.Context, o options) (f *fleet, err error) {
	if err := fits(o.agents+o.parts(), o.memory()); err != nil {
		return nil, err
	}
	r, err := rig.New(o.rig)
	if err != nil {
		return nil, err
	}
	r.Grace = stopGrace
	f = &fleet{o: o, rig: r, start: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if o.sites > 1 {
		return f, f.startSites(ctx)
	}
	if err := f.startCentre(ctx); err != nil {
		return f, err
	}
	if o.exact {
		return f, f.startExact(ctx)
	}
	return f, f.startClaims(ctx)
}

// startClaims starts the agents, the gateways that claim, and the Envoys with their clients.
func (f *fleet) startClaims(ctx context.Context) (err error) {
	synthetic := f.o.agents - f.o.envoys
	if f.work, err = workload.New(workload.Plan{Gateways: synthetic + f.o.parts(), Keys: f.o.keys, Users: f.o.users,
		Rate: f.o.rate, Flows: len(tenants)}); err != nil {
		return err
	}
	if err := f.startAgents(ctx, f.o.agents, synthetic); err != nil {
		return err
	}
	if err := f.link(f.members[:synthetic]); err != nil {
		return err
	}
	return f.startTraffic(ctx, f.members[synthetic:])
}

// memory returns the memory of an agent; with EXACT keys, of the agent and its gateway.
func (o *options) memory() int {
	if o.exact || o.sites > 1 {
		return memory + o.keysEach()*exactMemory
	}
	return memory
}

// memoryLimit is the memory to which an agent keeps, and its gateway. Of several sites it has keys of all gateways.
func (o *options) memoryLimit() int { return (memory + o.keys*exactMemory) / 2 }

// keysEach returns the number of EXACT keys of a gateway.
func (o *options) keysEach() int {
	if o.sites > 1 {
		return o.keys * o.sites / o.agents
	}
	return o.keys
}

// fits reports whether the machine has the memory for so many agents.
func fits(agents, memory int) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return fmt.Errorf("/proc/meminfo has no MemAvailable: %w", err)
	}
	if most := kib << 10 / memory; agents > most {
		return fmt.Errorf("%d agents need %d MiB each and %d MiB are available: want -n and -part of %d together at "+
			"most", agents, memory>>20, kib>>10, most)
	}
	return nil
}

// startCentre starts etcd and the coordinator and applies the documents.
func (f *fleet) startCentre(ctx context.Context) error {
	var err error
	if f.in, err = f.rig.New(installation.Options{Documents: documents(&f.o),
		Coordinator: []string{"--membership", f.o.membership().String()}}); err != nil {
		return err
	}
	return f.in.Start(ctx)
}

// membership returns how long the coordinator counts an unreachable agent.
func (o *options) membership() time.Duration { return o.forget * 4 / 3 }

// split returns the time after which a cut-off agent falls to its part by weight.
func (o *options) split() time.Duration { return o.forget * 2 / 3 }

// progressOf is the number of agents of which a line is said while they start.
const progressOf = 8

// say says a step, and when.
func (f *fleet) say(format string, args ...any) {
	f.rig.Say("%5.1f s: "+format, append([]any{time.Since(f.start).Seconds()}, args...)...)
}

// atOnce is the number of agents that start at a time. Each takes most of a second of processor time.
const atOnce = 2

// frugal are settings of Go's runtime for agents that share few processors with many others.
// With one processor a process does not wake a second thread for each packet. While GODEBUG's
// schedtrace is on, which writes a line each hour here, the runtime's own thread looks after the
// others each 10 ms. Otherwise it sleeps until a system call wakes it, and then looks each 20 µs
// for a while. Both together save a third of the processor time of an agent that is mostly idle.
// The collector runs after 16 MiB, not after 4, and early enough to keep to memoryLimit.
var frugal = []string{"GOMAXPROCS=1", "GODEBUG=schedtrace=3600000", "GOGC=400"}

// startAgents adds so many agents and returns when all are ready. The first synthetic of the new agents get
// synthetic gateways.
func (f *fleet) startAgents(ctx context.Context, n, synthetic int) error {
	ports, err := installation.Addresses(2 * n)
	if err != nil {
		return err
	}
	known := len(f.members)
	for i := range n {
		m := &member{name: fmt.Sprintf("gw-%d", known+i), rig: f.rig, gossip: ports[2*i], web: ports[2*i+1]}
		if f.sites != nil {
			f.sites.place(m, known+i)
		}
		if i < synthetic {
			m.gateway = f.work.Gateways[f.linked()]
		}
		f.members = append(f.members, m)
	}
	added := f.members[known:]
	for len(added) > 0 {
		some := added[:min(atOnce, len(added))]
		added = added[len(some):]
		if err := each(some, func(m *member) error { return f.startAgent(ctx, m) }); err != nil {
			return err
		}
		if done := n - len(added); n >= progressOf && (done%progressOf == 0 || done == n) {
			f.say("%d of %d agents run", done, n)
		}
	}
	return nil
}

// linked returns the number of members with a synthetic gateway.
func (f *fleet) linked() (n int) {
	for _, m := range f.members {
		if m.gateway != nil {
			n++
		}
	}
	return n
}

// each does something with members, all at once.
func each(members []*member, do func(*member) error) error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = do(m) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// introduced is the number of other agents whose addresses an agent is given; gossip finds the rest.
const introduced = 3

func (f *fleet) startAgent(ctx context.Context, m *member) (err error) {
	peers := []string{m.gossip}
	for _, other := range f.members {
		if other != m && len(peers) <= introduced {
			peers = append(peers, other.gossip)
		}
	}
	more := []string{"--fault-injection", "--isolation-split-after", f.o.split().String(), "--claims-forget-after",
		f.o.forget.String()}
	if f.sites != nil {
		more = append(more, "--insecure", "--site", siteName(m.site))
	}
	m.agent = m.rig.Agent(m.name, f.in.API(), m.web, peers, more...)
	m.agent.Env = append(frugal, fmt.Sprintf("GOMEMLIMIT=%d", f.o.memoryLimit()))
	err = m.agent.Start(ctx)
	m.running = err == nil
	return err
}

// link connects the gateways of members with their agents.
func (f *fleet) link(members []*member) error {
	return each(members, func(m *member) (err error) {
		m.filter, err = filter.Connect(filter.Options{Socket: f.rig.Socket(m.name), Name: m.name, Pool: pool,
			Tenants: tenants, Demand: 2 * capacity / float64(f.o.agents), Start: f.start,
			Patience: f.o.forget}, m.gateway)
		return err
	})
}

// running returns the members whose agents run; if synthetic, only members with a synthetic gateway.
func (f *fleet) running(synthetic bool) (all []*member) {
	for _, m := range f.members {
		if m.running && (m.filter != nil || !synthetic) {
			all = append(all, m)
		}
	}
	return all
}

// sound reports whether all processes still run.
func (f *fleet) sound() error {
	var errs []error
	processes := f.in.Processes()
	for _, m := range f.running(false) {
		processes = append(processes, m.agent.Process())
		if m.envoy != nil {
			processes = append(processes, m.envoy.Process())
		}
		if m.filter != nil {
			errs = append(errs, m.filter.Err())
		}
		if m.exact != nil {
			errs = append(errs, m.exact.Err())
		}
	}
	for _, p := range processes {
		select {
		case <-p.Exited():
			errs = append(errs, p.Obituary())
		default:
		}
	}
	return errors.Join(errs...)
}

// close ends everything.
func (f *fleet) close() error {
	f.traffic.end()
	for _, m := range f.members {
		if m.filter != nil {
			m.filter.Close()
		}
	}
	if f.sites != nil { // before the gateways
		f.sites.stop()
		f.sites.asking.Wait()
	}
	f.closeExact()
	return errors.Join(f.sites.close(), f.rig.Close())
}
