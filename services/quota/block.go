package quota

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// PlanBlock says how a client would be blocked: by an override with rate 0, in the limit that the request names or in
// the tenant's limit of blocks. All who block, such as titrate block and the console, ask it for the change.
func (s *Server) PlanBlock(ctx context.Context, r *quotav1.PlanBlockRequest) (*quotav1.PlanBlockResponse, error) {
	if err := named(r, "tenant", r.GetTenant(), resource.Tenant); err != nil {
		return nil, status(err)
	}
	name := cmp.Or(r.GetLimit(), r.GetTenant()+resource.BlockedLimit)
	if !strings.HasPrefix(name, r.GetTenant()+"/") {
		return nil, status(valid.Wrong("limit", "%s is no limit of %s", wording.Quote(name), r.GetTenant()))
	}
	limit, err := s.store.Get(ctx, name)
	var apply *quotav1.ApplyRequest
	switch {
	case err == nil:
		l, is := limit.(*quotav1.Limit)
		if !is {
			return nil, status(valid.Wrong("limit", "%s is no limit", wording.Quote(name)))
		}
		apply, err = s.withBlock(ctx, l, r)
	case r.GetLimit() == "" && errors.Is(err, store.ErrNotFound):
		apply, err = s.firstBlock(ctx, name, r)
	}
	if err != nil {
		return nil, status(err)
	}
	return &quotav1.PlanBlockResponse{Apply: apply}, nil
}

// firstBlock makes the tenant's limit of blocks, at the revision at which there is none.
func (s *Server) firstBlock(ctx context.Context, name string, r *quotav1.PlanBlockRequest) (*quotav1.ApplyRequest,
	error) {
	if err := s.hidesBlocks(ctx, name, r.GetTenant()); err != nil {
		return nil, err
	}
	l := &quotav1.Limit{Name: name, Rate: resource.HighestRate, Precision: quotav1.Precision_LOCAL}
	apply, err := s.withBlock(ctx, l, r)
	if err != nil {
		return nil, err
	}
	changes, note, _, err := s.planned(ctx, &quotav1.PlanRequest{Apply: apply})
	if err != nil {
		return nil, err
	}
	done, err := s.store.Check(ctx, note, changes)
	if err != nil {
		return nil, err
	}
	made := madeBy(changes, done)
	if len(made) != len(changes) || slices.ContainsFunc(made, func(c *quotav1.ResourceChange) bool {
		return c.GetBefore() != nil
	}) {
		return nil, grpcstatus.Error(codes.Aborted, name+" was made meanwhile") // and would be replaced
	}
	apply.ExpectedRevision = done.Revision
	return apply, nil
}

// hidesBlocks returns an error if a new limit of blocks would hide a limit that holds for the tenant: its plan's, or
// else every tenant's.
func (s *Server) hidesBlocks(ctx context.Context, name, tenant string) error {
	for _, parent := range s.parents(ctx, tenant) {
		if parent == tenant {
			continue
		}
		m, err := s.store.Get(ctx, parent+resource.BlockedLimit)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		l, now := m.(*quotav1.Limit), time.Now()
		lives := func(o *quotav1.InlineOverride) bool { return !resource.IsOver(o, now) }
		if !resource.IsOfBlocks(l) || slices.ContainsFunc(l.GetOverrides(), lives) {
			return grpcstatus.Errorf(codes.FailedPrecondition, "%s would hide %s with its blocks, which hold for "+
				"%s now: block the client in %[2]s, for all its tenants, or name a limit of %[3]s", name, l.GetName(),
				tenant)
		}
		return nil
	}
	return nil
}

