package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/titrate/titrate/control/limiter"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

func sortedNames(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }

// clients checks all clients; gateways that join later count as known.
func (c *checker) clients() {
	for _, e := range c.s.Events {
		if e.Kind == Join && e.Replica != "" {
			c.replicas[e.Replica] = true
		}
	}
	seen := map[string]bool{}
	total := 0
	if len(c.s.Clients) == 0 {
		c.wrong("clients", "want one at least, found none")
	}
	for i := range c.s.Clients {
		cl, path := &c.s.Clients[i], fmt.Sprintf("clients[%d]", i)
		c.fresh(path+".name", cl.Name, seen[cl.Name])
		seen[cl.Name] = true
		if cl.Count < 0 || cl.Count > MaxClients {
			c.wrong(path+".count", "want 1 to %d, found %d", MaxClients, cl.Count)
			continue
		}
		total += max(cl.Count, 1)
		c.known(path+".tenant", cl.Tenant, c.tenants, "tenant")
		if cl.Pool != "" || len(c.pools) > 0 {
			c.known(path+".pool", cl.Pool, c.pools, "pool")
		}
		c.number(path+".cost", cl.Cost, 1e-6, 1e6)
		c.span(path+".patience", cl.Patience, 0, time.Hour)
		c.span(path+".takes", cl.Takes, 0, time.Hour)
		c.demand(path+".demand", &cl.Demand)
		c.route(path+".route", &cl.Route)
	}
	if total > MaxClients {
		c.wrong("clients", "want %d at most together, found %d", MaxClients, total)
	}
	identities, classes := c.s.Named()
	if n := len(identities); n > limiter.MaxIdentities {
		c.wrong("clients", "want %d names of identities at most, found %d", limiter.MaxIdentities, n)
	}
	if n := len(classes); n > limiter.MaxClasses {
		c.wrong("clients", "want %d classes at most, found %d", limiter.MaxClasses, n)
	}
}

// Named are the names of all identities and classes that clients have, sorted.
func (s *Scenario) Named() (identities, classes []string) {
	for i := range s.Clients {
		identities = slices.AppendSeq(identities, maps.Keys(s.Clients[i].Identities))
		classes = append(classes, s.Clients[i].Classes...)
	}
	slices.Sort(identities)
	slices.Sort(classes)
	return slices.Compact(identities), slices.Compact(classes)
}

func (c *checker) demand(path string, d *Demand) {
	if len(d.Trace) > 0 {
		for i, a := range d.Trace {
			if a.At < 0 || i > 0 && a.At < d.Trace[i-1].At || a.Client == "" || !(a.Cost >= 1e-6 && a.Cost <= 1e6) {
				c.wrong(path+".trace", "request %d is %+v; want times that do not run back, a client, and a cost of "+
					"0.000001 to 1000000", i+1, a)
				return
			}
		}
		return
	}
	if len(d.Points) == 0 {
		c.wrong(path, "missing; want constant, poisson, onOff, step, ramp or trace")
		return
	}
	for i, p := range d.Points {
		c.number(fmt.Sprintf("%s.points[%d].rate", path, i), p.Rate, 0, MaxRate)
		if p.At < 0 || i > 0 && p.At <= d.Points[i-1].At {
			c.wrong(fmt.Sprintf("%s.points[%d].at", path, i), "want times that rise, found %v", p.At)
		}
	}
	last := d.Points[len(d.Points)-1].At
	if d.Repeat < 0 || d.Repeat > 0 && (d.Repeat <= last || c.s.Duration/d.Repeat > maxChanges) {
		c.wrong(path, "repeats each %v; want more than %v, and %d times at most", d.Repeat, last, maxChanges)
	}
}

func (c *checker) route(path string, r *Route) {
	switch r.Kind {
	case Pinned:
		c.known(path+".pinned", r.Replica, c.replicas, "replica")
	case Moving:
		c.span(path+".moving", r.Every, time.Millisecond, MaxDuration)
	case Spread:
		sum := 0.0
		for _, name := range slices.Sorted(maps.Keys(r.Weights)) {
			c.known(path+".spread."+name, name, c.replicas, "replica")
			c.number(path+".spread."+name, r.Weights[name], 0, 1e9)
			sum += r.Weights[name]
		}
		if len(r.Weights) > 0 && sum == 0 {
			c.wrong(path+".spread", "all are 0; want one above 0 at least")
		}
	}
}

// events checks each event, and in order of time that gateways which leave are
// there, and gateways which join are not.
func (c *checker) events() {
	up := map[string]bool{}
	for _, r := range c.s.Replicas {
		up[r.Name] = true
	}
	for _, i := range c.s.Order() {
		e, path := &c.s.Events[i], fmt.Sprintf("events[%d]", i)
		if e.At < 0 || e.At >= c.s.Duration {
			c.wrong(path+".at", "want 0s to less than the duration (%v), found %v", c.s.Duration, e.At)
		}
		c.event(path, e, up)
	}
	if len(c.replicas) > MaxReplicas {
		c.wrong("events", "want %d gateways at most together, found %d", MaxReplicas, len(c.replicas))
	}
}

