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
	apply := &quotav1.ApplyRequest{}
	limit, err := s.store.Get(ctx, name)
	switch {
	case err == nil:
		l, is := limit.(*quotav1.Limit)
		if !is {
			return nil, status(valid.Wrong("limit", "%s is no limit", wording.Quote(name)))
		}
		if err := addBlock(l, r, time.Now()); err != nil {
			return nil, err
		}
		apply.Resources = []*quotav1.Resource{resource.Of(l)}
	case r.GetLimit() != "" || !errors.Is(err, store.ErrNotFound):
		return nil, status(err)
	default:
		if apply, err = s.firstBlock(ctx, name, r); err != nil {
			return nil, status(err)
		}
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
	if err := addBlock(l, r, time.Now()); err != nil {
		return nil, err
	}
	apply := &quotav1.ApplyRequest{Resources: []*quotav1.Resource{resource.Of(l)}}
	changes, note, _, err := s.planned(ctx, &quotav1.PlanRequest{Apply: apply})
	if err != nil {
		return nil, err
	}
	done, err := s.store.Check(ctx, note, changes)
	if err != nil {
		return nil, err
	}
	if made := madeBy(changes, done); len(made) != 1 || made[0].GetBefore() != nil {
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
		lives := func(o *quotav1.Override) bool { return !resource.IsOver(o, now) }
		if l.GetRate() != resource.HighestRate || slices.ContainsFunc(l.GetOverrides(), lives) {
			return grpcstatus.Errorf(codes.FailedPrecondition, "%s would hide %s with its blocks, which hold for "+
				"%s now: block the client in %[2]s, for all its tenants, or name a limit of %[3]s", name, l.GetName(), tenant)
		}
		return nil
	}
	return nil
}

// addBlock adds the block to a limit. The limit of blocks loses its lapsed blocks.
func addBlock(l *quotav1.Limit, r *quotav1.PlanBlockRequest, now time.Time) error {
	if strings.HasSuffix(l.GetName(), resource.BlockedLimit) {
		l.Overrides = slices.DeleteFunc(l.GetOverrides(), func(o *quotav1.Override) bool {
			return resource.Blocks(o.GetRate()) && resource.IsOver(o, now)
		})
	}
	one := &quotav1.Override{Client: r.GetClient(), Rate: "0", Until: r.GetUntil()}
	i := slices.IndexFunc(l.GetOverrides(), func(o *quotav1.Override) bool { return o.GetClient() == r.GetClient() })
	switch {
	case l.GetConcurrency() > 0 || l.GetQuota() != nil || l.GetKey() == quotav1.Key_TENANT:
		return grpcstatus.Errorf(codes.FailedPrecondition, "%s has a concurrency, a quota or key TENANT, so it blocks "+
			"no single client: name another limit or none", l.GetName())
	case i < 0:
		l.Overrides = append(l.Overrides, one)
	case !resource.Blocks(l.GetOverrides()[i].GetRate()):
		return grpcstatus.Errorf(codes.FailedPrecondition, "client %s has numbers of its own in %s (rate %s), which "+
			"the block would replace: name another limit or none", wording.Quote(r.GetClient()), l.GetName(),
			l.GetOverrides()[i].GetRate())
	default:
		l.Overrides[i] = one
	}
	return nil
}
