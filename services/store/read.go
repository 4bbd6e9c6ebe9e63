package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Query selects resources of one kind, in the order of their names.
type Query struct {
	Kind resource.Kind
	// Parent has the quotas or limits: tenants/x, plans/x; tenants/*, plans/*: all of them; "": everybody. It has the
	// overrides: tenants/x/limits/y or tenants/x.
	Parent string
	After  string // names after this one; "" = from the first
	Limit  int    // at most so many; 0 = all
}

// List returns the resources that the query selects and the name to put into Query.After for the rest, "" at the end. A
// page shows one revision, two pages may show two. An unreadable resource is left out and logged. Errors: ErrHeld,
// ErrUnavailable.
func (s *Store) List(ctx context.Context, q Query) (page []resource.Message, next string, err error) {
	start, end := s.bounds(q)
	h, rev, err := s.currentHead(ctx)
	if err == nil {
		err = h.held()
	}
	if err != nil {
		return nil, "", err
	}
	err = s.each(ctx, h, rev, start, end, func(name string, m resource.Message, bad error) bool {
		ref, err := resource.Parse(name)
		if err != nil || ref.Kind != q.Kind {
			return true
		}
		if bad != nil {
			s.log.ErrorContext(ctx, "stored resource left out of a list", "error", bad)
			return true
		}
		if q.Limit > 0 && len(page) == q.Limit {
			next = page[len(page)-1].GetName()
			return false
		}
		page = append(page, m)
		return true
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

func (s *Store) bounds(q Query) (start, end string) {
	if q.Kind == resource.Override {
		return s.overrideBounds(q)
	}
	start = s.prefix + q.Kind.Collection() + "/"
	if q.Kind.Child() {
		parents, all := strings.CutSuffix(q.Parent, "*")
		if start = s.prefix + parents; !all {
			start += "/" + q.Kind.Collection() + "/"
		}
	}
	end = clientv3.GetPrefixRangeEnd(start)
	if q.Kind.Child() && q.Parent == "" {
		start, end = s.prefix+"plans/", s.last()
	}
	if q.After != "" {
		start = max(start, s.keyOf(q.After)+"\x00")
	}
	return start, end
}

// overrideBounds is bounds for overrides, whose parent is a limit or a tenant.
func (s *Store) overrideBounds(q Query) (start, end string) {
	start = s.prefix + overrides
	switch {
	case strings.Contains(q.Parent, "/limits/"):
		start += q.Parent + "/overrides/"
	case q.Parent != "" && q.Parent != "tenants/*":
		start += q.Parent + "/"
	}
	end = clientv3.GetPrefixRangeEnd(start)
	if q.After != "" {
		start = max(start, s.keyOf(q.After)+"\x00")
	}
	return start, end
}

// currentHead reads the head, and etcd's revision at which it was read.
func (s *Store) currentHead(ctx context.Context) (h head, rev int64, err error) {
	got, err := s.get(ctx, s.headKey())
	if err != nil {
		return head{}, 0, err
	}
	return headOf(got), got.Header.Revision, nil
}

// overlay returns the staged changes of a head, nil if nothing. They must not be changed.
func (s *Store) overlay(ctx context.Context, h head, rev int64) (overlay, error) {
	if h.Staged == "" {
		return nil, nil
	}
	if own := s.ownOf(h); own != nil {
		return own.overlay(), nil
	}
	chunks, err := s.chunks(ctx, h, rev)
	if err != nil {
		return nil, err
	}
	return overlaid(chunks), nil
}

// each calls visit for what the head says is in [start, end), in the order of the keys and at one etcd revision, until
// it returns false. bad says why a stored value cannot be read; the resource is nil then.
func (s *Store) each(ctx context.Context, h head, rev int64, start, end string,
	visit func(name string, m resource.Message, bad error) bool) error {
	over, err := s.overlay(ctx, h, rev)
	if err != nil {
		return err
	}
	keys := make([]string, 0, len(over))
	for name := range over {
		keys = append(keys, s.keyOf(name))
	}
	slices.Sort(keys)
	on := true
	// before visits what is staged with keys below the limit.
	before := func(limit string) {
		for on && len(keys) > 0 && keys[0] < limit {
			name := s.nameOf([]byte(keys[0]))
			if m := over[name]; m != nil && keys[0] >= start {
				on = visit(name, proto.Clone(m).(resource.Message), nil)
			}
			keys = keys[1:]
		}
	}
	err = s.scan(ctx, start, end, rev, func(kv *mvccpb.KeyValue) (bool, error) {
		name := s.nameOf(kv.Key)
		before(string(kv.Key))
		if _, replaced := over[name]; !replaced && on && s.ours(name) {
			m, bad := s.decode(kv)
			on = visit(name, m, bad)
		}
		return on, nil
	})
	if err == nil {
		before(end)
	}
	return err
}

// Names calls visit for the name of each resource of a kind, of one parent or of all (""), and reads no values. Errors:
// ErrCorrupt, ErrUnavailable.
func (s *Store) Names(ctx context.Context, kind resource.Kind, parent string, visit func(resource.Ref)) error {
	h, rev, err := s.currentHead(ctx)
	if err != nil {
		return err
	}
	over, err := s.overlay(ctx, h, rev)
	if err != nil {
		return err
	}
	start, end := s.bounds(Query{Kind: kind, Parent: parent})
	see := func(name string) {
		if ref, err := resource.Parse(name); err == nil && ref.Kind == kind {
			visit(ref)
		}
	}
	for name, m := range over {
		if key := s.keyOf(name); m != nil && key >= start && key < end {
			see(name)
		}
	}
	return s.scan(ctx, start, end, rev, func(kv *mvccpb.KeyValue) (bool, error) {
		name := s.nameOf(kv.Key)
		if _, replaced := over[name]; !replaced && s.ours(name) {
			see(name)
		}
		return true, nil
	}, clientv3.WithKeysOnly())
}

// scan calls visit for the keys in [start, end) in order, page by page at one revision (0 = now), until it returns
// false or an error.
func (s *Store) scan(ctx context.Context, start, end string, rev int64,
	visit func(*mvccpb.KeyValue) (bool, error), also ...clientv3.OpOption) error {
	apart := s.prefix + overrides
	for many := int64(pageKeys); start < end; many = min(2*many, overridePage) {
		to, page := end, int64(pageKeys)
		if strings.HasPrefix(start, apart) {
			to, page = min(end, clientv3.GetPrefixRangeEnd(apart)), many
		}
		got, err := s.get(ctx, start, append(slices.Clone(also), clientv3.WithRange(to), clientv3.WithRev(rev),
			clientv3.WithLimit(page))...)
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			if on, err := visit(kv); err != nil || !on {
				return err
			}
		}
		if rev == 0 { // else the header has a later one
			rev = got.Header.Revision
		}
		if !got.More {
			start = to
			continue
		}
		start = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
	return nil
}

// Snapshot is the whole configuration at one revision.
type Snapshot struct {
	// Revision is the configuration's: 0 when nothing was ever written.
	Revision int64
	// Resources are overrides, then the others in the order of their names: plans, each with its limits and quotas,
	// pools, then tenants as plans.
	Resources []*quotav1.Resource
	// Unreadable are the names of stored values that cannot be read, with the reason.
	Unreadable map[string]error
	// Held says why the configuration is held, "" = it is not. Missing is the number of resources in the head's count
	// that are not in etcd.
	Held    string
	Missing int

	// seen is etcd's own revision at the reading, cluster its ID.
	seen    int64
	cluster uint64
}

// Snapshot reads the whole configuration at one revision. Errors: ErrCorrupt (of a staged change), ErrUnavailable.
func (s *Store) Snapshot(ctx context.Context) (Snapshot, error) {
	for {
		snap, err := s.snapshot(ctx)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return snap, err
		}
	}
}

func (s *Store) snapshot(ctx context.Context) (Snapshot, error) {
	got, err := s.get(ctx, s.headKey())
	if err != nil {
		return Snapshot{}, err
	}
	h := headOf(got)
	snap := Snapshot{Revision: h.Revision, Held: h.Held, Unreadable: map[string]error{},
		seen: got.Header.Revision, cluster: got.Header.ClusterId}
	err = s.each(ctx, h, snap.seen, s.first(), s.last(), func(name string, m resource.Message, bad error) bool {
		if bad != nil {
			snap.Unreadable[name] = bad
		} else {
			snap.Resources = append(snap.Resources, resource.Of(m))
		}
		return true
	})
	if err != nil {
		return Snapshot{}, err
	}
	// Kinds that this version does not know are in the count and not in what was read: only a difference of all keys
	// counts.
	if found := len(snap.Resources) + len(snap.Unreadable); h.raw != "" && found < h.Count {
		snap.Missing, err = s.missing(ctx, h, snap.seen)
	}
	return snap, err
}

// missing returns by how many the stored keys are fewer than the head says. The head does not count staged keys, so
// that such a head is not judged.
func (s *Store) missing(ctx context.Context, h head, rev int64) (int, error) {
	if h.Staged != "" {
		return 0, nil
	}
	got, err := s.get(ctx, s.first(), clientv3.WithRange(s.last()), clientv3.WithRev(rev), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return max(h.Count-int(got.Count), 0), nil
}

// ours reports whether a name is of one of the four kinds that this version knows.
func (s *Store) ours(name string) bool {
	_, err := resource.Parse(name)
	return err == nil
}
