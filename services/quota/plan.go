package quota

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota/valid"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// Rehearsal has the effects of a change on shares, for the demand of now.
type Rehearsal struct {
	Pools []*quotav1.PoolEffect
	Flows []*quotav1.FlowEffect
}

// Plan says what an apply or a rollback would change, and what would happen. It changes nothing.
func (s *Server) Plan(ctx context.Context, r *quotav1.PlanRequest) (*quotav1.PlanResponse, error) {
	if err := valid.Message(r); err != nil {
		return nil, status(err)
	}
	changes, note, warnings, err := s.planned(ctx, r)
	if err != nil {
		return nil, status(err)
	}
	result, err := s.store.Check(ctx, note, changes)
	if err != nil {
		return nil, status(err)
	}
	out := &quotav1.PlanResponse{Revision: result.Revision, Changes: madeBy(changes, result), Warnings: warnings}
	var rehearsal *Rehearsal
	if len(out.Changes)+len(r.GetSuppose()) > 0 {
		rehearsal, err = s.rehearse(ctx, out.GetChanges(), result.Removed, r.GetSuppose())
	}
	if err != nil {
		out.EffectsUnknown = err.Error()
	}
	if rehearsal != nil {
		out.Pools = slices.DeleteFunc(slices.Clone(rehearsal.Pools), unmovedPool)
		out.Flows = slices.DeleteFunc(slices.Clone(rehearsal.Flows), unmovedFlow)
	}
	out.Guards = guards(out, rehearsal)
	return out, nil
}

// planned are the changes that a plan is about, and the warnings about them.
func (s *Server) planned(ctx context.Context, r *quotav1.PlanRequest) ([]store.Change, store.Note, []*quotav1.Warning,
	error) {
	if (r.GetApply() == nil) == (r.GetRollback() == 0) {
		return nil, store.Note{}, nil, valid.Wrong("apply", "give either apply or rollback")
	}
	if r.GetApply() == nil {
		changes, on, err := s.store.Undo(ctx, r.GetRollback())
		return changes, store.Note{IfRevision: on}, nil, err
	}
	if err := valid.Apply(r.GetApply()); err != nil {
		return nil, store.Note{}, nil, err
	}
	warnings, err := s.unknownNames(r.GetApply())
	if err != nil {
		return nil, store.Note{}, nil, err
	}
	changes := applied(r.GetApply())
	return changes, store.Note{IfRevision: r.GetApply().GetExpectedRevision()},
		append(warnings, lapsed(r.GetApply())...), s.checkChanges(ctx, changes)
}

// rehearse asks the leader what changes would do.
func (s *Server) rehearse(ctx context.Context, changes []*quotav1.ResourceChange, removed []string,
	suppose []*quotav1.SupposedDemand) (*Rehearsal, error) {
	if s.live == nil {
		return nil, fmt.Errorf("no coordinator leads here")
	}
	var resources []*quotav1.Resource
	deleted := slices.Clone(removed)
	for _, c := range changes {
		if c.GetAfter() == nil {
			deleted = append(deleted, c.GetName())
		} else {
			resources = append(resources, c.GetAfter())
		}
	}
	r, err := s.live.Rehearse(ctx, resources, deleted, suppose)
	if err != nil && grpcstatus.Code(err) != codes.Unknown {
		err = fmt.Errorf("%s", grpcstatus.Convert(err).Message())
	}
	return r, err
}

// little is the relative difference below which two rates are the same to people.
const little = .01

func moved(before, after float64) bool {
	return before-after > little*max(before, after) || after-before > little*max(before, after)
}

func unmovedPool(e *quotav1.PoolEffect) bool {
	return !moved(e.GetCapacityBefore(), e.GetCapacityAfter()) && !moved(e.GetFairRateBefore(), e.GetFairRateAfter()) &&
		!moved(e.GetPriceBefore(), e.GetPriceAfter()) && !moved(e.GetGuaranteedBefore(), e.GetGuaranteedAfter())
}

func unmovedFlow(e *quotav1.FlowEffect) bool {
	return !moved(e.GetShareBefore(), e.GetShareAfter()) && !moved(e.GetOverBefore(), e.GetOverAfter())
}

// The names of guards: what a plan warns of, and what has to be waived by name.
const (
	guardCutHalf     = "cut-half"
	guardDeleteInUse = "delete-in-use"
	guardGuarantees  = "guarantees-beyond-capacity"
	guardUnknown     = "unknown-name"
	guardEffects     = "effects-unknown"
)

