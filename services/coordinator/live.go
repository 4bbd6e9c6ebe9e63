package coordinator

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/leadership"
	"github.com/titrate/titrate/services/coordinator/stream"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/toplist"
)

// live answers the admin API's questions about the present from the outcome of the last round.
type live struct{ coordinator *Coordinator }

func (l *live) view() leadership.View { return l.coordinator.loop.View(time.Now()) }

// states is the interface for the states of pools and quotas.
type states = quota.States

// sharing says who leads which pools, nil if one coordinator leads all.
func (l *live) sharing() *election.Sharing {
	state, _ := l.coordinator.elector.State()
	return state.Sharing
}

// States are the states of pools/x and tenants/x/quotas/y that are known here, or to the coordinator
// that leads the pool.
func (l *live) States(ctx context.Context, pools, quotas []string) states {
	s := l.sharing()
	if s == nil {
		return l.ownStates(pools, quotas)
	}
	asked := map[*election.Sharer]*controlv1.StateQuestion{}
	to := func(pool string) *controlv1.StateQuestion {
		one := s.Leader(pool)
		if asked[one] == nil {
			asked[one] = &controlv1.StateQuestion{}
		}
		return asked[one]
	}
	for _, name := range pools {
		q := to(strings.TrimPrefix(name, "pools/"))
		q.Pools = append(q.Pools, name)
	}
	for _, name := range quotas {
		if ref, err := resource.Parse(name); err == nil {
			q := to(ref.ID)
			q.Quotas = append(q.Quotas, name)
		}
	}
	out := newStates()
	for one, q := range asked {
		if s.IsSelf(one) {
			addStates(out, stateAnswer(q, l.ownStates(q.GetPools(), q.GetQuotas())))
			continue
		}
		answer, err := l.coordinator.peers.ask(ctx, s, one, stateTimeout, &controlv1.AskRequest{
			Question: &controlv1.AskRequest_State{State: q}})
		if err != nil { // it is not known then
			l.coordinator.log.Debug("states are not known", "error", err)
			continue
		}
		addStates(out, answer.GetState())
	}
	return out
}

// ownStates are the states of pools that are led here.
func (l *live) ownStates(pools, quotas []string) states {
	out, v := newStates(), l.view()
	for _, name := range pools {
		if p := v.Pool(strings.TrimPrefix(name, "pools/")); p != nil {
			out.Pools[name] = l.poolStatus(&v, p)
		}
	}
	for _, name := range quotas {
		ref, err := resource.Parse(name)
		if err != nil {
			continue
		}
		if p := v.Pool(ref.ID); p != nil {
			out.Quotas[name] = l.quotaStatus(&v, p, allocation.Flow{Tenant: ref.Tenant, Pool: ref.ID})
		}
	}
	return out
}

func (l *live) poolStatus(v *leadership.View, p *allocation.PoolShare) *quotav1.PoolStatus {
	return &quotav1.PoolStatus{
		Demand: p.Demand, Admitted: p.Admitted, Price: p.Price, FairRate: p.FairRate,
		InfeasibleGuarantees: p.Infeasible || p.GuaranteeScale < 1, Epoch: v.Epoch,
		Capacity: p.Capacity, InFlight: p.InFlight, Leader: l.coordinator.config.Name, Site: l.home(p.Pool),
	}
}

// home returns the site where most of a pool's demand is, "" if it is at several.
func (l *live) home(pool string) string {
	if s := l.sharing(); s != nil {
		return s.Homes[pool]
	}
	return ""
}

func (l *live) quotaStatus(v *leadership.View, p *allocation.PoolShare, key allocation.Flow) *quotav1.QuotaStatus {
	f := l.flow(v, p, key)
	return &quotav1.QuotaStatus{
		Demand: f.Demand, Share: f.Share, Admitted: f.Admitted,
		BoundBy: delivery.Bounds[f.Bound], Price: p.Price, Stale: v.Stale,
	}
}

