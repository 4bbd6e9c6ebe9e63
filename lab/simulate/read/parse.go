package read

import (
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/lab/documents"
	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
)

// Open opens a trace by the name that the scenario in a file has for it.
type Open func(file, name string) (io.ReadCloser, error)

// place is the line of a field of the scenario, and the field's name in the file.
type place struct {
	line  int
	shown string
}

// parser reads one scenario.
type parser struct {
	*tree.Reader // of the Scenario's spec
	extra        *document.Extra
	s            *scenario.Scenario
	open         Open
	places       map[string]place              // by the field's path in the scenario
	resources    map[string]*document.Document // by their path in the scenario

	pools, tenants []string // the last part of their names
}

// Parse reads the one Scenario of some files, with their resources; open opens the traces
// that it names, nil refuses them. All mistakes come at once, up to tree.MostErrors of
// each file.
func Parse(files []*document.File, open Open) (*scenario.Scenario, error) {
	e := documents.TheOnly(files, document.Scenario)
	if e == nil {
		if document.Mistakes(files) == nil {
			files[0].Wrong(0, "", "no document of kind Scenario; want one, whose spec has duration, replicas and "+
				"clients")
		}
		return nil, document.Mistakes(files)
	}
	p := &parser{Reader: e.Reader.Below("spec"), extra: e, s: scenario.New(0, 0), open: open,
		places: map[string]place{}, resources: map[string]*document.Document{}}
	p.s.Name = e.Name
	for _, f := range files {
		for _, d := range f.Documents {
			p.add(d)
		}
	}
	if e.Spec == nil {
		p.Wrong(e.Line, "", "missing; want such as {duration: 60s, replicas: 3, clients: [...]}")
	} else {
		p.spec(e.Spec)
		for _, wrong := range p.s.Check() {
			p.note(wrong)
		}
	}
	if err := document.Mistakes(files); err != nil {
		return nil, err
	}
	return p.s, nil
}

// add takes in a resource.
func (p *parser) add(d *document.Document) {
	p.resources[fmt.Sprintf("resources[%d]", len(p.s.Resources))] = d
	p.s.Resources = append(p.s.Resources, d.Resource)
	ref, _ := resource.Parse(d.Name()) // a document without a name was already refused
	switch ref.Kind {
	case resource.Pool:
		p.pools = append(p.pools, ref.ID)
	case resource.Tenant:
		p.tenants = append(p.tenants, ref.ID)
	}
}

// note notes a mistake that the scenario found in itself: at the resource, or at the nearest place that the
// file has. A field that could not be read is noted once.
func (p *parser) note(e *scenario.FieldError) {
	shown := e.Field
	for up := e.Field; ; up = up[:max(0, strings.LastIndexAny(up, ".["))] {
		if d := p.resources[up]; d != nil {
			d.Note(strings.TrimPrefix(e.Field[len(up):], "."), e.Message)
			return
		}
		at, ok := p.places[up]
		if !ok && up != "" {
			continue
		}
		if at.shown != "" {
			shown = at.shown + strings.TrimPrefix(e.Field, up)
		}
		if !p.IsWrong(shown) && !p.IsWrong(at.shown) {
			p.Wrong(at.line, shown, "%s", e.Message)
		}
		return
	}
}

// at notes where a field of the scenario stands, under the name that it has there
// and in the file.
func (p *parser) at(n *yaml.Node, line int, path, shown string) {
	if n != nil {
		line = n.Line
	}
	p.places[path] = place{line, shown}
}

// fields reads a mapping and notes where it and all its fields stand.
func (p *parser) fields(n *yaml.Node, path string, known ...string) map[string]*yaml.Node {
	p.at(n, 0, path, path)
	f := p.Fields(n, path, known...)
	for name, value := range f {
		field := tree.Join(path, name)
		p.at(value, 0, field, field)
	}
	return f
}

