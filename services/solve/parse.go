package solve

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
)

// The values of boundBy that are not a pool's name. No pool may have them as name.
const (
	ByDemand    = "DEMAND"    // it has all that it asks for
	ByMax       = "MAX"       // it has its maximum
	ByGuarantee = "GUARANTEE" // it has its guarantee, scaled perhaps, and no more
)

// parser reads a problem; names lead to places in its lists.
type parser struct {
	*tree.Reader
	problem Problem
	pools   map[string]int
	tenants map[string]int
}

// MaxBytes is the longest problem that is read.
const MaxBytes = 64 << 20

// Parse reads a problem in YAML or JSON. file is what errors call it. All mistakes
// are reported at once (up to 20), each a *document.Error with line and field.
func Parse(file string, in io.Reader) (*Problem, error) {
	p := &parser{Reader: tree.New(file), pools: map[string]int{}, tenants: map[string]int{}}
	if n := p.Root(in, tree.Input{MaxBytes: MaxBytes, Want: "a problem with pools and tenants",
		First: "pools"}); n != nil {
		p.top(n)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return &p.problem, nil
}

func (p *parser) top(n *yaml.Node) {
	f := p.Fields(n, "", "sharing", "alpha", "guarantee", "pools", "tenants")
	p.problem.Sharing = Sharing(p.Choice(f["sharing"], "sharing", string(MaxMin), string(Proportional)))
	p.problem.Alpha = p.Number(f["alpha"], "alpha", resource.DefaultAlpha, tree.Span{Least: MinAlpha, Most: MaxAlpha})
	p.problem.Guarantee = Guarantee(p.Choice(f["guarantee"], "guarantee", string(Minimum), string(Additive)))
	for i, item := range p.List(f["pools"], n.Line, "pools") {
		p.pool(item, i)
	}
	for i, item := range p.List(f["tenants"], n.Line, "tenants") {
		p.tenant(item, i)
	}
}

func (p *parser) pool(n *yaml.Node, i int) {
	path := fmt.Sprintf("pools[%d]", i)
	f := p.Fields(n, path, "name", "capacity")
	if n.Kind != yaml.MappingNode {
		return
	}
	pool := Pool{Name: p.name(f["name"], n.Line, path+".name", p.pools)}
	if slices.Contains([]string{ByDemand, ByMax, ByGuarantee}, pool.Name) {
		p.Wrong(f["name"].Line, path+".name",
			"%s is what boundBy says of tenants that no pool holds; want another name", pool.Name)
	}
	if pool.Name != "" {
		p.pools[pool.Name] = i
	}
	if f["capacity"] == nil {
		p.Wrong(n.Line, path+".capacity", "missing; want the pool's rate in cost units per second")
	}
	pool.Capacity = p.Number(f["capacity"], path+".capacity", 1, tree.Span{Least: MinPositive, Most: MaxRate})
	p.problem.Pools = append(p.problem.Pools, pool)
}

func (p *parser) tenant(n *yaml.Node, i int) {
	path := fmt.Sprintf("tenants[%d]", i)
	f := p.Fields(n, path, "name", "weight", "guaranteed", "max", "demand", "uses")
	if n.Kind != yaml.MappingNode {
		return
	}
	rate := func(field string, absent float64, or string) float64 {
		return p.Number(f[field], path+"."+field, absent, tree.Span{Most: MaxRate, Or: or})
	}
	const unbounded = ", or no such field for unbounded"
	before := p.Mistakes()
	t := Tenant{
		Name: p.name(f["name"], n.Line, path+".name", p.tenants),
		Weight: p.Number(f["weight"], path+".weight", 1,
			tree.Span{Least: MinPositive, Most: MaxFactor, Zero: true}),
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
	if p.Mistakes() == before && len(t.Uses) == 0 && t.Weight > 0 && math.IsInf(t.limit(), 1) {
		p.Wrong(n.Line, path+".uses", "a tenant that uses no pool and has neither max nor demand has no bound; want "+
			"uses: {pool: cost}")
	}
	p.problem.Tenants = append(p.problem.Tenants, t)
}

// name reads a name that must be there and may not repeat; "" if it is wrong. taken
// maps the names so far to their places in the list.
func (p *parser) name(n *yaml.Node, line int, path string, taken map[string]int) string {
	name := p.Text(n, line, path)
	if first, twice := taken[name]; twice {
		p.Wrong(n.Line, path, "%q is taken by number %d of the list; want another name", name, first)
		return ""
	}
	return name
}

// uses reads what a unit of a share costs of each pool; cost 0 is no use.
func (p *parser) uses(n *yaml.Node, path string) (uses []Use) {
	for _, e := range p.Entries(n, path) {
		field := path + "." + e.Key.Value
		pool, known := p.pools[e.Key.Value]
		if !known {
			p.Wrong(e.Key.Line, field, "no pool has this name; %s", p.poolNames())
			continue
		}
		if tree.IsNull(e.Value) {
			continue
		}
		if cost := p.Number(e.Value, field, 0, tree.Span{Least: MinPositive, Most: MaxFactor, Zero: true}); cost > 0 {
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
