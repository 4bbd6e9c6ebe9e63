package read

import (
	"fmt"
	"math"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/fairshare"

	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/simulate/scenario"
	"github.com/titrate/titrate/services/store/resource"
)

var alphas = tree.Span{Least: resource.MinAlpha, Most: resource.MaxAlpha}

func (p *parser) pool(n *yaml.Node, path string) {
	f := p.fields(n, path,
		"name", "capacity", "sharing", "alpha", "guarantee", "queue", "onLoss", "hardExpiry", "adaptive")
	pool := scenario.Pool{
		Name:       p.Text(f["name"], n.Line, path+".name"),
		Capacity:   p.needed(f["capacity"], n.Line, path+".capacity", "the pool's rate in cost units per second"),
		Alpha:      p.Number(f["alpha"], path+".alpha", resource.DefaultAlpha, alphas),
		Queue:      p.queue(f["queue"], path+".queue", config.VariableStructure),
		HardExpiry: p.Duration(f["hardExpiry"], path+".hardExpiry", 0, 0, scenario.MaxDuration),
	}
	if p.Choice(f["sharing"], path+".sharing", "MAX_MIN", "PROPORTIONAL") == "PROPORTIONAL" {
		pool.Sharing = allocation.Proportional
	}
	if p.Choice(f["guarantee"], path+".guarantee", "MINIMUM", "ADDITIVE") == "ADDITIVE" {
		pool.Guarantee = fairshare.Additive
	}
	pool.OnLoss = choose(p, f["onLoss"], path+".onLoss", config.OnLosses()...)
	if n := f["adaptive"]; n != nil {
		pool.Upstream = p.upstream(n, path+".adaptive", pool.Capacity)
	}
	p.s.Pools = append(p.s.Pools, pool)
}

// upstream reads what is said of an upstream whose capacity is to be found.
func (p *parser) upstream(n *yaml.Node, path string, capacity float64) scenario.Upstream {
	f := p.fields(n, path, "start", "min", "max", "takes")
	positive := tree.Span{Least: 1e-6, Most: scenario.MaxRate}
	return scenario.Upstream{
		Start: p.Number(f["start"], path+".start", capacity, positive),
		Min:   p.Number(f["min"], path+".min", capacity/100, positive),
		Max:   p.Number(f["max"], path+".max", min(100*capacity, scenario.MaxRate), positive),
		Takes: p.Duration(f["takes"], path+".takes", 10*time.Millisecond, 0, 10*time.Second),
	}
}

// choose reads one of some values by its name; absent or wrong, it is the first.
func choose[T fmt.Stringer](p *parser, n *yaml.Node, path string, options ...T) T {
	names := make([]string, len(options))
	for i, o := range options {
		names[i] = o.String()
	}
	chosen := p.Choice(n, path, names...)
	for i, name := range names {
		if name == chosen {
			return options[i]
		}
	}
	return options[0]
}

// queue reads how requests wait; absent, the limiter's own default for a pool and
// no queue for a limit.
func (p *parser) queue(n *yaml.Node, path string, absent config.Law) config.Queue {
	if n == nil {
		return config.Queue{Law: absent}
	}
	f := p.fields(n, path, "aqm", "delayTarget", "maxWait", "maxRequests")
	return config.Queue{
		Law: choose(p, f["aqm"], path+".aqm", config.Laws()...),
		DelayTarget: p.Duration(f["delayTarget"], path+".delayTarget",
			config.DefaultDelayTarget, config.MinWait, config.MaxDelayTarget),
		MaxWait: p.Duration(f["maxWait"], path+".maxWait", config.DefaultMaxWait, config.MinWait, config.MaxMaxWait),
		MaxRequests: p.Count(f["maxRequests"], path+".maxRequests",
			config.DefaultMaxRequests, 1, config.MaxQueueRequests),
	}
}

func (p *parser) tenant(n *yaml.Node, path string) {
	f := p.fields(n, path, "name", "weight", "quotas", "limits")
	t := scenario.Tenant{
		Name: p.Text(f["name"], n.Line, path+".name"),
		Weight: p.Number(f["weight"], path+".weight", config.DefaultWeight,
			tree.Span{Least: 1e-9, Most: config.MaxWeight}),
	}
	for i, item := range p.Items(f["quotas"], path+".quotas") {
		t.Quotas = append(t.Quotas, p.quota(item, fmt.Sprintf("%s.quotas[%d]", path, i)))
	}
	for i, item := range p.Items(f["limits"], path+".limits") {
		t.Limits = append(t.Limits, p.limit(item, fmt.Sprintf("%s.limits[%d]", path, i)))
	}
	p.s.Tenants = append(p.s.Tenants, t)
}

func (p *parser) quota(n *yaml.Node, path string) scenario.Quota {
	f := p.fields(n, path, "pool", "guaranteed", "max", "weight")
	return scenario.Quota{
		Pool:       p.poolOf(f["pool"], n.Line, path+".pool"),
		Guaranteed: p.upTo(f["guaranteed"], path+".guaranteed", 0, 0),
		Max:        p.upTo(f["max"], path+".max", unbounded, 0),
		Weight:     p.Number(f["weight"], path+".weight", math.NaN(), tree.Span{Most: config.MaxWeight}),
	}
}

// poolOf reads the name of a pool; the only one need not be named.
func (p *parser) poolOf(n *yaml.Node, line int, path string) string {
	if n == nil && len(p.s.Pools) <= 1 {
		if len(p.s.Pools) == 1 {
			return p.s.Pools[0].Name
		}
		return ""
	}
	return p.Text(n, line, path)
}

func (p *parser) limit(n *yaml.Node, path string) config.Limit {
	f := p.fields(n, path, "name", "key", "rate", "burst", "pools", "overrides", "queue", "mode", "strict")
	l := config.Limit{
		Name:      p.Text(f["name"], n.Line, path+".name"),
		PerTenant: p.Choice(f["key"], path+".key", "CLIENT", "TENANT") == "TENANT",
		Rate:      p.limitRate(f["rate"], n.Line, path+".rate"),
		Burst:     p.limitBurst(f, path),
		Queue:     p.queue(f["queue"], path+".queue", config.Police),
		Mode:      choose(p, f["mode"], path+".mode", config.Modes()...),
		Strict:    p.Flag(f["strict"], path+".strict"),
	}
	for i, item := range p.Items(f["pools"], path+".pools") {
		l.Pools = append(l.Pools, p.Text(item, item.Line, fmt.Sprintf("%s.pools[%d]", path, i)))
	}
	for i, item := range p.Items(f["overrides"], path+".overrides") {
		p.override(item, fmt.Sprintf("%s.overrides[%d]", path, i), &l)
	}
	return l
}

// override reads a client with numbers of its own.
func (p *parser) override(n *yaml.Node, path string, l *config.Limit) {
	f := p.fields(n, path, "client", "rate", "burst")
	client := p.Text(f["client"], n.Line, path+".client")
	if _, twice := l.Overrides[client]; twice && client != "" {
		p.Wrong(n.Line, path+".client", "%q has an override already", client)
	}
	if l.Overrides == nil {
		l.Overrides = map[string]config.RateBurst{}
	}
	l.Overrides[client] = config.RateBurst{
		Rate:  p.limitRate(f["rate"], n.Line, path+".rate"),
		Burst: p.limitBurst(f, path),
	}
}