func (p *parser) spec(n *yaml.Node) {
	f := p.fields(n, "", "duration", "warmup", "lead", "seed", "replicas", "sites", "gossip", "link", "late",
		"coordinator",
		"upstreams", "clients", "events")
	s := p.s
	if f["duration"] == nil {
		p.Wrong(n.Line, "duration", "missing; want how long the scenario is, such as 60s")
	}
	s.Duration = p.Duration(f["duration"], "duration", time.Minute, time.Second, scenario.MaxDuration)
	s.Warmup = p.Duration(f["warmup"], "warmup", s.Duration/10, 0, scenario.MaxDuration)
	s.Lead = p.Duration(f["lead"], "lead", s.Lead, 0, time.Minute)
	s.Seed = uint64(p.Number(f["seed"], "seed", 1, tree.Span{Most: 1 << 53}))
	p.replicas(f["replicas"], n.Line)
	for i, item := range p.Items(f["sites"], "sites") {
		p.site(item, fmt.Sprintf("sites[%d]", i))
	}
	p.gossip(f["gossip"])
	p.delay(f["link"], "link", &s.Link)
	if late := f["late"]; late != nil {
		of := p.fields(late, "late", "gateways", "agents")
		p.delay(of["gateways"], "late.gateways", &s.Late.Gateways)
		p.delay(of["agents"], "late.agents", &s.Late.Agents)
	}
	p.coordinator(f["coordinator"])
	for i, item := range p.Items(f["upstreams"], "upstreams") {
		p.upstream(item, fmt.Sprintf("upstreams[%d]", i))
	}
	for i, item := range p.List(f["clients"], n.Line, "clients") {
		p.client(item, fmt.Sprintf("clients[%d]", i))
	}
	for i, item := range p.Items(f["events"], "events") {
		p.event(item, fmt.Sprintf("events[%d]", i))
	}
}

// replicas reads how many gateways there are, or which.
func (p *parser) replicas(n *yaml.Node, line int) {
	const path = "replicas"
	switch {
	case n == nil:
		p.Wrong(line, path, "missing; want how many gateways there are, or a list of them")
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			path := fmt.Sprintf("%s[%d]", path, i)
			f := p.fields(item, path, "name", "weight")
			p.s.Replicas = append(p.s.Replicas, scenario.Replica{
				Name:   p.Text(f["name"], item.Line, path+".name"),
				Weight: p.Number(f["weight"], path+".weight", 1, tree.Span{Least: 1e-6, Most: 1e6}),
			})
		}
		return
	}
	p.s.Replicas = scenario.New(0, p.Count(n, path, 3, 1, scenario.MaxReplicas)).Replicas
}

// site reads a site.
func (p *parser) site(n *yaml.Node, path string) {
	f := p.fields(n, path, "name", "replicas", "delay", "jitter", "loss")
	s := scenario.Site{Name: p.Text(f["name"], n.Line, path+".name"),
		Delay:  p.Duration(f["delay"], path+".delay", 0, 0, 10*time.Second),
		Jitter: p.Duration(f["jitter"], path+".jitter", 0, 0, 10*time.Second),
		Loss:   p.Number(f["loss"], path+".loss", 0, tree.Span{Most: 1})}
	for i, item := range p.List(f["replicas"], n.Line, path+".replicas") {
		s.Replicas = append(s.Replicas, p.Text(item, item.Line, fmt.Sprintf("%s.replicas[%d]", path, i)))
	}
	p.s.Sites = append(p.s.Sites, s)
}

