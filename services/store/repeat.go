package store

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/services/store/resource"
)

// RequestsKept is the number of the latest changes that are remembered by their request IDs, as far as the history
// keeps them. More would make each change with an ID read more of the history.
const RequestsKept = 256

// Requested returns the change that a note's request ID has made, nil if none of the latest has it. Errors: ErrRequest
// if it was another request, ErrCorrupt, ErrUnavailable.
func (s *Store) Requested(ctx context.Context, note Note) (*Entry, error) {
	if note.Request == "" {
		return nil, nil
	}
	entries, err := s.History(ctx, 0, RequestsKept)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch {
		case e.Request != note.Request:
		case e.Fingerprint != note.Fingerprint:
			return nil, fmt.Errorf("%w: %s belongs to revision %d, by %s, which asked for something else; choose "+
				"another", ErrRequest, note.Request, e.Revision, e.Author)
		default:
			return &e, nil
		}
	}
	return nil, nil
}

// repeat is the result that the changes had when they made the entry. It decides again on what was stored before the
// entry.
func (s *Store) repeat(ctx context.Context, h head, e *Entry, changes []Change, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	stored, err := s.load(ctx, h, changes)
	if err != nil {
		return Result{}, err
	}
	was, err := s.back(ctx, h, e.Previous)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %s has made revision %d; what was answered is not known any more: %w",
			ErrRequest, e.Request, e.Revision, err)
	}
	for name, r := range was {
		if m := resource.Unwrap(r); m != nil {
			stored[name] = m
		} else {
			delete(stored, name)
		}
	}
	p, err := decide(stored, changes)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %s has made revision %d; the answer is not known any more: %w",
			ErrRequest, e.Request, e.Revision, err)
	}
	at := timestamppb.New(e.Time)
	p.set(e.Revision, at)
	out := p.result(e.Revision, at)
	out.Repeated = true
	return out, nil
}
