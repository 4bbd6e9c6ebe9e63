package read

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/lab/simulate/scenario"
	"github.com/titrate/titrate/services/document/tree"
)

func (p *parser) client(n *yaml.Node, path string) {
	f := p.fields(n, path, "name", "count", "tenant", "pool", "cost", "demand", "route", "patience",
		"takes", "identities", "classes")
	c := scenario.Client{
		Name:     p.Text(f["name"], n.Line, path+".name"),
		Count:    p.Count(f["count"], path+".count", 1, 1, scenario.MaxClients),
		Tenant:   p.tenantOf(f["tenant"], n.Line, path+".tenant"),
		Pool:     p.poolOf(f["pool"], n.Line, path+".pool"),
		Cost:     p.Number(f["cost"], path+".cost", 1, tree.Span{Least: 1e-6, Most: 1e6}),
		Patience: p.Duration(f["patience"], path+".patience", 0, 0, time.Hour),
		Takes:    p.Duration(f["takes"], path+".takes", 0, 0, time.Hour),
	}
	if f["demand"] == nil {
		p.Wrong(n.Line, path+".demand", "missing; want such as {constant: 50/s}")
		c.Demand = scenario.Constant(0)
	} else {
		c.Demand = p.demand(f["demand"], path+".demand")
	}
	if f["route"] != nil {
		c.Route = p.route(f["route"], path+".route")
	}
	if n := f["identities"]; n != nil {
		c.Identities = map[string]string{}
		for _, e := range p.Entries(n, path+".identities") {
			c.Identities[e.Key.Value] = p.Text(e.Value, e.Key.Line, path+".identities."+e.Key.Value)
		}
	}
	for i, item := range p.Items(f["classes"], path+".classes") {
		c.Classes = append(c.Classes, p.Text(item, item.Line, fmt.Sprintf("%s.classes[%d]", path, i)))
	}
	p.s.Clients = append(p.s.Clients, c)
}

// shapes are the shapes of demand, of which there is one.
var shapes = []string{"constant", "poisson", "onOff", "step", "ramp", "trace"}

// only is the one of some fields that is given; "" if none or several are.
func (p *parser) only(n *yaml.Node, path string, f map[string]*yaml.Node, options []string) string {
	var given []string
	for _, o := range options {
		if f[o] != nil {
			given = append(given, o)
		}
	}
	if len(given) == 1 {
		return given[0]
	}
	if n.Kind == yaml.MappingNode && !p.unknown(n, options) {
		found := "none"
		if len(given) > 1 {
			found = strings.Join(given, " and ")
		}
		p.Wrong(n.Line, path, "want one of %s, found %s", strings.Join(options, ", "), found)
	}
	return ""
}

// unknown reports whether a mapping has an unknown name. Its error is already noted: the name may be the
// missing one, misspelled.
func (p *parser) unknown(n *yaml.Node, options []string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i].Value; !slices.Contains(options, key) && key != "at" && key != "arrivals" {
			return true
		}
	}
	return false
}

func (p *parser) demand(n *yaml.Node, path string) (d scenario.Demand) {
	f := p.fields(n, path, append(slices.Clone(shapes), "arrivals")...)
	shape := p.only(n, path, f, shapes)
	v, field := f[shape], path+"."+shape
	d = scenario.Constant(0) // for a wrong demand
	switch shape {
	case "constant":
		d = scenario.Constant(p.rate(v, n.Line, field))
	case "poisson":
		d = scenario.Poisson(p.rate(v, n.Line, field))
	case "onOff":
		d = p.onOff(v, field)
	case "step", "ramp":
		d = p.points(v, field, path)
		d.Ramp = shape == "ramp"
	case "trace":
		d.Trace = p.trace(v, field)
	}
	if shape != "" && shape != "step" && shape != "ramp" {
		p.at(v, 0, path+".points[0].rate", field)
	}
	switch arrivals := f["arrivals"]; {
	case arrivals == nil:
	case slices.Contains([]string{"constant", "poisson", "trace"}, shape):
		p.Wrong(arrivals.Line, path+".arrivals", "belongs to onOff, step and ramp; want no such field with %s", shape)
	default:
		d.Random = p.Choice(arrivals, path+".arrivals", "EVEN", "POISSON") == "POISSON"
	}
	return d
}

func (p *parser) onOff(n *yaml.Node, path string) scenario.Demand {
	f := p.fields(n, path, "rate", "on", "off")
	span := func(field string) time.Duration {
		if f[field] == nil && n.Kind == yaml.MappingNode {
			p.Wrong(n.Line, path+"."+field, "missing; want a time such as 2s")
		}
		return p.Duration(f[field], path+"."+field, time.Second, time.Millisecond, scenario.MaxDuration)
	}
	if n.Kind != yaml.MappingNode {
		return scenario.Constant(0)
	}
	return scenario.OnOff(p.rate(f["rate"], n.Line, path+".rate"), span("on"), span("off"))
}

// points reads a list of rates from times on.
func (p *parser) points(n *yaml.Node, path, demand string) (d scenario.Demand) {
	for i, item := range p.List(n, n.Line, path) {
		shown := fmt.Sprintf("%s[%d]", path, i)
		f := p.fields(item, shown, "at", "rate")
		if item.Kind != yaml.MappingNode {
			continue
		}
		point := scenario.Point{
			At:   p.Duration(f["at"], shown+".at", 0, 0, scenario.MaxDuration),
			Rate: p.rate(f["rate"], item.Line, shown+".rate"),
		}
		if f["at"] == nil {
			p.Wrong(item.Line, shown+".at", "missing; want a time such as 2s")
		}
		if before := len(d.Points); !p.IsWrong(shown+".at") && (before == 0 || d.Points[before-1].At < point.At) {
			d.Points = append(d.Points, point)
		} else if !p.IsWrong(shown + ".at") {
			p.Wrong(f["at"].Line, shown+".at", "want times that rise: more than %v, found %v", d.Points[before-1].At,
				point.At)
		}
	}
	if len(d.Points) == 0 {
		return scenario.Constant(0)
	}
	for i := range d.Points {
		p.at(n, 0, fmt.Sprintf("%s.points[%d]", demand, i), path)
	}
	return d
}

// routes are the rules by which requests find a gateway, of which there is one.
var routes = []string{"spread", "pinned", "moving", "roundRobin"}

func (p *parser) route(n *yaml.Node, path string) (r scenario.Route) {
	f := p.fields(n, path, routes...)
	rule := p.only(n, path, f, routes)
	v, field := f[rule], path+"."+rule
	switch rule {
	case "spread":
		r.Weights = map[string]float64{}
		for _, e := range p.Entries(v, field) {
			name := e.Key.Value
			p.at(e.Value, 0, field+"."+name, field+"."+name)
			r.Weights[name] = p.Number(e.Value, field+"."+name, 1, tree.Span{Most: 1e9})
		}
	case "pinned":
		r.Kind, r.Replica = scenario.Pinned, p.Text(v, n.Line, field)
	case "moving":
		r.Kind, r.Every = scenario.Moving, p.Duration(v, field, time.Second, time.Millisecond, scenario.MaxDuration)
	case "roundRobin":
		p.must(v, field)
		r.Kind = scenario.RoundRobin
	}
	return r
}

// must reads true, where nothing else makes sense.
func (p *parser) must(n *yaml.Node, path string) {
	if !p.Flag(n, path) && !p.IsWrong(path) {
		p.Wrong(n.Line, path, "want true, or no such field")
	}
}
