package coordinator

import (
	"cmp"
	"context"
	"slices"
	"strings"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/stream"
)

// mostBuckets bounds the gateways of a bucket, by name.
const mostBuckets = 1000

// Bucket asks all agents about the bucket of a client at a limit.
func (l *live) Bucket(ctx context.Context, limit, client string) (*quotav1.Bucket, error) {
	if err := l.leads(); err != nil {
		return nil, err
	}
	tenant, name, _ := strings.Cut(strings.TrimPrefix(limit, "tenants/"), "/limits/")
	replies := l.coordinator.streams.Ask(ctx, &controlv1.Question{
		Selection: &quotav1.Selection{Most: 1}, // for agents of a release that does not know the question
		Key:       &controlv1.KeyQuestion{Tenant: tenant, Limit: name, Client: client}})
	out := bucket(replies)
	out.Limit, out.Client = limit, client
	return out, nil
}

// bucket merges the answers of agents about a key. The owner knows gateways by the numbers of their processes, their
// agents by name. Each site that uses the key has an owner.
func bucket(replies stream.Replies) *quotav1.Bucket {
	out := &quotav1.Bucket{Agents: int32(replies.Asked), Silent: replies.Silent}
	named, owned := map[uint64]*quotav1.GatewayBucket{}, map[uint64]*quotav1.GatewayBucket{}
	for _, a := range replies.Answers {
		k := a.GetKey()
		if k == nil { // of a release that does not know the question
			out.Agents--
		}
		if k.GetRate() > 0 {
			out.Rate, out.Burst, out.Exact = k.GetRate(), k.GetBurst(), out.GetExact() || k.GetExact()
		}
		if k.GetOwner() != nil {
			out.Owners = append(out.Owners, k.GetOwner())
		}
		out.Claims = append(out.Claims, k.GetClaims()...)
		for _, g := range k.GetGateways() {
			switch {
			case g.GetBucket() == nil:
			case g.GetOwned():
				owned[g.GetProcess()] = g.GetBucket()
			default:
				named[g.GetProcess()] = g.GetBucket()
			}
		}
	}
	for process, o := range owned {
		g := named[process]
		if g == nil { // its agent has not answered
			named[process] = o
			continue
		}
		g.Tokens, g.Granted, g.Returned, g.Need = o.GetTokens(), o.GetGranted(), o.GetReturned(), o.GetNeed()
		g.Whole, g.Recalled = o.GetWhole(), o.GetRecalled()
	}
	for _, g := range named {
		out.Gateways = append(out.Gateways, g)
	}
	slices.SortFunc(out.Gateways, func(a, b *quotav1.GatewayBucket) int {
		return cmp.Or(cmp.Compare(a.GetGateway(), b.GetGateway()), cmp.Compare(a.GetAgent(), b.GetAgent()))
	})
	slices.SortFunc(out.Owners, func(a, b *quotav1.OwnerBucket) int {
		return cmp.Or(cmp.Compare(a.GetSite(), b.GetSite()), cmp.Compare(a.GetAgent(), b.GetAgent()))
	})
	slices.SortFunc(out.Claims, func(a, b *quotav1.SiteClaim) int {
		return cmp.Or(cmp.Compare(a.GetSite(), b.GetSite()), cmp.Compare(a.GetAt(), b.GetAt()))
	})
	out.Gateways = out.Gateways[:min(len(out.Gateways), mostBuckets)]
	slices.Sort(out.Silent)
	return out
}

// History returns the last hour of a pool, as the coordinator that leads it knows it.
func (l *live) History(ctx context.Context, pool string) (*quotav1.PoolHistory, error) {
	s := l.sharing()
	if s == nil {
		return l.ownHistory(pool)
	}
	one := s.Leader(strings.TrimPrefix(pool, "pools/"))
	if s.IsSelf(one) {
		return l.ownHistory(pool)
	}
	answer, err := l.coordinator.peers.ask(ctx, s, one, peerTimeout, &controlv1.AskRequest{
		Question: &controlv1.AskRequest_History{History: &controlv1.HistoryQuestion{Pool: pool}}})
	return answer.GetHistory(), err
}

func (l *live) ownHistory(pool string) (*quotav1.PoolHistory, error) {
	if err := l.leads(); err != nil {
		return nil, err
	}
	return l.coordinator.loop.History(strings.TrimPrefix(pool, "pools/")), nil
}
