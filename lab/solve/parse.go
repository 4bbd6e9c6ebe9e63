package solve

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/titrate/titrate/control/fairshare"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/lab/documents"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	coordinator "github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/document/tree"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// mostFlows bounds the flows without a Demand: all tenants times all pools.
const mostFlows = 1_000_000

// place is the place of a pool among the problems.
type place struct{ problem, pool int }

// parser reads problems.
type parser struct {
	*tree.Reader // of the Demand's spec
	config       *allocation.Config
	tenants      []string // in the order of the documents, as pools
	pools        []string
	places       map[string]place // by pool
	problems     []*Problem
	taken        map[string]int          // flows by name
	asked        map[allocation.Flow]int // flows by tenant and pool
}

// Parse reads a problem from files: pools, tenants and quotas, and at most one Demand. Pools of one law make
// one problem. All mistakes are reported at once (up to 20 of each file), each a *document.Error with line and
// field.
func Parse(files []*document.File) ([]*Problem, error) {
	p := &parser{places: map[string]place{}, taken: map[string]int{}, asked: map[allocation.Flow]int{}}
	p.resources(files)
	demand := documents.TheOnly(files, document.Demand)
	switch none := len(p.tenants) == 0 || len(p.pools) == 0; {
	case none && document.Mistakes(files) == nil:
		files[0].Wrong(0, "", "%s of kind Pool and %d of kind Tenant; want one of each at least",
			wording.Count(len(p.pools), "document"), len(p.tenants))
	case none:
	case demand == nil && len(p.tenants)*len(p.pools) > mostFlows:
		files[0].Wrong(0, "", "%d tenants and %d pools are too many for all to ask for everything; want a Demand "+
			"that says what is asked", len(p.tenants), len(p.pools))
	case demand == nil:
		p.everything()
	default:
		p.demand(demand)
	}
	if err := document.Mistakes(files); err != nil {
		return nil, err
	}
	return p.problems, nil
}

// resources takes in the documents, and notes references to resources that have no document.
func (p *parser) resources(files []*document.File) {
	byName := map[string]*quotav1.Resource{}
	var all []*document.Document
	for _, f := range files {
		for _, d := range f.Documents {
			if byName[d.Name()] != nil {
				d.Note("name", fmt.Sprintf("%q is taken; want another name", d.Name()))
			}
			byName[d.Name()] = resource.Of(d.Resource)
			all = append(all, d)
		}
	}
	p.config = coordinator.Compile(0, byName, time.Time{})
	for _, d := range all {
		for _, r := range resource.References(d.Resource) {
			if byName[r.Name] == nil {
				d.Note(r.Field, fmt.Sprintf("it needs %s, of which there is no document", r.Name))
			}
		}
		ref, err := resource.Parse(d.Name())
		switch m := d.Resource.(type) {
		case *quotav1.Pool:
			p.pools = append(p.pools, ref.ID)
		case *quotav1.Tenant:
			p.tenants = append(p.tenants, ref.ID)
		case *quotav1.Quota:
			if err == nil && m.GetMode() == quotav1.Mode_OFF {
				d.Note("mode", "a quota that is OFF limits nothing, so no share can be worked out; want ENFORCE or "+
					"SHADOW")
			}
		}
	}
	for _, name := range p.pools {
		p.addPool(name)
	}
}

// addPool puts a pool into the problem of its law.
func (p *parser) addPool(name string) {
	pool := p.config.Pools[slices.IndexFunc(p.config.Pools, func(p allocation.Pool) bool { return p.Name == name })]
	law := Problem{Sharing: MaxMin, Alpha: resource.DefaultAlpha, Guarantee: Minimum}
	if pool.Sharing == allocation.Proportional {
		law.Sharing, law.Alpha = Proportional, pool.Alpha
	}
	if pool.Guarantee == fairshare.Additive {
		law.Guarantee = Additive
	}
	at := slices.IndexFunc(p.problems, func(q *Problem) bool {
		return q.Sharing == law.Sharing && q.Alpha == law.Alpha && q.Guarantee == law.Guarantee
	})
	if at < 0 {
		at = len(p.problems)
		p.problems = append(p.problems, &law)
	}
	q := p.problems[at]
	p.places[name] = place{at, len(q.Pools)}
	q.Pools = append(q.Pools, Pool{Name: name, Capacity: pool.Capacity})
}

// everything asks for all of each pool, for each tenant.
func (p *parser) everything() {
	for _, tenant := range p.tenants {
		for _, pool := range p.pools {
			name := tenant
			if len(p.pools) > 1 {
				name += "/" + pool
			}
			at, t := p.places[pool], Tenant{Name: name, Max: math.Inf(1), Guaranteed: math.Inf(1), Demand: math.Inf(1)}
			t.use(p.config.Quota(allocation.Flow{Tenant: tenant, Pool: pool}), Use{at.pool, 1})
			p.problems[at.problem].Tenants = append(p.problems[at.problem].Tenants, t)
		}
	}
}

// use adds a pool to the tenant's uses, with the tenant's quota there.
func (t *Tenant) use(q allocation.Quota, u Use) {
	t.Weight = q.Weight
	t.Max, t.Guaranteed = min(t.Max, q.Max/u.Cost), min(t.Guaranteed, q.Guaranteed/u.Cost)
	t.Uses = append(t.Uses, u)
}

