package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	// AllowMissing makes the Delete of what does not exist a success.
	AllowMissing bool
	// Force makes a Delete take with it what needs the resource: quotas and limits
	// of a tenant; quotas of a pool, limits on that pool alone, and its mention in
	// limits on several pools. Without it such a Delete is ErrInUse.
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

// Apply makes all the changes in one transaction, or none. Changes that change
// nothing are left out; if none is left nothing is written and the revision
// stands. Etag, update time and status within the resources given are ignored.
//
// Errors: *ChangeError with ErrNotFound, ErrExists, ErrEtag, ErrReference,
// ErrInUse or ErrBadChange; ErrTooLarge; ErrUnavailable. After ErrUnavailable the
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
		head, view, err := s.load(ctx, changes)
		if err != nil {
			return Result{}, err
		}
		p, err := decide(view, changes)
		if err != nil {
			return Result{}, err
		}
		if p.empty() {
			return p.result(head, nil), nil
		}
		now := timestamppb.Now()
		ops, err := s.operations(p, now)
		if err != nil {
			return Result{}, err
		}
		if !write {
			return p.result(head, nil), nil
		}
		revision, err := s.commit(ctx, head, ops)
		if err == nil {
			return p.result(revision, now), nil
		}
		if !errors.Is(err, errRaced) {
			return Result{}, err
		}
		backOff(ctx, attempt)
	}
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

// errRaced says that another process moved the head since it was read.
var errRaced = errors.New("another writer was first")

// commit does the operations if the head is still at the revision given.
func (s *Store) commit(ctx context.Context, head int64, ops []clientv3.Op) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	done, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.headKey()), "=", head)).
		Then(ops...).Commit()
	if err != nil {
		return 0, fmt.Errorf("the change may or may not have been made, read it again: %w", failed(ctx, err))
	}
	if !done.Succeeded {
		return 0, errRaced
	}
	return done.Header.Revision, nil
}

// operations returns what writes the plan, the new head first.
func (s *Store) operations(p *plan, now *timestamppb.Timestamp) ([]clientv3.Op, error) {
	ops := []clientv3.Op{clientv3.OpPut(s.headKey(), now.AsTime().Format(time.RFC3339Nano))}
	size := 0
	for _, name := range p.order {
		key, m := s.prefix+name, p.final[name]
		size += len(key)
		if m == nil {
			ops = append(ops, clientv3.OpDelete(key))
			continue
		}
		m = resource.Spec(m)
		resource.SetOutput(m, "", now)
		value, err := proto.Marshal(resource.Of(m))
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", name, ErrBadChange, err)
		}
		size += len(value)
		ops = append(ops, clientv3.OpPut(key, string(value)))
	}
	if size > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d go into one", ErrTooLarge, size, MaxBytes)
	}
	if len(ops) > maxOps {
		return nil, fmt.Errorf("%w: it takes %d operations, etcd allows %d; "+
			"delete some of what depends on it first", ErrTooLarge, len(ops), maxOps)
	}
	return ops, nil
}

// load reads the head, then all that the changes need: what they name, what that
// refers to and, for deletions, what may refer to it.
func (s *Store) load(ctx context.Context, changes []Change) (head int64, v view, err error) {
	got, err := s.get(ctx, s.headKey())
	if err != nil {
		return 0, nil, err
	}
	v = make(view)
	if err := s.loadKeys(ctx, wanted(changes), v); err != nil {
		return 0, nil, err
	}
	for _, c := range changes {
		if c.Op != Delete {
			continue
		}
		if err := s.loadDependants(ctx, c.Name, v); err != nil {
			return 0, nil, err
		}
	}
	return modRevision(got), v, nil
}

// loadDependants reads what refers to a name.
func (s *Store) loadDependants(ctx context.Context, name string, v view) error {
	to, start, end := s.dependants(name)
	return s.scan(ctx, start, end, 0, func(kv *mvccpb.KeyValue) (bool, error) {
		return true, s.see(kv, func(m resource.Message) {
			if refers(m, to) {
				v[m.GetName()] = m
			}
		})
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
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	got, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return failed(ctx, err)
	}
	for _, r := range got.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			if err := s.see(kv, func(m resource.Message) { v[m.GetName()] = m }); err != nil {
				return err
			}
		}
	}
	return nil
}

// see decodes a value and passes it on, if it is of a kind that this version
// knows. A corrupt one stops the change: what it refers to cannot be told.
func (s *Store) see(kv *mvccpb.KeyValue, visit func(resource.Message)) error {
	if !s.ours(kv) {
		return nil
	}
	m, err := s.decode(kv)
	if err == nil {
		visit(m)
	}
	return err
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

// backOff waits a random time that grows with the attempt, up to 64 ms.
func backOff(ctx context.Context, attempt int) {
	pause(ctx, rand.N(time.Millisecond<<min(attempt, 6)))
}