// Explain says why a tenant has its share of a pool, or of every pool that it uses or has a quota for. A coordinator
// that does not lead answers with the leader's address; coordinators that share the pools ask each other.
func (l *live) Explain(ctx context.Context, tenant, pool string) ([]*quotav1.Explanation, error) {
	s := l.sharing()
	if s == nil {
		return l.ownExplain(tenant, pool)
	}
	question := &controlv1.AskRequest{Question: &controlv1.AskRequest_Explain{
		Explain: &controlv1.ExplainQuestion{Tenant: tenant, Pool: pool}}}
	if pool != "" {
		one := s.Leader(strings.TrimPrefix(pool, "pools/"))
		if s.IsSelf(one) {
			return l.ownExplain(tenant, pool)
		}
		answer, err := l.coordinator.peers.ask(ctx, s, one, peerTimeout, question)
		return answer.GetExplain().GetExplanations(), err
	}
	out, err := l.ownExplain(tenant, pool)
	if err != nil {
		return nil, err
	}
	err = l.coordinator.peers.each(ctx, s, question, func(_ *election.Sharer, a *controlv1.AskResponse) {
		out = append(out, a.GetExplain().GetExplanations()...)
	})
	slices.SortFunc(out, func(a, b *quotav1.Explanation) int { return cmp.Compare(a.GetPool(), b.GetPool()) })
	return out, err
}

// ownExplain explains shares of pools that are led here.
func (l *live) ownExplain(tenant, pool string) ([]*quotav1.Explanation, error) {
	if err := l.leads(); err != nil {
		return nil, err
	}
	v := l.view()
	if v.Outcome == nil { // it has just lost the lead
		return nil, errSettling
	}
	tenant, pool = strings.TrimPrefix(tenant, "tenants/"), strings.TrimPrefix(pool, "pools/")
	config, _, _ := l.coordinator.configuration.Allocation()
	if _, known := config.Tenants[tenant]; !known && tenant != allocation.Unknown {
		return nil, nil
	}
	if pool != "" && v.Pool(pool) == nil && l.sharing() != nil && config.Has(pool) {
		return nil, errSettling // it was led elsewhere until now
	}
	var out []*quotav1.Explanation
	for i := range v.Outcome.Pools {
		p := &v.Outcome.Pools[i]
		key := allocation.Flow{Tenant: tenant, Pool: p.Pool}
		if _, quota := config.Quotas[key]; p.Pool == pool || pool == "" && (quota || v.Flow(key) != nil) {
			out = append(out, l.explain(&v, p, key))
		}
	}
	return out, nil
}

// Activity asks all agents about the latest requests, and sums their answers.
func (l *live) Activity(ctx context.Context, s *quotav1.Selection, single bool) (*quotav1.TopResponse, error) {
	if err := l.leads(); err != nil {
		return nil, err
	}
	// An agent sends more rows than are shown: a name may be among the first only in sum.
	question := &controlv1.Question{Single: single, Selection: proto.CloneOf(s)}
	question.Selection.Most = min(4*cmp.Or(s.GetMost(), toplist.DefaultMost), maxAgentRows)
	replies := l.coordinator.streams.Ask(ctx, question)
	sum, out := toplist.Sum{}, &quotav1.TopResponse{Agents: int32(replies.Asked), Silent: replies.Silent}
	for _, a := range replies.Answers {
		for _, row := range a.GetRows() {
			sum.Add(row)
		}
		out.Other = toplist.Plus(out.Other, a.GetOther())
	}
	var rest *quotav1.Activity
	out.Rows, rest = sum.Most(s)
	out.Other = toplist.Plus(out.Other, rest)
	return out, nil
}

// Decisions asks all agents what was decided about the request of an ID.
func (l *live) Decisions(ctx context.Context, request string) (*quotav1.FindDecisionsResponse, error) {
	if err := l.leads(); err != nil {
		return nil, err
	}
	replies := l.coordinator.streams.Ask(ctx,
		&controlv1.Question{Request: request, Selection: &quotav1.Selection{Most: 1}})
	return decisions(replies), nil
}

// decisions merges the answers of agents about a request.
func decisions(replies stream.Replies) *quotav1.FindDecisionsResponse {
	out := &quotav1.FindDecisionsResponse{Agents: int32(replies.Asked), Silent: replies.Silent}
	for _, a := range replies.Answers {
		out.Decisions = append(out.Decisions, a.GetDecisions()...)
		out.Remembered += a.GetRemembered()
		if back := a.GetBack(); back.AsDuration() > out.GetBack().AsDuration() {
			out.Back = back
		}
	}
	slices.SortStableFunc(out.Decisions, func(a, b *quotav1.Decision) int {
		return cmp.Compare(a.GetAgo().AsDuration(), b.GetAgo().AsDuration())
	})
	out.Decisions = out.Decisions[:min(len(out.Decisions), maxDecisions)]
	slices.Sort(out.Silent)
	return out
}

