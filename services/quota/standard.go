package quota

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxMerges bounds how often an update with a mask is done over because somebody else was faster.
	maxMerges = 16
)

func (s *Server) get(
	ctx context.Context, kind resource.Kind, request proto.Message, name string,
) (resource.Message, error) {
	if err := named(request, "name", name, kind); err != nil {
		return nil, err
	}
	m, err := s.store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	s.withStatus(ctx, m)
	return m, nil
}

// named checks a request and that its field holds a name of the kind.
func named(request proto.Message, field, name string, kind resource.Kind) error {
	if err := valid.Message(request); err != nil {
		return err
	}
	ref, err := resource.Parse(name)
	if err != nil {
		return valid.Wrong(field, "%v", err)
	}
	if ref.Kind != kind {
		return valid.Wrong(field, "%s names a %s, want a %s", wording.Quote(name), ref.Kind, kind)
	}
	return nil
}

// listing has the common methods of the List requests.
type listing interface {
	proto.Message
	GetPageSize() int32
	GetPageToken() string
}

// list returns a page and the token of the next. parent is "" for a kind that has none, tenants/* or plans/* for all
// of them.
func (s *Server) list(
	ctx context.Context, kind resource.Kind, r listing, parent string,
) ([]resource.Message, string, error) {
	if err := valid.Message(r); err != nil {
		return nil, "", status(err)
	}
	q := store.Query{Kind: kind, Limit: int(r.GetPageSize())}
	if q.Limit == 0 {
		q.Limit = defaultPage
	}
	q.Limit = min(q.Limit, maxPage)
	if q.Parent = parent; kind.Child() && !everyParent(parent) {
		if err := checkParent(kind, parent); err != nil {
			return nil, "", status(err)
		}
	}
	scope := kind.Collection() + " " + parent + " "
	var err error
	if q.After, err = tokenOf(scope, r.GetPageToken()); err != nil {
		return nil, "", status(err)
	}
	page, next, err := s.store.List(ctx, q)
	if err != nil {
		return nil, "", status(err)
	}
	if len(page) == 0 && kind.Child() && !everyParent(parent) && q.After == "" {
		if err := s.checkStored(ctx, q.Parent); err != nil {
			return nil, "", status(err)
		}
	}
	if next != "" {
		next = base64.RawURLEncoding.EncodeToString([]byte(scope + next))
	}
	s.withStatus(ctx, page...)
	return page, next, nil
}

