package solve

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// The values of boundBy that are not a pool's name. No pool may have them as name.
const (
	ByDemand    = "DEMAND"    // it has all that it asks for
	ByMax       = "MAX"       // it has its maximum
	ByGuarantee = "GUARANTEE" // it has its guarantee, scaled perhaps, and no more
)

// parser reads a problem; names lead to places in its lists.
type parser struct {
	reader
	problem Problem
	pools   map[string]int
	tenants map[string]int
}

// Parse reads a problem in YAML or JSON. file is what errors call it. All mistakes
// are reported at once (up to 20), each a *document.Error with line and field.
func Parse(file string, in io.Reader) (*Problem, error) {
	p := &parser{reader: reader{file: file}, pools: map[string]int{}, tenants: map[string]int{}}
	if n := p.root(in); n != nil {
		p.top(n)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return &p.problem, nil
}

func (p *parser) top(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.wrong(n.Line, "pools", "want a problem with pools and tenants, found %s", what(n))
		return
	}
	f := p.fields(n, "", "sharing", "alpha", "guarantee", "pools", "tenants")
	p.problem.Sharing = Sharing(p.choice(f["sharing"], "sharing", string(MaxMin), string(Proportional)))
	p.problem.Alpha = p.number(f["alpha"], "alpha", 1, span{least: MinAlpha, most: MaxAlpha})
	p.problem.Guarantee = Guarantee(p.choice(f["guarantee"], "guarantee", string(Minimum), string(Additive)))
	for i, item := range p.list(f["pools"], n.Line, "pools") {
		p.pool(item, i)
	}
	for i, item := range p.list(f["tenants"], n.Line, "tenants") {
		p.tenant(item, i)
	}
}

func (p *parser) pool(n *yaml.Node, i int) {
	path := fmt.Sprintf("pools[%d]", i)
	f := p.fields(n, path, "name", "capacity")
	if n.Kind != yaml.MappingNode {
		return
	}
	pool := Pool{Name: p.name(f["name"], n.Line, path+".name", p.pools)}
	if slices.Contains([]string{ByDemand, ByMax, ByGuarantee}, pool.Name) {
		p.wrong(f["name"].Line, path+".name", "%s is what boundBy says of tenants that no pool holds; want another name", pool.Name)
	}
	if pool.Name != "" {
		p.pools[pool.Name] = i
	}
	if f["capacity"] == nil {
		p.wrong(n.Line, path+".capacity", "missing; want the pool's rate in cost units per second")
	}
	pool.Capacity = p.number(f["capacity"], path+".capacity", 1, span{least: MinPositive, most: MaxRate})
	p.problem.Pools = append(p.problem.Pools, pool)
}

func (p *parser) tenant(n *yaml.Node, i int) {
	path := fmt.Sprintf("tenants[%d]", i)
	f := p.fields(n, path, "name", "weight", "guaranteed", "max", "demand", "uses")
	if n.Kind != yaml.MappingNode {
		return
	}
	rate := func(field string, absent float64, or string) float64 {
		return p.number(f[field], path+"."+field, absent, span{most: MaxRate, or: or})
	}
	const unbounded = ", or no such field for unbounded"
	before := len(p.errs) + p.omitted
	t := Tenant{
		Name:       p.name(f["name"], n.Line, path+".name", p.tenants),
		Weight:     p.number(f["weight"], path+".weight", 1, span{least: MinPositive, most: MaxFactor, zero: true}),
		Guaranteed: rate("guaranteed", 0, ""),
		Max:        rate("max", math.Inf(1), unbounded),
		Demand:     rate("demand", math.Inf(1), unbounded),
	}
	if t.Name != "" {
		p.tenants[t.Name] = i
	}
	if uses := f["uses"]; uses != nil {
		t.Uses = p.uses(uses, path+".uses")
	}
	if len(p.errs)+p.omitted == before && len(t.Uses) == 0 && t.Weight > 0 && math.IsInf(t.limit(), 1) {
		p.wrong(n.Line, path+".uses", "a tenant that uses no pool and has neither max nor demand has no bound; want uses: {pool: cost}")
	}
	p.problem.Tenants = append(p.problem.Tenants, t)
}

// uses reads what a unit of a share costs of each pool; cost 0 is no use.
func (p *parser) uses(n *yaml.Node, path string) (uses []Use) {
	for _, e := range p.entries(n, path) {
		field := path + "." + e.key.Value
		pool, known := p.pools[e.key.Value]
		if !known {
			p.wrong(e.key.Line, field, "no pool has this name; %s", p.poolNames())
			continue
		}
		if isNull(e.value) {
			continue
		}
		if cost := p.number(e.value, field, 0, span{least: MinPositive, most: MaxFactor, zero: true}); cost > 0 {
			uses = append(uses, Use{Pool: pool, Cost: cost})
		}
	}
	return uses
}

// poolNames lists the first pools, for an error.
func (p *parser) poolNames() string {
	const most = 8
	names := make([]string, 0, most)
	for _, pool := range p.problem.Pools[:min(most, len(p.problem.Pools))] {
		if pool.Name != "" {
			names = append(names, pool.Name)
		}
	}
	more := ""
	if len(p.problem.Pools) > most {
		more = ", …"
	}
	return fmt.Sprintf("pools are %s%s", strings.Join(names, ", "), more)
}