// maxDecisions bounds the decisions about requests of one ID, the latest: a client may give many requests the same.
const maxDecisions = 64

// maxAgentRows bounds the rows in one agent's answer.
const maxAgentRows = 2000

// leads is nil if this coordinator has the outcome of a round, otherwise why it has none.
func (l *live) leads() error {
	if l.view().Outcome != nil {
		return nil
	}
	state, _ := l.coordinator.elector.State()
	if state.Role == election.Following {
		return l.askLeader(state.Leader)
	}
	if len(l.coordinator.streams.Agents()) == 0 {
		return errNoAgents
	}
	return errSettling
}

// askLeader is the status for a question that only the leader can answer. Where agents have a separate port, its
// address does not help the caller.
func (l *live) askLeader(leader string) error {
	if l.coordinator.agentListener == nil || leader == "" {
		return stream.NotLeader(leader)
	}
	return status.Errorf(codes.FailedPrecondition,
		"this coordinator does not lead; the leader serves agents at %s: ask its --listen", leader)
}

// Doubts returns the reasons why a resource may not do what it says at the gateways of connected agents.
func (l *live) Doubts(m resource.Message) (doubts []quota.Doubt, known bool) {
	return l.coordinator.fleet.Doubts(l.coordinator.streams.Agents(), m)
}

// Unknown says which limits and pools have names that gateways of connected agents do not know.
func (l *live) Unknown(most int, keep func(resource.Message) bool) (sentences []string) {
	if all, known := l.coordinator.configuration.Since(-1); known {
		sentences = l.coordinator.fleet.Unknown(l.coordinator.streams.Agents(), all.Resources, most, keep)
	}
	return sentences
}

// InForce counts the gateways of connected agents, and among them those with the stored version in force.
func (l *live) InForce(m resource.Message) (inForce, gateways int) {
	return l.coordinator.fleet.InForce(l.coordinator.streams.Agents(), m)
}

// Gateways lists the gateways of connected agents, and the revision that they should have.
func (l *live) Gateways() (revision int64, gateways []*quotav1.Gateway, err error) {
	if state, _ := l.coordinator.elector.State(); state.Role == election.Following {
		return 0, nil, l.askLeader(state.Leader)
	}
	config, _, _ := l.coordinator.configuration.Allocation()
	return config.Revision, l.coordinator.fleet.Gateways(l.coordinator.streams.Agents()), nil
}

// Overrides counts those of the configuration that is known here.
func (l *live) Overrides(parent string) int { return l.coordinator.configuration.Overrides(parent) }

// Precision says how close the gateways of connected agents hold a limit, and why.
func (l *live) Precision(limit *quotav1.Limit) (p quotav1.Precision, why string) {
	return l.coordinator.fleet.Precision(l.coordinator.streams.Agents(), limit)
}

func (l *live) explain(v *leadership.View, p *allocation.PoolShare, key allocation.Flow) *quotav1.Explanation {
	f := l.flow(v, p, key)
	e := &quotav1.Explanation{
		Tenant: "tenants/" + key.Tenant, Pool: "pools/" + key.Pool,
		Capacity: p.Capacity, Demand: f.Demand, Limited: f.Limited, Weight: f.Weight, Guaranteed: f.Guaranteed,
		FairRate: p.FairRate, Share: f.Share, BoundBy: delivery.Bounds[f.Bound], Price: p.Price,
		Stale: v.Stale, Epoch: v.Epoch, Admitted: f.Admitted,
	}
	if !math.IsInf(f.Max, 1) {
		e.Max = &f.Max
	}
	sites := l.coordinator.fleet.SiteOf(l.coordinator.streams.Agents())
	for _, part := range l.coordinator.loop.Parts(key) {
		e.Gateways = append(e.Gateways, &quotav1.GatewayPart{Gateway: part.Gateway, Demand: part.Demand,
			Admitted: part.Admitted, Site: sites(part.Gateway)})
	}
	return e
}

// flow returns the share of a flow: its own lease, or the pool's idle share.
func (l *live) flow(v *leadership.View, p *allocation.PoolShare, key allocation.Flow) allocation.FlowShare {
	if f := v.Flow(key); f != nil {
		return *f
	}
	config, _, _ := l.coordinator.configuration.Allocation()
	return config.Idle(key, p.IdleShare)
}