// tokenOf returns the name after which a page of a list begins; "" is the first page.
func tokenOf(scope, token string) (after string, err error) {
	if token == "" {
		return "", nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(token)
	after, ok := strings.CutPrefix(string(decoded), scope)
	if err != nil || !ok {
		return "", valid.Wrong("page_token", "is not of this list: give the next_page_token of the same request")
	}
	return after, nil
}

// checkParent refuses a name that has no resources of a kind.
func checkParent(kind resource.Kind, parent string) error {
	ref, err := resource.Parse(parent)
	of := []resource.Kind{resource.Tenant, resource.Plan}
	if kind == resource.Override {
		of[1] = resource.Limit
	}
	switch {
	case err != nil:
		return valid.Wrong("parent", "%v", err)
	case !slices.Contains(of, ref.Kind):
		return valid.Wrong("parent", "%s names a %s, want a %s or a %s", wording.Quote(parent), ref.Kind, of[0], of[1])
	}
	return nil
}

func everyParent(name string) bool { return name == "tenants/*" || name == "plans/*" }

// tenants returns those of the tenants that are stored, on one page.
func (s *Server) tenants(ctx context.Context, r listing, names []string) (page []resource.Message, err error) {
	if err := valid.Message(r); err != nil {
		return nil, err
	}
	for _, name := range names {
		m, err := s.store.Get(ctx, "tenants/"+name)
		switch {
		case err == nil:
			page = append(page, m)
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	s.withStatus(ctx, page...)
	return page, nil
}

// typed gives a page its type.
func typed[T resource.Message](page []resource.Message) []T {
	out := make([]T, len(page))
	for i, m := range page {
		out[i] = m.(T)
	}
	return out
}

// creating has the common methods of the Create requests.
type creating interface {
	proto.Message
	GetValidateOnly() bool
}

func (s *Server) create(
	ctx context.Context, r creating, m resource.Message, parent, id string,
) (resource.Message, error) {
	kind, field := resource.KindOf(m), fieldOf(m)
	if !m.ProtoReflect().IsValid() {
		return nil, valid.Message(r) // says that the field is required
	}
	m = proto.Clone(m).(resource.Message)
	if err := setName(m, kind, parent, id); err != nil {
		return nil, err
	}
	if err := valid.Request(replaced(r, field, m), field, m); err != nil {
		return nil, err
	}
	return s.write(ctx, "create", store.Change{Op: store.Create, Resource: m}, r.GetValidateOnly())
}

// setName gives a resource the name that parent and ID make; a name that it has already must be the same.
func setName(m resource.Message, kind resource.Kind, parent, id string) error {
	field := fieldOf(m)
	if id == "" {
		if m.GetName() == "" {
			return valid.Wrong(field+"_id", "must be set, or %s.name", field)
		}
	} else {
		name := kind.Collection() + "/" + id
		if kind.Child() {
			name = parent + "/" + name
		}
		if m.GetName() != "" && m.GetName() != name {
			return valid.Wrong(field+".name", "%s is not %s, which parent and %s_id make",
				wording.Quote(m.GetName()), wording.Quote(name), field)
		}
		r := m.ProtoReflect()
		r.Set(r.Descriptor().Fields().ByName("name"), protoreflect.ValueOfString(name))
	}
	if kind.Child() && parent != "" && !strings.HasPrefix(m.GetName(), parent+"/") {
		return valid.Wrong(field+".name", "%s is not of parent %s", wording.Quote(m.GetName()),
			wording.Quote(parent))
	}
	return nil
}

// updating has the common methods of the four Update requests.
type updating interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
	GetAllowMissing() bool
	GetValidateOnly() bool
}

func (s *Server) update(ctx context.Context, r updating, m resource.Message) (resource.Message, error) {
	if !m.ProtoReflect().IsValid() {
		return nil, valid.Message(r)
	}
	paths := r.GetUpdateMask().GetPaths()
	if len(paths) == 0 {
		return s.replace(ctx, r, m, m.GetEtag())
	}
	if len(paths) == 1 && paths[0] == "*" {
		paths = allPaths(m)
	}
	if err := checkMask(m, paths); err != nil {
		return nil, err
	}
	if err := named(&emptypb.Empty{}, fieldOf(m)+".name", m.GetName(), resource.KindOf(m)); err != nil {
		return nil, err
	}
	var err error
	for range maxMerges {
		var out resource.Message
		if out, err = s.mergeOnce(ctx, r, m, paths); err == nil {
			return out, nil
		}
		if !errors.Is(err, store.ErrEtag) || m.GetEtag() != "" {
			return nil, err
		}
	}
	return nil, fmt.Errorf("others keep changing it: %w", err)
}

// mergeOnce reads, merges and writes if nobody wrote in between.
func (s *Server) mergeOnce(
	ctx context.Context, r updating, m resource.Message, paths []string,
) (resource.Message, error) {
	old, err := s.store.Get(ctx, m.GetName())
	if errors.Is(err, store.ErrNotFound) && r.GetAllowMissing() {
		return s.replace(ctx, r, m, m.GetEtag())
	}
	if err != nil {
		return nil, err
	}
	etag := m.GetEtag()
	if etag == "" {
		etag = old.GetEtag()
	}
	if d, is := r.(interface{ GetDropEntries() bool }); is && !d.GetDropEntries() {
		if err := dropped(old, m, paths); err != nil {
			return nil, err
		}
	}
	return s.replace(ctx, r, merged(old, m, paths), etag)
}

// replace writes a whole resource in place of the stored one.
func (s *Server) replace(ctx context.Context, r updating, m resource.Message, etag string) (resource.Message, error) {
	field := fieldOf(m)
	if err := valid.Request(replaced(r, field, m), field, m); err != nil {
		return nil, err
	}
	op := store.Update
	if r.GetAllowMissing() {
		op = store.Put
	}
	return s.write(ctx, "update", store.Change{Op: op, Resource: m, Etag: etag}, r.GetValidateOnly())
}

// deleting has the common methods of the four Delete requests.
type deleting interface {
	proto.Message
	GetName() string
	GetEtag() string
	GetAllowMissing() bool
	GetValidateOnly() bool
	GetRequestId() string
}

func (s *Server) remove(ctx context.Context, kind resource.Kind, r deleting, force bool) (*emptypb.Empty, error) {
	if err := named(r, "name", r.GetName(), kind); err != nil {
		return nil, status(err)
	}
	change := store.Change{Op: store.Delete, Name: r.GetName(), Etag: r.GetEtag(), AllowMissing: r.GetAllowMissing(),
		Force: force}
	if _, err := s.commit(ctx, s.noteOf(ctx, "delete", r), []store.Change{change}, r.GetValidateOnly()); err != nil {
		return nil, status(err)
	}
	return &emptypb.Empty{}, nil
}

// write makes one change and returns the resource as stored.
func (s *Server) write(ctx context.Context, action string, c store.Change, validateOnly bool) (resource.Message,
	error) {
	c.Resource = resource.Spec(c.Resource)
	resource.FillDefaults(c.Resource)
	result, err := s.commit(ctx, s.note(ctx, action), []store.Change{c}, validateOnly)
	if err != nil {
		return nil, err
	}
	s.withStatus(ctx, result.Resources[0])
	return result.Resources[0], nil
}

func (s *Server) commit(ctx context.Context, note store.Note, changes []store.Change, validateOnly bool) (
	store.Result, error) {
	if err := s.unlessMade(ctx, &note, s.checkChanges(ctx, changes)); err != nil {
		return store.Result{}, err
	}
	return s.apply(ctx, note, changes, validateOnly)
}

// unlessMade is the refusal of a request, nil if its change was made before: the request passed the checks
// then, and is answered as it was then. The note is bound to the change, so that it can have no other effect.
func (s *Server) unlessMade(ctx context.Context, note *store.Note, refusal error) error {
	if refusal == nil {
		return nil
	}
	made, err := s.store.Requested(ctx, *note)
	switch {
	case err != nil:
		return err
	case made == nil:
		return refusal
	}
	note.IfRevision = made.Revision
	return nil
}

func (s *Server) apply(ctx context.Context, note store.Note, changes []store.Change, validateOnly bool) (
	store.Result, error) {
	if validateOnly {
		return s.store.Check(ctx, note, changes)
	}
	if err := s.announce(ctx, note, changes); err != nil {
		return store.Result{}, err
	}
	began := time.Now()
	result, err := s.store.Apply(ctx, note, changes)
	if err == nil && !result.Repeated {
		s.record(note, changes, result)
		if s.stored != nil {
			s.stored(note.Action, len(changes), result.Revision, began)
		}
	}
	return result, err
}

// fieldOf names the field of a request that holds a resource of the kind.
func fieldOf(m resource.Message) string { return strings.ToLower(resource.KindOf(m).String()) }

// replaced returns a copy of a request with another resource in the field, so
// that rules are checked, and fields named, as if the caller had sent that one.
func replaced(request proto.Message, field string, m resource.Message) proto.Message {
	c := proto.Clone(request)
	r := c.ProtoReflect()
	r.Set(r.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOfMessage(m.ProtoReflect()))
	return c
}