func (c *checker) event(path string, e *Event, up map[string]bool) {
	switch e.Kind {
	case Partition:
		c.groups(path+".partition", e.Groups)
	case Join:
		if c.fresh(path+".join", e.Replica, up[e.Replica] || e.Replica == Coordinator) {
			up[e.Replica] = true
		}
	case Leave, Crash, Restart:
		field := path + "." + eventNames[e.Kind]
		if c.known(field, e.Replica, up, "replica that is up then") {
			up[e.Replica] = e.Kind == Restart
			if e.Kind != Restart {
				delete(up, e.Replica)
			}
			if len(up) == 0 {
				c.wrong(field, "no replica is left")
			}
			if e.Kind != Crash && (c.noAgent[e.Replica] || c.paused[e.Replica]) {
				c.wrong(field, "%q has no agent that runs: want agentBack or agentResumed before", e.Replica)
			}
			delete(c.noAgent, e.Replica)
			delete(c.paused, e.Replica)
		}
	case AgentLost, AgentBack:
		field := path + "." + eventNames[e.Kind]
		if !c.known(field, e.Replica, up, "replica that is up then") {
			return
		}
		if lost := e.Kind == AgentLost; lost == c.noAgent[e.Replica] {
			c.wrong(field, "%q: want agentLost and agentBack in turn", e.Replica)
		}
		c.noAgent[e.Replica] = e.Kind == AgentLost
		delete(c.paused, e.Replica)
	case AgentPaused, AgentResumed:
		field := path + "." + eventNames[e.Kind]
		if !c.known(field, e.Replica, up, "replica that is up then") {
			return
		}
		if pause := e.Kind == AgentPaused; pause == c.paused[e.Replica] || c.noAgent[e.Replica] {
			c.wrong(field, "%q: want agentPaused and agentResumed in turn, while it has an agent", e.Replica)
		}
		c.paused[e.Replica] = e.Kind == AgentPaused
	case Apply:
		c.apply(path+".apply", e.Resource)
	case Serve:
		c.known(path+".upstream.pool", e.Pool, c.adaptive, "adaptive pool")
		c.number(path+".upstream.capacity", e.Capacity, 1e-6, MaxRate)
	}
}

// apply checks a resource that an event replaces. Pools, tenants and limits are fixed at the start, since
// figures are kept for each. An event adds none of them, and a limit continues to count by the same identity.
func (c *checker) apply(path string, m resource.Message) {
	c.resource(path, m)
	if resource.KindOf(m) != resource.Quota && !c.known(path+".name", m.GetName(), c.names, "resource") {
		return
	}
	switch m := m.(type) {
	case *quotav1.Pool:
		if (m.GetAdaptive() != nil) != c.adaptive[short(m)] {
			c.wrong(path, "a pool stays adaptive, or fixed, as it is; want other numbers only")
		}
	case *quotav1.Limit:
		was := c.s.Resources[at(c.s.Resources, m.GetName())].(*quotav1.Limit)
		if (m.GetKey() == quotav1.Key_TENANT) != (was.GetKey() == quotav1.Key_TENANT) ||
			(m.GetConcurrency() > 0) != (was.GetConcurrency() > 0) || calendarOf(m) != calendarOf(was) ||
			enforced(m) != enforced(was) || m.GetIdentity() != was.GetIdentity() ||
			!slices.Equal(m.GetPools(), was.GetPools()) || !slices.Equal(m.GetClasses(), was.GetClasses()) {
			c.wrong(path, "what a limit counts, and its mode, stay as they are; want other numbers only")
		}
	}
}

// calendarOf returns the periods of a limit's quota as a text, "" without one.
func calendarOf(l *quotav1.Limit) string {
	if l.GetQuota() == nil {
		return ""
	}
	return fmt.Sprint(l.GetQuota().GetPer(), l.GetQuota().GetZone(), l.GetQuota().GetStartsOn())
}

func enforced(l *quotav1.Limit) bool {
	return l.GetMode() == quotav1.Mode_MODE_UNSPECIFIED || l.GetMode() == quotav1.Mode_ENFORCE
}

func (c *checker) groups(path string, groups [][]string) {
	seen := map[string]bool{}
	for _, g := range groups {
		for _, name := range g {
			if name != Coordinator {
				c.known(path, name, c.replicas, "replica")
			}
			if seen[name] {
				c.wrong(path, "%q is in two groups", name)
			}
			seen[name] = true
		}
	}
	if len(groups) == 0 {
		c.wrong(path, "want one group at least, such as [[gw-1], [gw-2, gw-3]]")
	}
}

// Order lists the events' places in order of time; events of one time keep their given order.
func (s *Scenario) Order() []int {
	order := make([]int, len(s.Events))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(s.Events[a].At - s.Events[b].At) })
	return order
}
