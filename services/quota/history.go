package quota

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// defaultChanges bounds the changes that GetRevision returns if the caller states no bound;
// maxChangeBytes bounds their size together.
const defaultChanges, maxChangeBytes = 1000, 4 << 20

// ListRevisions returns a page of the history, the newest revision first.
func (s *Server) ListRevisions(ctx context.Context, r *quotav1.ListRevisionsRequest) (*quotav1.ListRevisionsResponse,
	error) {
	if err := valid.Message(r); err != nil {
		return nil, status(err)
	}
	below, err := pageBelow(r.GetPageToken())
	if err != nil {
		return nil, status(err)
	}
	limit := int(r.GetPageSize())
	if limit == 0 {
		limit = defaultPage
	}
	limit = min(limit, maxPage)
	entries, err := s.store.History(ctx, below, limit)
	if err != nil {
		return nil, status(err)
	}
	out := &quotav1.ListRevisionsResponse{}
	for _, e := range entries {
		out.Revisions = append(out.Revisions, revision(e))
	}
	if len(entries) == limit {
		token := revisionScope + strconv.FormatInt(entries[limit-1].Revision, 10)
		out.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	return out, nil
}

// revisionScope begins the page tokens of ListRevisions.
const revisionScope = "revisions "

// pageBelow is the revision that a page ends before, 0 for the first page.
func pageBelow(token string) (int64, error) {
	if token == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	number, ok := strings.CutPrefix(string(text), revisionScope)
	below, bad := strconv.ParseInt(number, 10, 64)
	if err != nil || !ok || bad != nil || below <= 0 {
		return 0, valid.Wrong("page_token", "is not of this list: give the next_page_token of the same request")
	}
	return below, nil
}

func revision(e store.Entry) *quotav1.Revision {
	return &quotav1.Revision{
		Revision: e.Revision, Previous: e.Previous, Time: timestamppb.New(e.Time), Author: e.Author, Message: e.Message,
		Action: e.Action, Set: e.Set, Created: int32(e.Created), Updated: int32(e.Updated), Deleted: int32(e.Deleted),
		Bytes: e.Bytes, RequestId: e.Request,
	}
}

// GetRevision returns a revision of the history with what it changed.
func (s *Server) GetRevision(ctx context.Context, r *quotav1.GetRevisionRequest) (*quotav1.GetRevisionResponse, error) {
	if err := valid.Message(r); err != nil {
		return nil, status(err)
	}
	e, err := s.store.Entry(ctx, r.GetRevision())
	if err != nil {
		return nil, status(err)
	}
	out := &quotav1.GetRevisionResponse{Revision: revision(e)}
	most := int(r.GetMaxChanges())
	if most == 0 {
		most = defaultChanges
	}
	if e.Parts == 0 {
		out.More = int64(e.Created + e.Updated + e.Deleted)
		return out, nil
	}
	passed, bytes := r.GetSkip(), 0
	err = s.store.Changes(ctx, e, func(c *quotav1.ResourceChange) bool {
		if passed > 0 {
			passed--
			return true
		}
		if bytes += proto.Size(c); bytes > maxChangeBytes && len(out.Changes) > 0 {
			return false
		}
		out.Changes = append(out.Changes, c)
		return len(out.Changes) < most
	})
	if err != nil {
		return nil, status(err)
	}
	out.More = max(0, int64(e.Created+e.Updated+e.Deleted-len(out.Changes))-r.GetSkip())
	return out, nil
}

// Rollback makes the configuration what it was after a revision of the history. It is an ordinary change: it has its
// own revision and can be rolled back.
func (s *Server) Rollback(ctx context.Context, r *quotav1.RollbackRequest) (*quotav1.RollbackResponse, error) {
	if err := valid.Message(r); err != nil {
		return nil, status(err)
	}
	note := s.noteOf(ctx, fmt.Sprintf("rollback to %d", r.GetRevision()), r)
	done, err := s.rolledBack(ctx, note)
	if err != nil || done != nil {
		return done, status(err)
	}
	changes, on, err := s.store.Undo(ctx, r.GetRevision())
	if err != nil {
		return nil, status(err)
	}
	if want := r.GetExpectedRevision(); want > 0 && want != on {
		return nil, status(fmt.Errorf("%w: it is at revision %d, the rollback expects %d; look again",
			store.ErrRevision, on, want))
	}
	note.Message, note.IfRevision = r.GetMessage(), on
	// The limits were counted when they were applied.
	result, err := s.apply(ctx, note, changes, r.GetValidateOnly())
	if err == nil && result.Repeated { // by another call at the same time
		done, err = s.rolledBack(ctx, note)
		return done, status(err)
	}
	if err != nil {
		return nil, status(err)
	}
	return &quotav1.RollbackResponse{Revision: result.Revision, Changes: madeBy(changes, result)}, nil
}

// rolledBack is the answer that the rollback of a note's request ID had, nil if there was none.
func (s *Server) rolledBack(ctx context.Context, note store.Note) (*quotav1.RollbackResponse, error) {
	e, err := s.store.Requested(ctx, note)
	if err != nil || e == nil {
		return nil, err
	}
	out := &quotav1.RollbackResponse{Revision: e.Revision}
	err = s.store.Changes(ctx, *e, func(c *quotav1.ResourceChange) bool {
		out.Changes = append(out.Changes, c)
		return true
	})
	if errors.Is(err, store.ErrNoHistory) { // it was too large
		err = nil
	}
	slices.SortFunc(out.Changes, func(a, b *quotav1.ResourceChange) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
	return out, err
}

// madeBy lists the changes that a result has made, without unchanged resources.
func madeBy(changes []store.Change, r store.Result) (out []*quotav1.ResourceChange) {
	for i, c := range changes {
		if r.Outcomes[i] == store.Unchanged {
			continue
		}
		made := &quotav1.ResourceChange{Name: changed(c)}
		if old := r.Before[i]; old != nil {
			made.Before = resource.Of(old)
		}
		if m := r.Resources[i]; m != nil {
			made.After = resource.Of(m)
		}
		out = append(out, made)
	}
	return out
}
