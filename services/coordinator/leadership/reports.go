package leadership

import (
	"slices"
	"time"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/delivery"
)

// Hello takes the gateways of an agent that has connected. If the agent has obeyed an
// earlier leader, the first leases wait until Settle has passed.
func (l *Loop) Hello(now time.Time, h *controlv1.Hello) *delivery.Receiver {
	l.mu.Lock()
	defer l.mu.Unlock()
	receiver := delivery.NewReceiver(h)
	if l.allocator == nil {
		return receiver
	}
	defer l.stir()
	l.allocator.Connect(now, h.GetAgent(), replicas(h.GetReplicas()))
	l.allocator.Resume(now, h.GetAgent(), held(h.GetEpoch(), h.GetPools(), h.GetLeases()))
	if l.obeyedAnother(h) && l.collects.IsZero() && now.Sub(l.began) < lateAgents*l.o.Settle {
		l.collects = now
		l.publisher.Withdraw()
	}
	return receiver
}

// obeyedAnother reports whether an agent has obeyed an earlier leader, or another leader of a pool before this one.
func (l *Loop) obeyedAnother(h *controlv1.Hello) bool {
	if h.GetEpoch() > 0 && h.GetEpoch() < l.epoch {
		return true
	}
	return l.config != nil && slices.ContainsFunc(h.GetPools(), func(p *controlv1.PoolLease) bool {
		return p.GetEpoch() > 0 && p.GetEpoch() < l.epoch && l.config.Has(p.GetPool())
	})
}

// lateAgents times Settle after the beginning of a leadership, an agent of an earlier
// leader does not delay the leases any more.
const lateAgents = 5

// Report takes what an agent's gateways saw. It reports whether the agent uses a flow that
// it has no lease of yet: call Next.
func (l *Loop) Report(now time.Time, agent string, r *controlv1.Report) (news bool) {
	report := &allocation.Report{
		Changes: r.GetChanges(), Interval: r.GetInterval().AsDuration(), GossipDelay: r.GetGossipDelay().AsDuration(),
		Replicas: replicas(r.GetReplicas()), Flows: make([]allocation.FlowReport, len(r.GetFlows())),
	}
	for i, f := range r.GetFlows() {
		report.Flows[i] = allocation.FlowReport{
			Flow: allocation.Flow{Tenant: f.GetTenant(), Pool: f.GetPool()}, Gateway: f.GetGateway(),
			Demand: f.GetDemand(), Served: f.GetServed(), Waiting: f.GetWaiting(), Limited: f.GetLimited(),
			Once: f.GetOnce(), Completed: f.GetCompleted(), Residence: f.GetResidence(), Shed: f.GetShed(),
			InFlight: f.GetInFlight(), Marked: f.GetMarked(), Refused: f.GetRejected() + f.GetClientRejected(),
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allocator == nil {
		return false
	}
	defer l.stir()
	if len(r.GetPools()) > 0 {
		l.allocator.Resume(now, agent, held(0, r.GetPools(), r.GetLeases()))
	}
	return l.allocator.Observe(now, agent, report)
}

// Left notes that an agent has ended its stream in order: it stops, and none of its gateways lives on.
func (l *Loop) Left(agent string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allocator != nil {
		l.allocator.Left(agent)
		l.stir()
	}
}

// Nack notes that an agent refused a configuration.
func (l *Loop) Nack(agent string, revision int64, reason string) {
	l.o.Log.Error("an agent refuses the configuration; the one before stays in force there",
		"agent", agent, "revision", revision, "reason", reason)
	l.o.Nacked()
}

// held collects an agent's copy of an earlier leader's leases.
func held(epoch int64, pools []*controlv1.PoolLease, leases []*controlv1.Lease) *allocation.Held {
	out, epochs := &allocation.Held{Epoch: epoch}, make(map[string]int64, len(pools))
	for _, p := range pools {
		epochs[p.GetPool()] = p.GetEpoch()
		out.Pools = append(out.Pools, allocation.HeldPool{Pool: p.GetPool(), Estimate: p.GetCapacity(),
			Loss: float64(p.GetLoss()), Epoch: p.GetEpoch()})
	}
	for _, f := range leases {
		key := allocation.Flow{Tenant: f.GetTenant(), Pool: f.GetPool()}
		out.Flows = append(out.Flows, allocation.HeldFlow{Flow: key, Share: f.GetShare(),
			Demand: float64(f.GetDemand()), Epoch: epochs[f.GetPool()]})
	}
	return out
}

func replicas(in []*controlv1.Replica) []allocation.Replica {
	out := make([]allocation.Replica, len(in))
	for i, r := range in {
		out[i] = allocation.Replica{Name: r.GetName(), Weight: r.GetWeight(), Gossip: r.GetGossip()}
	}
	return out
}
