package quota

import (
	"context"
	"fmt"
	"math"
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// GetBucket shows the token bucket of a client at a limit: at its owner, and at each gateway.
func (s *Server) GetBucket(ctx context.Context, r *quotav1.GetBucketRequest) (*quotav1.Bucket, error) {
	if err := s.asked(named(r, "name", r.GetName(), resource.Limit), "agents cannot be asked"); err != nil {
		return nil, err
	}
	out, err := s.live.Bucket(ctx, r.GetName(), r.GetClient())
	if err != nil {
		return nil, explainStatus(err)
	}
	if out.GetRate() == 0 && int(out.GetAgents()) > len(out.GetSilent()) {
		return nil, grpcstatus.Errorf(codes.NotFound, "gateways have no limit %s with a token bucket for client %s: a "+
			"limit with a concurrency or a quota has none, nor has a client that is blocked; a limit with key TENANT "+
			"has one without a client", r.GetName(), wording.Quote(r.GetClient()))
	}
	out.Sentence = bucketSentence(out) + claimSentences(out.GetClaims())
	return out, nil
}

// bucketSentence says in words where the tokens of a bucket are.
func bucketSentence(b *quotav1.Bucket) string {
	if b.GetRate() == 0 {
		return "No agent has answered, so nothing is known of the bucket."
	}
	var whole, using []string
	for _, g := range b.GetGateways() {
		if g.GetWhole() {
			whole = append(whole, g.GetGateway())
		}
		if g.Free != nil || g.GetTokens() > 0 {
			using = append(using, g.GetGateway())
		}
	}
	burst := wording.Number(b.GetBurst())
	switch owners := b.GetOwners(); {
	case len(whole) > 0:
		return fmt.Sprintf("EXACT: gateway %s alone uses the bucket of %s tokens, and has the bucket itself.",
			strings.Join(whole, ", "), burst)
	case len(owners) == 1:
		return "EXACT: " + ownerSentence(owners[0], burst)
	case len(owners) > 1:
		all := []string{"EXACT within each site: a site has a bucket, and charges it with what the other sites admit."}
		for _, o := range owners {
			all = append(all, fmt.Sprintf("%s: %s", wording.Site(o.GetSite()), ownerSentence(o, burst)))
		}
		return strings.Join(all, " ")
	case len(using) == 0:
		return fmt.Sprintf("The bucket of %s tokens is full: no gateway has reported that the client has spent any.",
			burst)
	case b.GetExact():
		return "EXACT, but no agent owns the key now: gateways go by their own ledgers."
	case len(using) == 1:
		return fmt.Sprintf("LOCAL: gateway %s alone has reported that the client spends.", using[0])
	}
	return fmt.Sprintf("LOCAL: %d gateways send each other what the client spends, and each has its own view of the "+
		"one bucket.", len(using))
}

func ownerSentence(o *quotav1.OwnerBucket, burst string) string {
	return fmt.Sprintf("agent %s owns the bucket. Of %s tokens it may grant %s; gateways have %s that they have not "+
		"spent.", o.GetAgent(), burst, tokens(max(0, o.GetFree())), tokens(o.GetOut()))
}

// claimSentences says what sites that use a key take off the limit for each other.
func claimSentences(claims []*quotav1.SiteClaim) string {
	var all strings.Builder
	for _, c := range claims {
		fmt.Fprintf(&all, " For %s, %s takes %s off the limit", wording.Site(c.GetSite()), wording.Site(c.GetAt()),
			rate(c.GetRate()))
		if !c.GetReachable() {
			all.WriteString(", as claimed last: the way between them is cut")
		}
		all.WriteString(".")
	}
	return all.String()
}

// tokens writes a number of tokens, to a hundredth.
func tokens(n float64) string { return wording.Number(math.Round(n*100) / 100) }

// GetPoolHistory shows the last hour of a pool.
func (s *Server) GetPoolHistory(ctx context.Context, r *quotav1.GetPoolHistoryRequest) (*quotav1.PoolHistory, error) {
	if err := s.asked(named(r, "name", r.GetName(), resource.Pool), "the history of pools is not known"); err != nil {
		return nil, err
	}
	out, err := s.live.History(ctx, r.GetName())
	if err != nil {
		return nil, explainStatus(err)
	}
	if out == nil { // nothing is known yet, or ever
		return &quotav1.PoolHistory{Pool: r.GetName()}, status(s.checkStored(ctx, r.GetName()))
	}
	return out, nil
}