// Guards are the names of all guards.
var Guards = []string{guardCutHalf, guardDeleteInUse, guardGuarantees, guardUnknown, guardEffects}

// guards are the reasons to think again about a plan. It is pure.
func guards(p *quotav1.PlanResponse, r *Rehearsal) (out []*quotav1.Guard) {
	add := func(name, resource, format string, args ...any) {
		out = append(out, &quotav1.Guard{Name: name, Resource: resource, Message: fmt.Sprintf(format, args...)})
	}
	deleted := map[string]bool{}
	for _, c := range p.GetChanges() {
		before, after := resource.Unwrap(c.GetBefore()), resource.Unwrap(c.GetAfter())
		deleted[c.GetName()] = after == nil
		if what, was, is := halved(before, after); what != "" {
			add(guardCutHalf, c.GetName(), "%s falls from %s to %s, to less than half", what, rate(was), rate(is))
		}
	}
	for _, w := range p.GetWarnings() {
		add(guardUnknown, w.GetResource(), "%s", w.GetMessage())
	}
	if p.GetEffectsUnknown() != "" {
		add(guardEffects, "", "what it does to shares is not known: %s", p.GetEffectsUnknown())
	}
	if r == nil {
		return out
	}
	for _, e := range r.Pools {
		if e.GetGuaranteedAfter() > e.GetCapacityAfter() && e.GetCapacityAfter() > 0 && !unmovedPool(e) {
			add(guardGuarantees, e.GetPool(), "the guarantees add up to %s, the capacity is %s",
				rate(e.GetGuaranteedAfter()), rate(e.GetCapacityAfter()))
		}
	}
	for _, e := range r.Flows {
		switch {
		case e.GetDemandBefore() > 0 && (deleted[e.GetTenant()] || deleted[e.GetPool()]):
			add(guardDeleteInUse, e.GetTenant(), "it asks for %s of %s now", rate(e.GetDemandBefore()), e.GetPool())
		case loses(e):
			add(guardCutHalf, e.GetTenant(),
				"its share of %s falls from %s to %s, to less than half, and it asks for %s",
				e.GetPool(), rate(e.GetShareBefore()), rate(e.GetShareAfter()), rate(e.GetDemandAfter()))
		}
	}
	return out
}

// loses reports whether a tenant that asks for more loses more than half of its share.
func loses(e *quotav1.FlowEffect) bool {
	return e.GetShareAfter() < e.GetShareBefore()/2 && moved(e.GetShareAfter(), e.GetDemandAfter()) &&
		e.GetShareAfter() < e.GetDemandAfter()
}

// halved names the first number of a resource that an update more than halves, "" if none.
func halved(before, after resource.Message) (what string, was, is float64) {
	less := func(name string, b, a float64) bool {
		if a >= b/2 {
			return false
		}
		what, was, is = name, b, a
		return true
	}
	switch b := before.(type) {
	case *quotav1.Pool:
		if a, ok := after.(*quotav1.Pool); ok {
			less("capacity", b.GetCapacity(), a.GetCapacity())
		}
	case *quotav1.Quota:
		if a, ok := after.(*quotav1.Quota); ok && !less("guaranteed", b.GetGuaranteed(), a.GetGuaranteed()) &&
			b.Max != nil && a.Max != nil {
			less("max", b.GetMax(), a.GetMax())
		}
	case *quotav1.Limit:
		if a, ok := after.(*quotav1.Limit); ok {
			lessNumbers(b, a, b.GetQuota().GetAmount(), a.GetQuota().GetAmount(), less)
		}
	case *quotav1.Override:
		if a, ok := after.(*quotav1.Override); ok {
			lessNumbers(b, a, b.GetAmount(), a.GetAmount(), less)
		}
	}
	return what, was, is
}

// lessNumbers compares two limits or overrides, and the amounts of their quotas, of which 0 is none.
func lessNumbers(before, after resource.Numbers, amount, next float64,
	less func(name string, before, after float64) bool,
) {
	if less("concurrency", float64(before.GetConcurrency()), float64(after.GetConcurrency())) ||
		next > 0 && less("amount", amount, next) {
		return
	}
	was, _ := resource.ParseRate(before.GetRate())
	if is, err := resource.ParseRate(after.GetRate()); err == nil {
		less("rate", was, is)
	}
}
