package store

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

// CrashAt says where a writer of CrashingApply dies.
type CrashAt int

// After the chunks are written, after the head was swapped, and after the first
// chunk was carried out.
const (
	BeforeSwap CrashAt = iota
	AfterSwap
	Midway
)

// CrashingApply stages new resources as Apply does with many, and stops where a
// crash would have stopped it.
func (s *Store) CrashingApply(ctx context.Context, resources []*quotav1.Resource, at CrashAt) error {
	h, err := s.headAfterStage(ctx)
	if err != nil {
		return err
	}
	next := h
	next.Revision, next.Prev = h.after(0, time.Now()), h.Revision
	next.Count = h.Count + len(resources)
	set, err := replacement(Snapshot{}, resources, next.Revision, timestamppb.Now())
	if err != nil {
		return err
	}
	before := view{}
	for _, r := range resources {
		if m, err := s.Get(ctx, resource.Name(r)); err == nil {
			before[m.GetName()] = m
		}
	}
	r, err := newRecord(Note{Action: "crash"}, h, next, time.Now(), before, set)
	if err != nil {
		return err
	}
	history, err := s.retain(ctx, h, &next, &r)
	if err != nil {
		return err
	}
	if next, _, err = s.stage(ctx, next, set); err != nil {
		return err
	}
	if err := s.stageParts(ctx, r); err != nil || at == BeforeSwap {
		return err
	}
	if err := s.commit(ctx, h, append(history.ops, s.putHead(next)), append(history.when, s.staged(next))...); err != nil || at == AfterSwap {
		return err
	}
	if next, err = s.readHead(ctx); err != nil {
		return err
	}
	chunks, err := s.chunks(ctx, next, 0)
	if err != nil {
		return err
	}
	ops, err := s.operations(changeSet{Resources: chunks[0].GetResources(), Deleted: chunks[0].GetDeleted()})
	if err != nil {
		return err
	}
	return s.commit(ctx, next, ops)
}

// GivesUp reports whether a watch is given up at the last of checks, at each of which it has delivered what is before
// one of the given revisions of etcd.
func (s *Store) GivesUp(ctx context.Context, next ...int64) (lost bool) {
	w := &watcher{store: s}
	for _, n := range next {
		w.next = n
		lost = w.missesHead(ctx)
	}
	return lost
}
