package read

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/simulate/scenario"
	"github.com/titrate/titrate/services/store/resource"
)

// MaxBytes is the longest scenario that is read.
const MaxBytes = 16 << 20

// Open opens a trace file by the name that the scenario has for it.
type Open func(name string) (io.ReadCloser, error)

// place is where a field of the scenario stood, and what the file calls it.
type place struct {
	line  int
	shown string
}

// parser reads one scenario.
type parser struct {
	*tree.Reader
	s      *scenario.Scenario
	open   Open
	places map[string]place // by the field's path in the scenario
}

// Parse reads a scenario in YAML or JSON; file is what errors call it, open opens
// the traces that it names, nil refuses them. All mistakes come at once, up to
// tree.MostErrors.
func Parse(file string, in io.Reader, open Open) (*scenario.Scenario, error) {
	p := &parser{Reader: tree.New(file), open: open, places: map[string]place{}}
	if n := p.Root(in, tree.Input{MaxBytes: MaxBytes, Want: "a scenario with duration, replicas, tenants and clients",
		First: "duration"}); n != nil {
		p.top(n)
		for _, e := range p.s.Check() {
			p.tell(e)
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return p.s, nil
}

// tell notes a mistake that the scenario found in itself, at the nearest place that
// the file has; not if the field could not be read anyway.
func (p *parser) tell(e *scenario.FieldError) {
	shown := e.Field
	for up := e.Field; ; up = up[:max(0, strings.LastIndexAny(up, ".["))] {
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

func (p *parser) top(n *yaml.Node) {
	f := p.fields(n, "", "name", "duration", "warmup", "lead", "seed", "replicas", "gossip", "coordinator", "pools",
		"tenants", "clients", "events")
	p.s = scenario.New(0, 0)
	s := p.s
	if f["name"] != nil {
		s.Name = p.Text(f["name"], n.Line, "name")
	}
	if f["duration"] == nil {
		p.Wrong(n.Line, "duration", "missing; want how long the scenario is, such as 60s")
	}
	s.Duration = p.Duration(f["duration"], "duration", time.Minute, time.Second, scenario.MaxDuration)
	s.Warmup = p.Duration(f["warmup"], "warmup", s.Duration/10, 0, scenario.MaxDuration)
	s.Lead = p.Duration(f["lead"], "lead", s.Lead, 0, time.Minute)
	s.Seed = uint64(p.Number(f["seed"], "seed", 1, tree.Span{Most: 1 << 53}))
	p.replicas(f["replicas"], n.Line)
	p.gossip(f["gossip"])
	p.coordinator(f["coordinator"])
	for i, item := range p.Items(f["pools"], "pools") {
		p.pool(item, fmt.Sprintf("pools[%d]", i))
	}
	for i, item := range p.List(f["tenants"], n.Line, "tenants") {
		p.tenant(item, fmt.Sprintf("tenants[%d]", i))
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

func (p *parser) gossip(n *yaml.Node) {
	if n == nil {
		return
	}
	f := p.fields(n, "gossip", "period", "delay", "jitter", "loss", "splitAfter", "forgetAfter")
	g := &p.s.Gossip
	g.Period = p.Duration(f["period"], "gossip.period", g.Period, 10*time.Millisecond, time.Second)
	g.Delay = p.Duration(f["delay"], "gossip.delay", g.Delay, 0, 10*time.Second)
	g.Jitter = p.Duration(f["jitter"], "gossip.jitter", g.Jitter, 0, 10*time.Second)
	g.Loss = p.Number(f["loss"], "gossip.loss", 0, tree.Span{Most: 1})
	g.SplitAfter = p.Duration(f["splitAfter"], "gossip.splitAfter", g.SplitAfter, 0, time.Hour)
	g.ForgetAfter = p.Duration(f["forgetAfter"], "gossip.forgetAfter", g.SplitAfter*3/2, 0, 2*time.Hour)
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

// limitRate reads a rate above 0 with its unit, as cost units/s.
func (p *parser) limitRate(n *yaml.Node, line int, path string) float64 {
	switch {
	case n == nil:
		p.Wrong(line, path, "missing; want a rate with its unit, such as 100/s or 10/min")
	case n.Kind != yaml.ScalarNode:
		p.Wrong(n.Line, path, "want a rate with its unit, such as 100/s or 10/min, found %s", tree.What(n))
	default:
		v, err := resource.ParseRate(n.Value)
		switch {
		case err != nil:
			p.Wrong(n.Line, path, "%v", err)
		case v == 0:
			p.Wrong(n.Line, path, "rate %q must be above 0", n.Value)
		default:
			return v
		}
	}
	return 1
}

// limitBurst reads a burst; left out it is what the API makes of the rate.
func (p *parser) limitBurst(f map[string]*yaml.Node, path string) float64 {
	b := p.upTo(f["burst"], path+".burst", 0, 0)
	if rate := f["rate"]; b == 0 && rate != nil && rate.Kind == yaml.ScalarNode {
		b = resource.DefaultBurst(rate.Value)
	}
	return b
}

// demandRate reads a rate of requests, which may be 0.
func (p *parser) demandRate(n *yaml.Node, line int, path string) float64 {
	if n != nil && n.Kind == yaml.ScalarNode {
		number, unit, _ := strings.Cut(n.Value, "/")
		if number == "0" && (unit == "" && n.Value == "0" || resourceUnit(unit)) {
			return 0
		}
	}
	return p.limitRate(n, line, path)
}

// resourceUnit reports whether a rate may have the unit.
func resourceUnit(unit string) bool {
	_, err := resource.ParseRate("1/" + unit)
	return err == nil
}

// upTo reads a number of at least least and at most scenario.MaxRate.
func (p *parser) upTo(n *yaml.Node, path string, fallback, least float64) float64 {
	return p.Number(n, path, fallback, tree.Span{Least: least, Most: scenario.MaxRate})
}

// needed reads such a number that must be there.
func (p *parser) needed(n *yaml.Node, line int, path, want string) float64 {
	if n == nil {
		p.Wrong(line, path, "missing; want %s", want)
	}
	return p.upTo(n, path, 1, 1e-6)
}

var unbounded = math.Inf(1)
