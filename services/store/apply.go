package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/services/store/resource"
)

// Op says what a Change does.
type Op uint8

const (
	Put    Op = iota // create or replace
	Create           // must not exist
	Update           // must exist
	Delete           // must exist, unless AllowMissing
)

// Change is one step of an Apply.
type Change struct {
	Op       Op
	Resource resource.Message // what to store; not with Delete
	Name     string           // with Delete only: what to delete
	// Etag that the stored resource must have; "" = any.
	Etag string
	// Declared makes a Put or Update of what is stored already Unchanged, whatever the
	// etag: for documents that declare a state. Without it the etag must match: of two
	// callers that read a number, add one and write the same result, one is refused.
	Declared bool
	// AllowMissing makes the Delete of what does not exist a success.
	AllowMissing bool
	// Force makes a Delete also delete what needs the resource: quotas and limits of a
	// tenant; quotas of a pool, and limits on that pool alone. Limits on several pools
	// lose that pool. Without Force such a Delete fails with ErrInUse.
	Force bool
}

func (c Change) name() string {
	if c.Op == Delete {
		return c.Name
	}
	return c.Resource.GetName()
}

// Outcome says what became of a Change.
type Outcome uint8

// Outcomes. Unchanged is also the Delete of what did not exist.
const (
	Created Outcome = iota + 1
	Updated
	Unchanged
	Deleted
)

// Result of an Apply.
type Result struct {
	// Revision of the configuration after it.
	Revision int64
	// Outcomes and Resources are in the order of the changes. A Resource is as
	// stored, with etag and update time; nil for a Delete.
	Outcomes  []Outcome
	Resources []resource.Message
	// Before is what was stored under the names of the changes, in their order; nil where
	// nothing was. It must not be changed.
	Before []resource.Message
	// Removed are names that a forced Delete took along.
	Removed []string
}

// ChangeError says which change of an Apply was refused. Err wraps one of the
// store's errors.
type ChangeError struct {
	Index int // in the changes given
	Name  string
	Err   error
}

func (e *ChangeError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *ChangeError) Unwrap() error { return e.Err }

// Apply makes all the changes in one step, or none. Changes that change nothing are
// left out; if none is left nothing is written and the revision stands. Etag, update
// time and status within the resources given are ignored.
//
// Errors: *ChangeError with ErrNotFound, ErrExists, ErrEtag, ErrReference,
// ErrInUse or ErrBadChange; ErrTooLarge; ErrHeld; ErrUnavailable. After ErrUnavailable the
// changes may have been made, if etcd's answer was lost: all of them or none.
func (s *Store) Apply(ctx context.Context, changes []Change) (Result, error) {
	return s.apply(ctx, changes, true)
}

// Check answers as Apply would, but writes nothing: what would be created has no
// etag.
func (s *Store) Check(ctx context.Context, changes []Change) (Result, error) {
	return s.apply(ctx, changes, false)
}

func (s *Store) apply(ctx context.Context, changes []Change, write bool) (Result, error) {
	if err := wellFormed(changes); err != nil {
		return Result{}, err
	}
	select {
	case <-s.writer:
		defer func() { s.writer <- struct{}{} }()
	case <-ctx.Done():
		return Result{}, fmt.Errorf("%w: waited for other writers: %w", ErrUnavailable, ctx.Err())
	}
	for attempt := 0; ; attempt++ {
		r, err := s.attempt(ctx, changes, write)
		if !errors.Is(err, errRaced) {
			return r, err
		}
		backOff(ctx, attempt)
	}
}