func (p *parser) demand(e *document.Extra) {
	p.Reader = e.Reader.Below("spec")
	if e.Spec == nil {
		p.Wrong(e.Line, "", "missing; want such as {flows: [{tenant: acme, pool: api, demand: 50}]}")
		return
	}
	f := p.Fields(e.Spec, "", "flows")
	for i, item := range p.List(f["flows"], e.Spec.Line, "flows") {
		p.flow(item, i)
	}
}

// flow reads a tenant's demand for one pool or for several.
func (p *parser) flow(n *yaml.Node, i int) {
	path := fmt.Sprintf("flows[%d]", i)
	f := p.Fields(n, path, "name", "tenant", "pool", "uses", "demand")
	if n.Kind != yaml.MappingNode {
		return
	}
	t := Tenant{Max: math.Inf(1), Guaranteed: math.Inf(1)}
	t.Demand = p.Number(f["demand"], path+".demand", math.Inf(1),
		tree.Span{Most: resource.MaxRate, Or: ", or no such field for unbounded"})
	tenant := p.known(f["tenant"], n.Line, path+".tenant", "tenant", p.tenants)
	costs := p.costs(f, n.Line, path)
	if tenant == "" || len(costs) == 0 {
		return
	}
	at := p.places[costs[0].pool].problem
	for k, c := range costs {
		where, q := p.places[c.pool], p.config.Quota(allocation.Flow{Tenant: tenant, Pool: c.pool})
		switch first, twice := p.asked[allocation.Flow{Tenant: tenant, Pool: c.pool}]; {
		case twice:
			p.Wrong(n.Line, path, "tenant %s asks for pool %s in number %d of the list; want one flow for both", tenant,
				c.pool, first)
		case where.problem != at:
			p.Wrong(n.Line, path, "pools %s and %s divide by different laws; want one sharing, alpha and guarantee "+
				"for pools that a flow uses together", costs[0].pool, c.pool)
		case k > 0 && q.Weight != t.Weight:
			p.Wrong(n.Line, path, "tenant %s has weight %s in pool %s and %s in %s; want one weight for pools that a "+
				"flow uses together", tenant, wording.Number(t.Weight), costs[k-1].pool, wording.Number(q.Weight),
				c.pool)
		}
		p.asked[allocation.Flow{Tenant: tenant, Pool: c.pool}] = i
		t.use(q, Use{where.pool, c.cost})
	}
	t.Name = p.name(f["name"], n.Line, path, tenant, costs)
	p.taken[t.Name] = i
	p.problems[at].Tenants = append(p.problems[at].Tenants, t)
}

// name reads the name of a flow, which may not repeat. Without one it is the tenant's;
// where that is taken, with the pools.
func (p *parser) name(n *yaml.Node, line int, path, tenant string, costs []cost) string {
	name := tenant
	if n != nil {
		line, name = n.Line, p.Text(n, line, path+".name")
	} else if _, taken := p.taken[name]; taken {
		for k, c := range costs {
			name += []string{"/", "+"}[min(k, 1)] + c.pool
		}
	}
	if first, twice := p.taken[name]; twice {
		p.Wrong(line, path+".name", "%q is taken by number %d of the list; want another name", name, first)
	}
	return name
}

// cost is the cost of one unit of a flow in a pool.
type cost struct {
	pool string
	cost float64
}

// costs reads which pools a flow uses: one at cost 1, the only one if none is named; or
// several, each at its cost. Cost 0 is no use.
func (p *parser) costs(f map[string]*yaml.Node, line int, path string) (costs []cost) {
	uses := f["uses"]
	if uses == nil {
		if pool := p.known(f["pool"], line, path+".pool", "pool", p.pools); pool != "" {
			return []cost{{pool, 1}}
		}
		return nil
	}
	if f["pool"] != nil {
		p.Wrong(f["pool"].Line, path+".pool", "want pool or uses, found both")
	}
	before := p.Mistakes()
	for _, e := range p.Entries(uses, path+".uses") {
		field := path + ".uses." + e.Key.Value
		if !slices.Contains(p.pools, e.Key.Value) {
			p.Wrong(e.Key.Line, field, "no pool has this name; %s", list("pool", p.pools))
			continue
		}
		if tree.IsNull(e.Value) {
			continue
		}
		v := p.Number(e.Value, field, 0, tree.Span{Least: 1e-6, Most: limiter.MaxCost, Zero: true})
		if v > 0 {
			costs = append(costs, cost{e.Key.Value, v})
		}
	}
	if len(costs) == 0 && p.Mistakes() == before {
		p.Wrong(uses.Line, path+".uses", "no pool is used; want one at least at a cost above 0")
	}
	return costs
}

// known reads the name of one of the resources; the only one need not be named.
func (p *parser) known(n *yaml.Node, line int, path, what string, names []string) string {
	if n == nil && len(names) == 1 {
		return names[0]
	}
	name := p.Text(n, line, path)
	if name != "" && !slices.Contains(names, name) {
		p.Wrong(n.Line, path, "no %s has the name %q; %s", what, name, list(what, names))
		return ""
	}
	return name
}

// list names the first of some, for an error.
func list(what string, names []string) string {
	const most = 8
	more := ""
	if len(names) > most {
		names, more = names[:most], ", …"
	}
	return fmt.Sprintf("%ss are %s%s", what, strings.Join(names, ", "), more)
}
