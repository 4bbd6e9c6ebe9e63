package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/services/store/resource"
)

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
	// Outcomes and Resources are in the order of the changes. A Resource is as stored, with etag and update time; nil
	// for a Delete.
	Outcomes  []Outcome
	Resources []resource.Message
	// Before has the stored resources under the names of the changes, in their order; nil where nothing was. It must
	// not be changed.
	Before []resource.Message
	// Removed are names that a forced Delete took along.
	Removed []string
	// Repeated says that a change with the same request ID had been made: this is its result, and nothing was changed
	// now.
	Repeated bool
}

// ChangeError says which change of an Apply was refused. Err wraps one of the store's errors.
type ChangeError struct {
	Index int // in the changes given
	Name  string
	Err   error
}

func (e *ChangeError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *ChangeError) Unwrap() error { return e.Err }

// ChangeErrors are all the changes of an Apply that were refused, in the order of the changes.
type ChangeErrors []*ChangeError

// Error names the first few and counts the rest.
func (e ChangeErrors) Error() string {
	const shown = 5
	words := make([]string, 0, shown)
	for _, one := range e[:min(len(e), shown)] {
		words = append(words, one.Error())
	}
	text := strings.Join(words, "; ")
	if rest := len(e) - shown; rest > 0 {
		text += fmt.Sprintf("; and %d more", rest)
	}
	return text
}

// Unwrap returns the errors, for errors.Is and errors.As.
func (e ChangeErrors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

// OrNil is the error of an Apply in which e were refused: nil if none was, the error itself if one was.
func (e ChangeErrors) OrNil() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

// Apply makes all the changes in one step, or none. Changes that change nothing are left out; if none is left nothing
// is written and the revision stands. Etag, update time and status within the resources given are ignored.
//
// Errors: *ChangeError, or ChangeErrors of all that is refused, with ErrNotFound, ErrExists, ErrEtag, ErrOwned,
// ErrReference, ErrInUse or ErrBadChange; ErrRevision; ErrRequest; ErrTooLarge; ErrHeld; ErrUnavailable. After
// ErrUnavailable the changes may have been made, if etcd's answer was lost: all of them or none. With a request ID in
// the note the same call can be repeated then.
func (s *Store) Apply(ctx context.Context, note Note, changes []Change) (Result, error) {
	return s.apply(ctx, note, changes, true)
}

// Check answers as Apply would, but writes nothing: what would be created has no etag.
func (s *Store) Check(ctx context.Context, note Note, changes []Change) (Result, error) {
	return s.apply(ctx, note, changes, false)
}

func (s *Store) apply(ctx context.Context, note Note, changes []Change, write bool) (Result, error) {
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
		r, err := s.attempt(ctx, note, changes, write)
		if !errors.Is(err, errRaced) {
			return r, err
		}
		backOff(ctx, attempt)
	}
}

// attempt decides on the basis of what is stored now, and writes if write is set. errRaced means that another writer
// was first: the caller tries again.
func (s *Store) attempt(ctx context.Context, note Note, changes []Change, write bool) (Result, error) {
	h, err := s.headAfterStage(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := h.held(); err != nil {
		return Result{}, err
	}
	if done, err := s.Requested(ctx, note); err != nil || done != nil {
		return s.repeat(ctx, h, done, changes, err)
	}
	if err := note.expects(h); err != nil {
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
	if err := set.checkSize(changes); err != nil {
		return Result{}, err
	}
	if !write {
		return p.result(h.Revision, nil), nil
	}
	if next.Count, err = s.count(ctx, h); err != nil {
		return Result{}, err
	}
	next.Count += p.growth()
	r, err := newRecord(note, h, next, now, stored, set)
	if err != nil {
		return Result{}, err
	}
	if err := s.write(ctx, h, next, set, r); err != nil {
		return Result{}, err
	}
	return p.result(next.Revision, timestamppb.New(now)), nil
}

// write puts the next head, its changes and their record in force: in one transaction where they fit, otherwise by
// staging them first.
func (s *Store) write(ctx context.Context, h, next head, set changeSet, r record) error {
	history, err := s.retain(ctx, h, &next, &r)
	if err != nil {
		return err
	}
	keys := len(set.Resources) + len(set.Deleted) + len(r.parts) + len(history.ops)
	if set.bytes+int(r.Bytes) <= MaxBytes && keys < maxOps {
		ops, err := s.operations(set)
		if err != nil {
			return err
		}
		ops = append(append(ops, s.putParts(r)...), history.ops...)
		return s.commit(ctx, h, append(ops, s.putHead(next)), history.when...)
	}
	next, chunks, err := s.stage(ctx, next, set)
	if err == nil {
		err = s.stageParts(ctx, r)
	}
	if err != nil {
		return err
	}
	own := &ownStage{next.Staged, chunks, sync.OnceValue(func() overlay { return overlaid(chunks) }),
		make(chan struct{})}
	s.own.Store(own)
	conditions := append(slices.Concat(history.when, s.partsThere(r)), s.staged(next))
	if err := s.commit(ctx, h, append(history.ops, s.putHead(next)), conditions...); err != nil {
		s.disown(own)
		if errors.Is(err, errRaced) { // it was not put in force
			_, _ = s.txn(ctx, s.dropStage(next.Staged), s.dropParts(r.id)) // or Tidy will
		}
		return err
	}
	go s.carryOutOwn(context.WithoutCancel(ctx), own) // the changes are in force now: the caller need not wait
	return nil
}

// count returns the number of resources that are stored under a head.
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

// checkSize measures a change set, and refuses what is too large for etcd: all resources that are, else the whole.
func (set *changeSet) checkSize(changes []Change) error {
	var large ChangeErrors
	for _, r := range set.Resources {
		n := proto.Size(r)
		if n > MaxValue {
			name := resource.Name(r)
			i := slices.IndexFunc(changes, func(c Change) bool { return c.name() == name })
			large = append(large, &ChangeError{Index: i, Name: name,
				Err: fmt.Errorf("%w: %d bytes, a resource has at most %d", ErrTooLarge, n, MaxValue)})
		}
		set.bytes += n
	}
	if err := large.OrNil(); err != nil {
		return err
	}
	if set.bytes > MaxStaged {
		return fmt.Errorf("%w: %d bytes, at most %d go into one change", ErrTooLarge, set.bytes, MaxStaged)
	}
	return nil
}

// operations returns what writes changes into the resources' own keys.
func (s *Store) operations(set changeSet) ([]clientv3.Op, error) {
	ops := make([]clientv3.Op, 0, len(set.Resources)+len(set.Deleted)+1) // and the head
	for _, r := range set.Resources {
		value, err := proto.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", resource.Name(r), ErrBadChange, err)
		}
		ops = append(ops, clientv3.OpPut(s.keyOf(resource.Name(r)), string(value)))
	}
	for _, name := range set.Deleted {
		ops = append(ops, clientv3.OpDelete(s.keyOf(name)))
	}
	return ops, nil
}