// attempt decides on the basis of what is stored now, and writes if write is set.
// errRaced means that another writer was first: the caller tries again.
func (s *Store) attempt(ctx context.Context, changes []Change, write bool) (Result, error) {
	h, err := s.headAfterStage(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := h.held(); err != nil {
		return Result{}, err
	}
	stored, err := s.load(ctx, h, changes)
	if err != nil {
		return Result{}, err
	}
	p, err := decide(stored, changes)
	if err != nil {
		return Result{}, err
	}
	if p.empty() {
		return p.result(h.Revision, nil), nil
	}
	now := time.Now()
	next := h
	next.Revision, next.Prev = h.after(0, now), h.Revision
	set := p.set(next.Revision, timestamppb.New(now))
	if err := checkSize(set); err != nil {
		return Result{}, err
	}
	if !write {
		return p.result(h.Revision, nil), nil
	}
	if next.Count, err = s.count(ctx, h); err != nil {
		return Result{}, err
	}
	next.Count += p.growth()
	if err := s.write(ctx, h, next, set); err != nil {
		return Result{}, err
	}
	return p.result(next.Revision, timestamppb.New(now)), nil
}

// write puts the next head and its changes in force: in one transaction where they
// fit, otherwise by staging them first.
func (s *Store) write(ctx context.Context, h, next head, set changeSet) error {
	if size(set) <= MaxBytes && len(set.Resources)+len(set.Deleted) < maxOps {
		ops, err := s.operations(set)
		if err != nil {
			return err
		}
		return s.commit(ctx, h, append(ops, s.putHead(next)))
	}
	next, err := s.stage(ctx, next, set)
	if err != nil {
		return err
	}
	if err := s.commit(ctx, h, []clientv3.Op{s.putHead(next)}, s.staged(next)); err != nil {
		if errors.Is(err, errRaced) { // it was not put in force
			_ = s.do(ctx, s.dropStage(next.Staged)) // or Tidy will
		}
		return err
	}
	// The changes are in force now. If carrying them out fails, the next writer does it.
	if _, err := s.headAfterStage(ctx); err != nil {
		slog.WarnContext(ctx, "a change is in force and not yet carried out; the next change will", "error", err)
	}
	return nil
}

// count is how many resources are stored under a head.
func (s *Store) count(ctx context.Context, h head) (int, error) {
	if h.raw != "" && h.Count >= 0 {
		return h.Count, nil
	}
	got, err := s.get(ctx, s.first(), clientv3.WithRange(s.last()), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(got.Count), nil
}

func wellFormed(changes []Change) error {
	if len(changes) > MaxChanges {
		return fmt.Errorf("%w: %d changes, at most %d go into one", ErrTooLarge, len(changes), MaxChanges)
	}
	seen := make(map[string]bool, len(changes))
	for i, c := range changes {
		if c.Op != Delete && c.Resource == nil {
			return &ChangeError{Index: i, Err: fmt.Errorf("%w: no resource", ErrBadChange)}
		}
		name := c.name()
		if _, err := resource.Parse(name); err != nil {
			return &ChangeError{Index: i, Name: name, Err: fmt.Errorf("%w: %w", ErrBadChange, err)}
		}
		if seen[name] {
			return &ChangeError{Index: i, Name: name, Err: fmt.Errorf("%w: named twice", ErrBadChange)}
		}
		seen[name] = true
	}
	return nil
}

// checkSize refuses what is too large for etcd.
func checkSize(set changeSet) error {
	total := 0
	for _, r := range set.Resources {
		n := proto.Size(r)
		if n > MaxValue {
			return fmt.Errorf("%s: %w: %d bytes, a resource has at most %d", resource.Name(r), ErrTooLarge, n, MaxValue)
		}
		total += n
	}
	if total > MaxStaged {
		return fmt.Errorf("%w: %d bytes, at most %d go into one change", ErrTooLarge, total, MaxStaged)
	}
	return nil
}

func size(set changeSet) int {
	total := 0
	for _, r := range set.Resources {
		total += proto.Size(r) + len(resource.Name(r))
	}
	for _, name := range set.Deleted {
		total += len(name)
	}
	return total
}

// operations returns what writes changes into the resources' own keys.
func (s *Store) operations(set changeSet) ([]clientv3.Op, error) {
	var ops []clientv3.Op
	for _, r := range set.Resources {
		value, err := proto.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", resource.Name(r), ErrBadChange, err)
		}
		ops = append(ops, clientv3.OpPut(s.prefix+resource.Name(r), string(value)))
	}
	for _, name := range set.Deleted {
		ops = append(ops, clientv3.OpDelete(s.prefix+name))
	}
	return ops, nil
}

// load reads all that the changes need: what they name, what that refers to and, for
// deletions, what may refer to it. The head, read before, guards it.
func (s *Store) load(ctx context.Context, h head, changes []Change) (view, error) {
	v := make(view)
	names := wanted(changes)
	load := s.loadKeys
	if len(names) > maxOps && h.Count >= 0 && h.Count <= manyKeys*len(names) {
		load = s.loadAll
	}
	if err := load(ctx, names, v); err != nil {
		return nil, err
	}
	for _, c := range changes {
		if c.Op != Delete {
			continue
		}
		if err := s.loadDependants(ctx, c.Name, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// loadDependants reads what refers to a name.
func (s *Store) loadDependants(ctx context.Context, name string, v view) error {
	to, start, end := s.dependants(name)
	return s.scan(ctx, start, end, 0, func(kv *mvccpb.KeyValue) (bool, error) {
		s.decodeKnown(kv, func(m resource.Message) {
			if refers(m, to) {
				v[m.GetName()] = m
			}
		})
		return true, nil
	})
}

func wanted(changes []Change) []string {
	var names []string
	seen := make(map[string]bool)
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, c := range changes {
		add(c.name())
		if c.Op != Delete {
			for _, r := range resource.References(c.Resource) {
				add(r)
			}
		}
	}
	return names
}

// manyKeys: all resources are read instead of those that are needed, when there are at most so
// many times as many. A ranged read returns pageKeys at a time, one by name maxOps.
const manyKeys = pageKeys / maxOps

// loadAll reads all that is stored, and keeps what the names are.
func (s *Store) loadAll(ctx context.Context, names []string, v view) error {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	return s.scan(ctx, s.first(), s.last(), 0, func(kv *mvccpb.KeyValue) (bool, error) {
		if wanted[s.nameOf(kv.Key)] {
			s.decodeKnown(kv, func(m resource.Message) { v[m.GetName()] = m })
		}
		return true, nil
	})
}

// loadKeys reads the names, as many in one request as etcd allows.
func (s *Store) loadKeys(ctx context.Context, names []string, v view) error {
	for len(names) > 0 {
		n := min(len(names), maxOps)
		ops := make([]clientv3.Op, n)
		for i, name := range names[:n] {
			ops[i] = clientv3.OpGet(s.prefix + name)
		}
		names = names[n:]
		if err := s.loadOps(ctx, ops, v); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) loadOps(ctx context.Context, ops []clientv3.Op, v view) error {
	got, err := s.txn(ctx, ops...)
	if err != nil {
		return err
	}
	for _, r := range got.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			s.decodeKnown(kv, func(m resource.Message) { v[m.GetName()] = m })
		}
	}
	return nil
}

// decodeKnown decodes a value and passes it to visit, if this version knows its kind. A
// value that cannot be read counts as an empty resource of its name: it can be replaced
// and deleted, and references to it stay valid.
func (s *Store) decodeKnown(kv *mvccpb.KeyValue, visit func(resource.Message)) {
	ref, err := resource.Parse(s.nameOf(kv.Key))
	if err != nil {
		return
	}
	m, err := s.decode(kv)
	if err != nil {
		m = ref.Kind.New()
		resource.SetName(m, ref.String())
		resource.SetOutput(m, Etag(kv.ModRevision), nil)
	}
	visit(m)
}

// dependants returns a name taken apart and the keys that may refer to it.
func (s *Store) dependants(name string) (ref resource.Ref, start, end string) {
	ref, err := resource.Parse(name)
	switch {
	case err != nil || ref.Kind.Child():
		return ref, "", ""
	case ref.Kind == resource.Tenant:
		start = s.prefix + name + "/"
	default:
		start = s.prefix + "tenants/"
	}
	return ref, start, clientv3.GetPrefixRangeEnd(start)
}
