package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/toplist"
)

const (
	// mostRows bounds the rows of one tenant that an answer is made of.
	mostRows = 1000
	// mostClients bounds the clients that an answer names.
	mostClients = 10
)

// seen has the gateways' counts of a tenant in about the last minute, for an answer of Why.
type seen struct {
	s   *Server
	ctx context.Context
	r   *quotav1.WhyRequest
	out *quotav1.WhyResponse

	tenant string                         // without collection
	who    string                         // the tenant, as sentences name it
	flows  map[string]*quotav1.Activity   // by pool
	limits map[string]*quotav1.Activity   // by the limit's last name
	parts  map[string][]*quotav1.Activity // of limits, by gateway
	total  *quotav1.Activity              // of all pools
	agents int                            // asked
	silent []string                       // of them
}

// seen asks the gateways.
func (s *Server) seen(ctx context.Context, r *quotav1.WhyRequest) (*seen, error) {
	w := &seen{s: s, ctx: ctx, r: r, out: &quotav1.WhyResponse{},
		tenant: strings.TrimPrefix(r.GetTenant(), "tenants/"), who: spoken(r.GetTenant()),
		flows: map[string]*quotav1.Activity{}, limits: map[string]*quotav1.Activity{},
		parts: map[string][]*quotav1.Activity{}}
	rows, err := s.live.Activity(ctx, &quotav1.Selection{Tenant: w.tenant, Most: mostRows}, true)
	if err != nil {
		return nil, err
	}
	w.agents, w.silent = int(rows.GetAgents()), rows.GetSilent()
	for _, m := range rows.GetRows() {
		w.add(m)
	}
	clients, err := s.live.Activity(ctx, &quotav1.Selection{By: quotav1.Selection_CLIENT, Tenant: w.tenant,
		Limit: r.GetLimit(), Client: r.GetClient(), Pool: strings.TrimPrefix(r.GetPool(), "pools/"),
		Order: w.order(), Most: mostClients}, false)
	if err != nil {
		return nil, err
	}
	for _, m := range clients.GetRows() {
		if !r.GetShadow() || m.GetShadowed() > 0 {
			w.out.Clients = append(w.out.Clients, m)
		}
	}
	return w, nil
}

func (w *seen) order() quotav1.Selection_Order {
	if w.r.GetShadow() {
		return quotav1.Selection_SHADOWED
	}
	return quotav1.Selection_REFUSED
}

// add adds a row of one gateway.
func (w *seen) add(m *quotav1.Activity) {
	at, site := m.GetGateway(), m.GetSite()
	m.Gateway, m.Site = "", ""
	if m.GetLimit() != "" {
		w.limits[m.Limit] = toplist.Plus(toplist.Copy(m), w.limits[m.Limit])
		m.Gateway, m.Site = at, site
		w.parts[m.Limit] = append(w.parts[m.Limit], m)
		return
	}
	w.flows[m.Pool] = toplist.Plus(toplist.Copy(m), w.flows[m.Pool])
	m.Pool = ""
	w.total = toplist.Plus(w.total, m)
}

