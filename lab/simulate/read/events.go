package read

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/lab/simulate/scenario"
)

// kinds are the kinds of events; an event has one of them, and at.
var kinds = []string{"partition", "heal", "join", "leave", "crash", "restart", "agentLost", "agentBack",
	"agentPaused", "agentResumed", "coordinator", "apply", "upstream"}

// ofReplica are the kinds that name a gateway.
var ofReplica = map[string]scenario.EventKind{
	"join": scenario.Join, "leave": scenario.Leave, "crash": scenario.Crash, "restart": scenario.Restart,
	"agentLost": scenario.AgentLost, "agentBack": scenario.AgentBack,
	"agentPaused": scenario.AgentPaused, "agentResumed": scenario.AgentResumed,
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
	case "": // already noted
	case "partition":
		e.Kind, e.Groups = scenario.Partition, p.groups(v, field)
	case "heal":
		p.must(v, field)
	case "coordinator":
		e.Kind = scenario.CoordinatorBack
		if p.Choice(v, field, "LOST", "BACK") == "LOST" {
			e.Kind = scenario.CoordinatorLost
		}
	case "apply":
		p.resources[field] = p.extra.Embedded(v, field)
		if d := p.resources[field]; d != nil {
			e.Kind, e.Resource = scenario.Apply, d.Resource
		}
	case "upstream":
		f := p.fields(v, field, "pool", "capacity")
		e.Kind, e.Pool = scenario.Serve, p.poolOf(f["pool"], v.Line, field+".pool")
		e.Capacity = p.capacity(f["capacity"], v.Line, field+".capacity")
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
