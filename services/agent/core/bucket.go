package core

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter"
	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// bucket answers a question about a key of a limit: what the gateways here know of it, and if this agent owns it, what
// it has granted to whom. Nothing is kept for such questions. O(gateways).
func (c *Core) bucket(now time.Duration, q *controlv1.KeyQuestion) *controlv1.KeyAnswer {
	out, in := &controlv1.KeyAnswer{}, c.applied.Configuration()
	if in == nil {
		return out
	}
	b, ok := limiter.BucketOf(in, c.Clock(now), &exchange.KeyName{Tenant: q.GetTenant(), Limit: q.GetLimit(),
		Client: q.GetClient()})
	if !ok {
		return out
	}
	out.Rate, out.Burst, out.Exact = b.Rate, float64(b.Burst)/grant.Token, b.IsExact(c.exact)
	for _, g := range c.connected() {
		out.Gateways = append(out.Gateways, &controlv1.KeyGateway{Process: g.number,
			Bucket: c.gatewayBucket(now, g, b.Key, out)})
	}
	if book, owned := c.tokens[exchange.ScopeOf(b.Global)].Look(now, b.Key); owned && out.GetExact() {
		out.Owner = &quotav1.OwnerBucket{Agent: c.o.Name, Free: book.Free, Out: book.Out, Site: c.o.Site}
		for _, u := range book.Uses {
			out.Gateways = append(out.Gateways, &controlv1.KeyGateway{Process: u.Number, Owned: true,
				Bucket: &quotav1.GatewayBucket{Agent: u.Agent, Site: c.o.Site, Tokens: cost(u.Out),
					Granted: cost(u.Granted), Returned: cost(u.Returned), Need: cost(u.Need),
					Whole: u.Whole, Recalled: u.Recalled}})
		}
	}
	for _, s := range c.aggregator.SiteClaims(b.Key) {
		claim := &quotav1.SiteClaim{Site: s.Name, At: c.o.Site, Rate: s.Rate, Reachable: s.Reachable}
		out.Claims = append(out.Claims, claim)
	}
	return out
}

// gatewayBucket returns the bucket of a key as a gateway here knows it: by its claim, which is a fraction of a second
// old. Of a key that nobody else uses it takes what the gateway has reported for the case of a restart.
func (c *Core) gatewayBucket(now time.Duration, g *gateway, key uint64, of *controlv1.KeyAnswer,
) *quotav1.GatewayBucket {
	out := &quotav1.GatewayBucket{Gateway: g.Gateway, Agent: c.o.Name, Site: c.o.Site}
	claim, at, ok := c.aggregator.Claim(g.Gateway, g.Generation, key)
	if !ok {
		if ahead := c.spent.Ahead(now, g.Gateway, key); ahead > 0 {
			out.Free = new(of.GetBurst() - ahead.Seconds()*of.GetRate())
		}
		return out
	}
	spent, age := claim.Spent, max(0, now-at)
	if claim.Claim == 0 { // the gateway rests, and only time goes on
		spent = max(0, spent-age.Seconds()*of.GetRate())
	}
	out.Free, out.Rate, out.Admitted = new(of.GetBurst()-spent), claim.Claim, claim.Admitted
	out.Reported = durationpb.New(age)
	return out
}

func cost(millionths int64) float64 { return float64(millionths) / grant.Token }
