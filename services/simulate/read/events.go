package read

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/simulate/scenario"
)

// kinds are the kinds of events, of which there is one beside at.
var kinds = []string{"partition", "heal", "join", "leave", "crash", "restart", "agentLost", "agentBack", "coordinator",
	"limit", "pool"}

// ofReplica are those that name a gateway.
var ofReplica = map[string]scenario.EventKind{
	"join": scenario.Join, "leave": scenario.Leave, "crash": scenario.Crash, "restart": scenario.Restart,
	"agentLost": scenario.AgentLost, "agentBack": scenario.AgentBack,
}

func (p *parser) event(n *yaml.Node, path string) {
	f := p.fields(n, path, append([]string{"at"}, kinds...)...)
	if f["at"] == nil && n.Kind == yaml.MappingNode {
		p.Wrong(n.Line, path+".at", "missing; want a time such as 20s")
	}
	e := scenario.Event{At: p.Duration(f["at"], path+".at", 0, 0, scenario.MaxDuration), Kind: scenario.Heal}
	kind := p.only(n, path, f, kinds)
	v, field := f[kind], path+"."+kind
	switch kind {
	case "": // told already
	case "partition":
		e.Kind, e.Groups = scenario.Partition, p.groups(v, field)
	case "heal":
		p.must(v, field)
	case "coordinator":
		e.Kind = scenario.CoordinatorBack
		if p.Choice(v, field, "LOST", "BACK") == "LOST" {
			e.Kind = scenario.CoordinatorLost
		}
	case "limit":
		e.Kind = scenario.ChangeLimit
		p.limitChange(v, field, &e)
	case "pool":
		e.Kind = scenario.ChangeCapacity
		p.poolChange(v, field, &e)
	default:
		e.Kind, e.Replica = ofReplica[kind], p.Text(v, n.Line, field)
	}
	p.s.Events = append(p.s.Events, e)
}

// groups reads lists of names, such as [[gw-1], [gw-2, coordinator]].
func (p *parser) groups(n *yaml.Node, path string) (groups [][]string) {
	for i, item := range p.List(n, n.Line, path) {
		path := fmt.Sprintf("%s[%d]", path, i)
		var group []string
		for j, name := range p.List(item, item.Line, path) {
			group = append(group, p.Text(name, name.Line, fmt.Sprintf("%s[%d]", path, j)))
		}
		groups = append(groups, group)
	}
	return groups
}

func (p *parser) limitChange(n *yaml.Node, path string, e *scenario.Event) {
	f := p.fields(n, path, "tenant", "name", "rate", "burst")
	if f["tenant"] == nil && len(p.s.Tenants) == 1 {
		e.Tenant = p.s.Tenants[0].Name
	} else {
		e.Tenant = p.Text(f["tenant"], n.Line, path+".tenant")
	}
	e.Limit = p.Text(f["name"], n.Line, path+".name")
	e.Rate = p.limitRate(f["rate"], n.Line, path+".rate")
	e.Burst = p.limitBurst(f, path)
}

func (p *parser) poolChange(n *yaml.Node, path string, e *scenario.Event) {
	f := p.fields(n, path, "name", "capacity")
	e.Pool = p.poolOf(f["name"], n.Line, path+".name")
	e.Rate = p.needed(f["capacity"], n.Line, path+".capacity", "the pool's new rate in cost units per second")
}