func (p *parser) gossip(n *yaml.Node) {
	if n == nil {
		return
	}
	f := p.fields(n, "gossip", "period", "delay", "jitter", "loss", "splitAfter", "forgetAfter", "exactWithin")
	g := &p.s.Gossip
	g.Period = p.Duration(f["period"], "gossip.period", g.Period, 10*time.Millisecond, time.Second)
	g.Delay = p.Duration(f["delay"], "gossip.delay", g.Delay, 0, 10*time.Second)
	g.Jitter = p.Duration(f["jitter"], "gossip.jitter", g.Jitter, 0, 10*time.Second)
	g.Loss = p.Number(f["loss"], "gossip.loss", 0, tree.Span{Most: 1})
	g.SplitAfter = p.Duration(f["splitAfter"], "gossip.splitAfter", g.SplitAfter, 0, time.Hour)
	g.ExactWithin = p.Duration(f["exactWithin"], "gossip.exactWithin", g.ExactWithin, 0, exchange.MaxExactWithin)
	if f["splitAfter"] != nil {
		g.ForgetAfter = g.SplitAfter * 3 / 2
	}
	g.ForgetAfter = p.Duration(f["forgetAfter"], "gossip.forgetAfter", g.ForgetAfter, 0, 2*time.Hour)
}

// delay reads a delay with its jitter.
func (p *parser) delay(n *yaml.Node, path string, d *scenario.Delay) {
	if n != nil {
		f := p.fields(n, path, "delay", "jitter")
		d.Delay = p.Duration(f["delay"], path+".delay", d.Delay, 0, time.Second)
		d.Jitter = p.Duration(f["jitter"], path+".jitter", d.Jitter, 0, time.Second)
	}
}

func (p *parser) coordinator(n *yaml.Node) {
	if n == nil {
		return
	}
	f := p.fields(n, "coordinator", "round", "delay", "softExpiry", "settle")
	c := &p.s.Control
	c.Round = p.Duration(f["round"], "coordinator.round", c.Round, 10*time.Millisecond, 2*time.Second)
	c.Delay = p.Duration(f["delay"], "coordinator.delay", c.Delay, 0, 10*time.Second)
	c.SoftExpiry = p.Duration(f["softExpiry"], "coordinator.softExpiry", c.SoftExpiry, 0, time.Hour)
	c.Settle = p.Duration(f["settle"], "coordinator.settle", c.Settle, 0, time.Minute)
}

// upstream reads the upstream of an adaptive pool.
func (p *parser) upstream(n *yaml.Node, path string) {
	f := p.fields(n, path, "pool", "capacity", "takes")
	p.s.Upstreams = append(p.s.Upstreams, scenario.Upstream{
		Pool: p.poolOf(f["pool"], n.Line, path+".pool"), Capacity: p.capacity(f["capacity"], n.Line, path+".capacity"),
		Takes: p.Duration(f["takes"], path+".takes", scenario.DefaultTakes, 0, 10*time.Second),
	})
}

// capacity reads an upstream's capacity.
func (p *parser) capacity(n *yaml.Node, line int, path string) float64 {
	if n == nil {
		p.Wrong(line, path, "missing; want what the upstream serves, in cost units per second")
	}
	return p.Number(n, path, 1, tree.Span{Least: 1e-6, Most: scenario.MaxRate})
}

// poolOf reads the name of a pool; the only one need not be named.
func (p *parser) poolOf(n *yaml.Node, line int, path string) string {
	if n == nil && len(p.pools) <= 1 {
		return strings.Join(p.pools, "")
	}
	return p.Text(n, line, path)
}

// tenantOf reads the name of a tenant; the only one need not be named.
func (p *parser) tenantOf(n *yaml.Node, line int, path string) string {
	if n == nil && len(p.tenants) == 1 {
		return p.tenants[0]
	}
	return p.Text(n, line, path)
}

// rate reads a rate of requests with its unit, which may be 0.
func (p *parser) rate(n *yaml.Node, line int, path string) float64 {
	switch {
	case n == nil:
		p.Wrong(line, path, "missing; want a rate with its unit, such as 100/s or 10/min")
	case n.Kind != yaml.ScalarNode:
		p.Wrong(n.Line, path, "want a rate with its unit, such as 100/s or 10/min, found %s", tree.What(n))
	default:
		v, err := resource.ParseRate(n.Value)
		if err == nil {
			return v
		}
		p.Wrong(n.Line, path, "%v", err)
	}
	return 1
}
