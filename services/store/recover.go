package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// Accept declares what is stored now, empty or not, to be the configuration: a held configuration is delivered again,
// as a whole, under a new revision. seen is a revision that agents or coordinators are known to have, 0 if none is
// known beyond what the head says. It returns what is in force. Errors: ErrUnavailable.
func (s *Store) Accept(ctx context.Context, seen int64) (Snapshot, error) {
	if err := s.dropLost(ctx); err != nil {
		return Snapshot{}, err
	}
	got, err := s.get(ctx, s.first(), clientv3.WithRange(s.last()), clientv3.WithCountOnly())
	if err != nil {
		return Snapshot{}, err
	}
	err = s.rewrite(ctx, func(h *head) (bool, error) {
		h.Revision = h.after(seen, time.Now())
		h.Base, h.Held, h.Count = h.Revision, "", int(got.Count)
		h.History = nil // what is accepted is not what the last entry left
		return true, nil
	})
	if err != nil {
		return Snapshot{}, err
	}
	return s.Snapshot(ctx)
}

// Replace makes the resources given the whole configuration, held or not: all other stored resources are deleted. They
// are taken as they are, such as from an agent's last good snapshot, and get new etags. seen is as for Accept. Errors:
// ErrTooLarge, ErrReference, ErrUnavailable.
func (s *Store) Replace(ctx context.Context, note Note, resources []*quotav1.Resource, seen int64) (Snapshot, error) {
	if err := s.dropLost(ctx); err != nil {
		return Snapshot{}, err
	}
	for attempt := 0; ; attempt++ {
		err := s.replace(ctx, note, resources, seen)
		if err == nil {
			return s.Snapshot(ctx)
		}
		if !errors.Is(err, errRaced) {
			return Snapshot{}, err
		}
		backOff(ctx, attempt)
	}
}

func (s *Store) replace(ctx context.Context, note Note, resources []*quotav1.Resource, seen int64) error {
	h, err := s.readHead(ctx)
	if err != nil {
		return err
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	next, now := h, time.Now()
	next.Revision = h.after(seen, now)
	next.Base, next.Held, next.Staged, next.Chunks, next.Count = next.Revision, "", "", 0, len(resources)
	set, err := replacement(snap, resources, next.Revision, timestamppb.New(now))
	if err != nil {
		return err
	}
	before := make(view, len(snap.Resources))
	for _, r := range snap.Resources {
		before[resource.Name(r)] = resource.Unwrap(r)
	}
	r, err := newRecord(note, h, next, now, before, set)
	if err != nil {
		return err
	}
	r.Previous = -1 // what is replaced may not be what the last entry left
	return s.write(ctx, h, next, set, r)
}

// replacement is the change set from what is stored to the resources given.
func replacement(
	snap Snapshot, resources []*quotav1.Resource, revision int64, now *timestamppb.Timestamp,
) (changeSet, error) {
	var set changeSet
	given := make(map[string]bool, len(resources))
	for _, r := range resources {
		given[resource.Name(r)] = true
	}
	for _, r := range resources {
		m := resource.Unwrap(r)
		if m == nil {
			return set, fmt.Errorf("%w: an empty resource", ErrBadChange)
		}
		for _, r := range resource.References(m) {
			if !given[r.Name] {
				return set, fmt.Errorf("%s: %w: %s", m.GetName(), ErrReference, r.Name)
			}
		}
		owner := m.GetSet()
		m = resource.Spec(m)
		resource.SetOutput(m, Etag(revision), now)
		resource.SetOwner(m, owner)
		set.Resources = append(set.Resources, resource.Of(m))
	}
	for _, r := range snap.Resources {
		if !given[resource.Name(r)] {
			set.Deleted = append(set.Deleted, resource.Name(r))
		}
	}
	for name := range snap.Unreadable {
		if !given[name] {
			set.Deleted = append(set.Deleted, name)
		}
	}
	err := set.checkSize(nil)
	return set, err
}

// dropLost takes a change set out of the head whose chunks are gone, and carries one out whose chunks are there.
func (s *Store) dropLost(ctx context.Context) error {
	return s.rewrite(ctx, func(h *head) (bool, error) {
		if h.Staged == "" {
			return false, nil
		}
		err := s.carryOut(ctx, *h)
		if !errors.Is(err, ErrCorrupt) {
			return false, err
		}
		h.Staged, h.Chunks = "", 0
		return true, nil
	})
}
