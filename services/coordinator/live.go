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

// live answers the admin API's questions about the present from the outcome of the last
// round.
type live struct{ coordinator *Coordinator }

func (l *live) view() leadership.View { return l.coordinator.loop.View(time.Now()) }

// PoolStatus is the state of pools/x, nil when this coordinator does not know it.
func (l *live) PoolStatus(name string) *quotav1.PoolStatus {
	v := l.view()
	p := v.Pool(strings.TrimPrefix(name, "pools/"))
	if p == nil {
		return nil
	}
	return &quotav1.PoolStatus{
		Demand: p.Demand, Admitted: p.Admitted, Price: p.Price, FairRate: p.FairRate,
		InfeasibleGuarantees: p.Infeasible || p.GuaranteeScale < 1, Epoch: v.Epoch,
		Capacity: p.Capacity, InFlight: p.InFlight,
	}
}

// QuotaStatus is the state of tenants/x/quotas/y, nil when it is not known here.
func (l *live) QuotaStatus(name string) *quotav1.QuotaStatus {
	ref, err := resource.Parse(name)
	if err != nil {
		return nil
	}
	v := l.view()
	p := v.Pool(ref.ID)
	if p == nil {
		return nil
	}
	f := l.flow(&v, p, allocation.Flow{Tenant: ref.Tenant, Pool: ref.ID})
	return &quotav1.QuotaStatus{
		Demand: f.Demand, Share: f.Share, Admitted: f.Admitted,
		BoundBy: delivery.Bounds[f.Bound], Price: p.Price, Stale: v.Stale,
	}
}

// Explain says why a tenant has its share of a pool, or of every pool that it uses
// or has a quota for. A coordinator that does not lead answers with the leader's
// address.
func (l *live) Explain(_ context.Context, tenant, pool string) ([]*quotav1.Explanation, error) {
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

// Activity asks all agents what became of requests lately, and sums their answers.
func (l *live) Activity(ctx context.Context, s *quotav1.Selection, single bool) (*quotav1.TopResponse, error) {
	if err := l.leads(); err != nil {
		return nil, err
	}
	// An agent tells more rows than are shown: a name may be among the first only in sum.
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

// decisions is what agents have answered about a request. An older agent, which does not know that
// it was asked about one, counts as silent.
func decisions(replies stream.Replies) *quotav1.FindDecisionsResponse {
	out := &quotav1.FindDecisionsResponse{Agents: int32(replies.Asked), Silent: replies.Silent}
	for i, a := range replies.Answers {
		if a.Remembered == nil {
			out.Silent = append(out.Silent, replies.Answered[i])
			continue
		}
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

// maxDecisions bounds the decisions about requests of one ID, the latest: a client may give many
// requests the same.
const maxDecisions = 64

// maxAgentRows bounds the rows that one agent tells.
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
	return errSettling
}

// askLeader is the status for a question that only the leader can answer. Where agents
// have a port of their own, its address is of no use to whoever asks.
func (l *live) askLeader(leader string) error {
	if l.coordinator.agentListener == nil || leader == "" {
		return stream.NotLeader(leader)
	}
	return status.Errorf(codes.FailedPrecondition,
		"this coordinator does not lead; the one that does serves agents at %s: ask its --listen", leader)
}

// Doubts is why a resource may not do what it says at the gateways of connected agents.
func (l *live) Doubts(m resource.Message) (doubts []quota.Doubt, known bool) {
	return l.coordinator.fleet.Doubts(l.coordinator.streams.Agents(), m)
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
	for _, part := range l.coordinator.loop.Parts(key) {
		e.Gateways = append(e.Gateways, &quotav1.GatewayPart{Gateway: part.Gateway, Demand: part.Demand,
			Admitted: part.Admitted})
	}
	return e
}

// flow is what a flow has: its own lease, or the pool's idle share.
func (l *live) flow(v *leadership.View, p *allocation.PoolShare, key allocation.Flow) allocation.FlowShare {
	if f := v.Flow(key); f != nil {
		return *f
	}
	config, _, _ := l.coordinator.configuration.Allocation()
	return config.Idle(key, p.IdleShare)
}
