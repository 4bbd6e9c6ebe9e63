package quota

import (
	"context"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
)

// mostBehind is the number of the latest changes that are compared to say how far a gateway is behind.
const mostBehind = 1000

// ListGateways returns the gateways with the revision that is in force at each.
func (s *Server) ListGateways(ctx context.Context, _ *quotav1.ListGatewaysRequest) (*quotav1.ListGatewaysResponse,
	error) {
	if err := s.asked(nil, "gateways are not known"); err != nil {
		return nil, err
	}
	revision, gateways, err := s.live.Gateways()
	if err != nil {
		return nil, explainStatus(err)
	}
	Behind(ctx, s.store, revision, gateways)
	return &quotav1.ListGatewaysResponse{Revision: revision, Gateways: gateways}, nil
}

// Behind says of each gateway how many changes up to the revision are not in force there. It also says when the oldest
// of these was stored, as far as the history knows. It reads the history only if a gateway has another revision.
func Behind(ctx context.Context, s *store.Store, revision int64, gateways []*quotav1.Gateway) {
	if !slices.ContainsFunc(gateways, func(g *quotav1.Gateway) bool { return g.GetRevision() < revision }) {
		return
	}
	entries, err := s.History(ctx, laterThan(revision), mostBehind) // the newest first
	if err != nil {
		entries = nil // that they are behind is known
	}
	for _, g := range gateways {
		if g.GetRevision() >= revision {
			continue
		}
		lacks := entries
		reached := slices.IndexFunc(entries, func(e store.Entry) bool { return e.Revision <= g.GetRevision() })
		if reached >= 0 {
			lacks = entries[:reached] // none: the revision was raised, and nothing changed
		}
		g.Behind, g.BehindMore = int32(len(lacks)), reached < 0 && !fromTheStart(entries)
		if len(lacks) > 0 {
			g.BehindSince = timestamppb.New(lacks[len(lacks)-1].Time)
		}
	}
}

// laterThan bounds the revisions of the history to those up to the given one.
func laterThan(revision int64) int64 { return min(revision, math.MaxInt64-1) + 1 }

// fromTheStart reports whether the entries, the newest first, go back to the first change of all.
func fromTheStart(entries []store.Entry) bool {
	return len(entries) > 0 && entries[len(entries)-1].Previous == 0
}