// withBlock asks for the block in a limit: an Override, or for tenant "-" an entry of the limit's list. The limit of
// blocks loses its lapsed blocks.
func (s *Server) withBlock(ctx context.Context, l *quotav1.Limit, r *quotav1.PlanBlockRequest) (*quotav1.ApplyRequest,
	error) {
	if l.GetConcurrency() > 0 || l.GetQuota() != nil || l.GetKey() == quotav1.Key_TENANT {
		return nil, grpcstatus.Errorf(codes.FailedPrecondition, "%s has a concurrency, a quota or key TENANT, so it "+
			"blocks no single client: name another limit or none", l.GetName())
	}
	before, now := len(l.GetOverrides()), time.Now()
	isNew, ofBlocks := l.GetEtag() == "", strings.HasSuffix(l.GetName(), resource.BlockedLimit)
	if i := slices.IndexFunc(l.GetOverrides(), func(o *quotav1.InlineOverride) bool {
		return o.GetClient() == r.GetClient()
	}); i >= 0 {
		if err := mayBlock(l, r, l.GetOverrides()[i].GetRate()); err != nil {
			return nil, err
		}
		l.Overrides = slices.Delete(l.GetOverrides(), i, i+1)
	}
	if ofBlocks {
		l.Overrides = slices.DeleteFunc(l.GetOverrides(), func(o *quotav1.InlineOverride) bool {
			return resource.Blocks(o.GetRate()) && resource.IsOver(o, now)
		})
	}
	if r.GetTenant() == "tenants/"+resource.AnyTenant {
		l.Overrides = append(l.Overrides,
			&quotav1.InlineOverride{Client: r.GetClient(), Rate: "0", Until: r.GetUntil()})
		return &quotav1.ApplyRequest{Resources: []*quotav1.Resource{resource.Of(l)}}, nil
	}
	one, err := s.ownBlock(ctx, l, r)
	if err != nil {
		return nil, err
	}
	apply := &quotav1.ApplyRequest{}
	if isNew || len(l.GetOverrides()) < before {
		apply.Resources = append(apply.Resources, resource.Of(l))
	}
	apply.Resources = append(apply.Resources, resource.Of(one))
	if isNew || !ofBlocks {
		return apply, nil
	}
	apply.Deletions, err = s.lapsedBlocks(ctx, l.GetName(), one.GetName(), now)
	return apply, err
}

// ownBlock is the Override that blocks the client in a limit, with the etag of the stored one.
func (s *Server) ownBlock(ctx context.Context, l *quotav1.Limit, r *quotav1.PlanBlockRequest) (*quotav1.Override,
	error) {
	one := &quotav1.Override{Name: l.GetName() + "/overrides/" + resource.ClientID(r.GetClient()), Rate: "0",
		Until: r.GetUntil()}
	was, err := s.store.Get(ctx, one.GetName())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return one, nil
	case err != nil:
		return nil, err
	}
	one.Etag = was.GetEtag()
	return one, mayBlock(l, r, was.(*quotav1.Override).GetRate())
}

// lapsedBlocks are the blocks of a limit that have lapsed but one, as far as a page of them goes.
func (s *Server) lapsedBlocks(ctx context.Context, limit, but string, now time.Time) (gone []*quotav1.Deletion,
	err error) {
	page, _, err := s.store.List(ctx, store.Query{Kind: resource.Override, Parent: limit, Limit: maxPage})
	for _, m := range page {
		o := m.(*quotav1.Override)
		if o.GetName() != but && resource.Blocks(o.GetRate()) && resource.IsOver(o, now) {
			gone = append(gone, &quotav1.Deletion{Name: o.GetName(), Etag: o.GetEtag()})
		}
	}
	return gone, err
}

// mayBlock returns an error if a client has numbers of its own that a block would replace.
func mayBlock(l *quotav1.Limit, r *quotav1.PlanBlockRequest, rate string) error {
	if resource.Blocks(rate) {
		return nil
	}
	return grpcstatus.Errorf(codes.FailedPrecondition, "client %s has numbers of its own in %s (rate %s), which the "+
		"block would replace: name another limit or none", wording.Quote(r.GetClient()), l.GetName(), rate)
}