// withSeen adds explanations for the pools that the tenant has sent requests to in the last minute. The coordinator
// explains by itself only pools with a demand in its last round.
func (w *seen) withSeen(all []*quotav1.Explanation) ([]*quotav1.Explanation, error) {
	if w.r.GetPool() != "" || w.r.GetLimit() != "" || w.r.GetClient() != "" {
		return all, nil
	}
	for _, pool := range slices.Sorted(maps.Keys(w.flows)) {
		name := "pools/" + pool
		if slices.ContainsFunc(all, func(e *quotav1.Explanation) bool { return e.GetPool() == name }) {
			continue
		}
		more, err := w.s.live.Explain(w.ctx, w.r.GetTenant(), name)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// explain adds the explanations of shares that were asked for.
func (w *seen) explain(all []*quotav1.Explanation) {
	unasked := w.r.GetPool() == "" && (w.r.GetLimit() != "" || w.r.GetClient() != "")
	for _, e := range all {
		e.Activity = w.flows[strings.TrimPrefix(e.GetPool(), "pools/")]
		byShare := e.Activity.GetShadowed() - e.Activity.GetLimitShadowed()
		switch {
		case unasked, w.r.GetShadow() && byShare == 0:
			continue
		case w.r.GetShadow():
			e.Sentence = shadowShare(e)
		default:
			e.Sentence = sentence(e, w.s.guaranteeOf(w.ctx, e.GetPool()))
		}
		w.out.Explanations = append(w.out.Explanations, e)
	}
}

// explainLimits adds what limits did. An error says that the limit asked for does not exist.
func (w *seen) explainLimits() error {
	if w.r.GetPool() != "" && w.r.GetLimit() == "" {
		return nil
	}
	names := slices.Collect(maps.Keys(w.limits))
	if only := w.r.GetLimit(); only != "" {
		names = []string{only}
	}
	slices.SortFunc(names, func(a, b string) int {
		n := func(name string) uint64 {
			m := w.limits[name]
			return m.GetRefused() + m.GetWaited() + m.GetShadowed()
		}
		return cmp.Or(cmp.Compare(n(b), n(a)), cmp.Compare(a, b))
	})
	for _, name := range names {
		l, err := w.limit(name)
		if err != nil {
			return err
		}
		if !w.r.GetShadow() || l.Activity.GetShadowed() > 0 {
			w.out.Limits = append(w.out.Limits, l)
		}
	}
	return nil
}

// limit explains one limit.
func (w *seen) limit(name string) (*quotav1.LimitExplanation, error) {
	out := &quotav1.LimitExplanation{Limit: w.r.GetTenant() + "/limits/" + name, Activity: w.limits[name],
		Gateways: w.parts[name]}
	slices.SortFunc(out.Gateways, func(a, b *quotav1.Activity) int { return cmp.Compare(a.Gateway, b.Gateway) })
	l, err := w.s.limitOf(w.ctx, w.r.GetTenant(), name)
	if err != nil && (!errors.Is(err, store.ErrNotFound) || out.Activity == nil) {
		return nil, err
	}
	if l != nil {
		c, err := resource.LimitConfig(l)
		if err != nil {
			return nil, err
		}
		out.Limit, out.Rate, out.Burst, out.Configured = l.GetName(), c.Rate, c.Burst, true
		out.Key, out.Mode, out.Concurrency = l.GetKey(), l.GetMode(), l.GetConcurrency()
	}
	out.Sentence = limitSentence(w, out, l)
	return out, nil
}

// limitOf is the limit of a name: the tenant's own, or that of its plan, or that of every tenant.
func (s *Server) limitOf(ctx context.Context, tenant, name string) (*quotav1.Limit, error) {
	var first error
	for _, parent := range s.parents(ctx, tenant) {
		m, err := s.store.Get(ctx, parent+"/limits/"+name)
		if err == nil {
			return m.(*quotav1.Limit), nil
		}
		if first = cmp.Or(first, err); !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	return nil, first
}

// parents returns where a tenant's limits stand: at itself, its plan, tenants/-. Of limits of one name the first holds.
func (s *Server) parents(ctx context.Context, tenant string) []string {
	out := []string{tenant}
	if m, err := s.store.Get(ctx, tenant); err == nil && m.(*quotav1.Tenant).GetPlan() != "" {
		out = append(out, "plans/"+m.(*quotav1.Tenant).GetPlan())
	}
	return slices.Compact(append(out, "tenants/"+resource.AnyTenant))
}

// Top returns the outcomes of the latest requests, summed and sorted as asked. A filter by a name that does not exist
// is NOT_FOUND, unless requests were counted under the name.
func (s *Server) Top(ctx context.Context, r *quotav1.TopRequest) (*quotav1.TopResponse, error) {
	if err := s.asked(valid.Message(r), "what gateways do is not known"); err != nil {
		return nil, err
	}
	selection := r.GetSelection()
	if selection == nil {
		selection = &quotav1.Selection{}
	}
	out, err := s.live.Activity(ctx, selection, false)
	if err != nil {
		return nil, explainStatus(err)
	}
	if len(out.GetRows()) == 0 && out.GetOther() == nil {
		if err := s.checkSelected(ctx, selection); err != nil {
			return nil, status(err)
		}
	}
	if _, only := s.readsOnly(ctx); !only { // they name limits and pools of all
		out.Notes = s.unknown(ctx, 1, selection.GetTenant(), selection.GetPool(), selection.GetLimit())
	}
	return out, nil
}

// unknown says of the first limits and pools which names in them gateways do not know: a limit counts no request there,
// so no count shows it. "" is any tenant, pool or limit.
func (s *Server) unknown(ctx context.Context, most int, tenant, pool, limit string) []string {
	pool = strings.TrimPrefix(pool, "pools/")
	var parents []string
	if tenant != "" {
		parents = s.parents(ctx, "tenants/"+tenant)
	}
	return s.live.Unknown(most, func(m resource.Message) bool {
		ref, err := resource.Parse(m.GetName())
		l, is := m.(*quotav1.Limit)
		if !is {
			return err == nil && limit == "" && (pool == "" || pool == ref.ID)
		}
		return err == nil && (limit == "" || limit == ref.ID) &&
			(tenant == "" || slices.Contains(parents, ref.Parent())) &&
			(pool == "" || len(l.GetPools()) == 0 || slices.Contains(l.GetPools(), pool))
	})
}

// checkSelected returns an error for the first name of a selection that does not exist.
func (s *Server) checkSelected(ctx context.Context, selected *quotav1.Selection) error {
	var tenant, pool string
	if name := selected.GetTenant(); name != "" {
		tenant = "tenants/" + name
	}
	if name := selected.GetPool(); name != "" {
		pool = "pools/" + name
	}
	if err := cmp.Or(s.checkTenant(ctx, tenant), s.checkStored(ctx, pool)); err != nil {
		return err
	}
	if name := selected.GetLimit(); name != "" && name != toplist.Share {
		if err := s.checkLimit(ctx, tenant, name); err != nil {
			return err
		}
	}
	if gateway, site := selected.GetGateway(), selected.GetSite(); gateway != "" || site != "" {
		_, known, err := s.live.Gateways()
		has := func(named func(*quotav1.Gateway) bool) bool {
			return err != nil || len(known) == 0 || slices.ContainsFunc(known, named)
		}
		switch {
		case gateway != "" && !has(func(g *quotav1.Gateway) bool { return g.GetName() == gateway }):
			return fmt.Errorf("gateways/%s: %w", gateway, store.ErrNotFound)
		case site != "" && !has(func(g *quotav1.Gateway) bool { return g.GetSite() == site }):
			return fmt.Errorf("no gateway is of site %s: %w", site, store.ErrNotFound)
		}
	}
	return nil
}

// mostLimits bounds the limits that are read to learn whether one has a name.
const mostLimits = 5000

// checkLimit returns an error if the tenant, its plan and tenants/- have no limit of the name. Without a tenant it
// returns one if nobody has such a limit, as far as mostLimits go.
func (s *Server) checkLimit(ctx context.Context, tenant, name string) error {
	if tenant != "" {
		_, err := s.limitOf(ctx, tenant, name)
		return err
	}
	limits, next, err := s.store.List(ctx, store.Query{Kind: resource.Limit, Limit: mostLimits})
	named := func(m resource.Message) bool { return strings.HasSuffix(m.GetName(), "/limits/"+name) }
	if err != nil || next != "" || slices.ContainsFunc(limits, named) {
		return err
	}
	return fmt.Errorf("limits/%s: %w", name, store.ErrNotFound)
}
