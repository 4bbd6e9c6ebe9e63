package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcmetadata "google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/quota/bykind"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
)

// Reasons of the condition InForce, and of the metric.
const (
	Applied         = "Applied"         // True
	NotEnforced     = "NotEnforced"     // stored, but some gateway does not enforce it
	Invalid         = "Invalid"         // the spec is no document
	Refused         = "Refused"         // by the API
	Conflict        = "Conflict"        // another object or another set has the resource
	DeletionRefused = "DeletionRefused" // others need it, so it is still in force: True
)

// Reasons lists all reasons.
var Reasons = []string{Applied, NotEnforced, Invalid, Refused, Conflict, DeletionRefused}

// kept ends the messages of objects that are not in force.
const kept = " What was applied before stays in force."

// verdict is the outcome of a pass for an object.
type verdict struct {
	reason, message string
}

// claim is an object that stands for its resource, as a document.
type claim struct {
	*object
	resource resource.Message
}

// pass is one round over all objects.
type pass struct {
	*Operator
	verdicts map[*object]verdict
	objects  []*object
	denied   map[string]verdict // refused by the API in this pass, by UID; may be valid later
	waits    bool               // objects refused before are not tried again in this pass
	asked    bool               // the API has answered about all objects
}

// run makes the round. An error means that not everything was done.
func (p *pass) run(ctx context.Context) error {
	ctx = grpcmetadata.AppendToOutgoingContext(ctx, quota.MinorKey, "true")
	all, err := objects{p.o.Cluster}.list(ctx)
	if err != nil {
		return err
	}
	wanted, err := p.wanted(ctx, all)
	errs := []error{err}
	p.objects = all
	if err := p.apply(ctx, p.waiting(wanted)); err != nil {
		return errors.Join(append(errs, err)...)
	}
	p.asked = true
	own := owners(all)
	for _, x := range slices.Backward(all) { // limits and quotas before the resources that they need
		if _, waits := p.verdicts[x]; !waits && x.deleting() && x.guarded() {
			errs = append(errs, p.remove(ctx, x, own[x.id()]))
		}
	}
	for _, x := range all {
		if v, said := p.verdicts[x]; said {
			errs = append(errs, p.say(ctx, x, v))
		}
	}
	return errors.Join(errs...)
}

// wanted returns the objects to apply, and gives the others their verdicts. The error is of objects that could
// not get a finalizer: it does not block other objects.
func (p *pass) wanted(ctx context.Context, all []*object) ([]claim, error) {
	own := owners(all)
	var out []claim
	var errs []error
	for _, x := range all {
		if x.deleting() {
			continue
		}
		if owner := own[x.id()]; owner != x {
			p.verdicts[x] = verdict{Conflict, fmt.Sprintf("%s is configured by the %s, which is older.", x.Name, owner)}
			continue
		}
		m, err := x.read()
		if err != nil {
			p.verdicts[x] = verdict{Invalid, err.Error() + "." + kept}
			continue
		}
		if x.guarded() {
			out = append(out, claim{x, m})
			continue
		}
		// This change triggers the next pass, which applies it.
		errs = append(errs, p.guard(ctx, x, append(slices.Clone(x.Metadata.Finalizers), finalizer)))
	}
	return out, errors.Join(errs...)
}

// apply applies objects in one transaction. The API names all that it refuses: the rest is applied without them, so
// that refused objects cost one call more and no revision. What is too large for one request is applied in halves.
func (p *pass) apply(ctx context.Context, all []claim) error {
	for len(all) > 0 {
		if err := p.leads(ctx); err != nil {
			return err
		}
		request := &quotav1.ApplyRequest{Set: p.o.Set, Message: "custom resources of Kubernetes"}
		for _, c := range all {
			request.Resources = append(request.Resources, resource.Of(c.resource))
		}
		response, err := p.o.API.Apply(ctx, request)
		switch {
		case err == nil:
			p.applied(all, response)
			return nil
		case !refused(err) || strings.Contains(grpcstatus.Convert(err).Message(), store.ErrHeld.Error()):
			return err // of no object
		}
		if half := len(all) / 2; half > 0 && tooLarge(err) && len(reasons(all, err)) == 0 {
			return errors.Join(p.apply(ctx, all[:half]), p.apply(ctx, all[half:]))
		}
		all = p.refuse(all, err)
	}
	return nil
}

// tooLarge reports whether an error may be about the size of a request.
func tooLarge(err error) bool {
	return slices.Contains([]codes.Code{codes.InvalidArgument, codes.ResourceExhausted}, grpcstatus.Code(err))
}

// refuse gives the objects that an error names their verdicts, or all objects if it names none, and returns the others.
func (p *pass) refuse(all []claim, err error) (rest []claim) {
	named := reasons(all, err)
	for i, c := range all {
		said, is := named[i]
		if len(named) == 0 {
			said = grpcstatus.Convert(err).Message()
		} else if !is {
			rest = append(rest, c)
			continue
		}
		v := verdict{Refused, said + "." + kept}
		if strings.Contains(said, store.ErrOwned.Error()) {
			v = verdict{Conflict, said + "."}
		}
		p.deny(c.object, v)
	}
	return rest
}

// deny gives an object the verdict of the API.
func (p *pass) deny(x *object, v verdict) {
	p.verdicts[x], p.denied[x.Metadata.UID] = v, v
}

// violated finds the index of a resource in the path of a field that breaks a rule.
var violated = regexp.MustCompile(`^resources\[(\d+)\]\.?`)

// reasons returns why objects are refused, by their index, as the details of an error name them.
func reasons(all []claim, err error) map[int]string {
	byName, named := map[string]int{}, map[int]string{}
	for i, c := range all {
		byName[c.Name] = i
	}
	add := func(i int, said string) {
		if before := named[i]; before != "" {
			said = before + "; " + said
		}
		named[i] = said
	}
	for _, detail := range grpcstatus.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.ResourceInfo:
			if i, is := byName[d.GetResourceName()]; is {
				add(i, d.GetResourceName()+": "+d.GetDescription())
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				found := violated.FindStringSubmatch(v.GetField())
				if found == nil {
					continue
				}
				if i, err := strconv.Atoi(found[1]); err == nil && i < len(all) {
					add(i, strings.TrimPrefix(v.GetField(), found[0])+": "+v.GetDescription())
				}
			}
		}
	}
	return named
}

// refused reports whether an error is about the request, not about an API that cannot be reached.
func refused(err error) bool {
	return slices.Contains([]codes.Code{codes.InvalidArgument, codes.FailedPrecondition, codes.Aborted,
		codes.PermissionDenied, codes.ResourceExhausted}, grpcstatus.Code(err))
}

// applied gives each object the verdict that it is in force, or names the gateways that do not enforce it.
func (p *pass) applied(all []claim, response *quotav1.ApplyResponse) {
	doubts := map[string][]string{}
	for _, w := range response.GetWarnings() {
		doubts[w.GetResource()] = append(doubts[w.GetResource()], w.GetMessage())
	}
	for i, c := range all {
		stored := resource.Unwrap(response.GetResources()[i])
		warnings := append(doubts[c.Name], resource.Warnings(stored)...)
		if len(warnings) == 0 {
			p.verdicts[c.object] = verdict{Applied, "The coordinator has it, and knows no gateway that disobeys."}
			continue
		}
		slices.Sort(warnings)
		p.verdicts[c.object] = verdict{NotEnforced, strings.Join(slices.Compact(warnings), " ")}
	}
}

// remove lets a deleted object go, after its resource: unless that belongs to another object or another set.
func (p *pass) remove(ctx context.Context, x, owner *object) error {
	if owner == nil {
		switch err := p.delete(ctx, x); {
		case err == nil:
		case refused(err):
			p.deny(x, verdict{DeletionRefused, grpcstatus.Convert(err).Message() + "."})
			return nil
		default:
			return err
		}
	}
	rest := slices.DeleteFunc(slices.Clone(x.Metadata.Finalizers), func(f string) bool { return f == finalizer })
	return p.guard(ctx, x, rest)
}

// guard sets the finalizers of an object, while this operator leads.
func (p *pass) guard(ctx context.Context, x *object, finalizers []string) error {
	if err := p.leads(ctx); err != nil {
		return err
	}
	return objects{p.o.Cluster}.finalizers(ctx, x, finalizers)
}

// delete deletes the resource of an object, if the set has it.
func (p *pass) delete(ctx context.Context, x *object) error {
	if err := p.leads(ctx); err != nil {
		return err
	}
	stored, err := bykind.Get(ctx, p.o.API, x.kind, x.Name)
	switch code := grpcstatus.Code(err); {
	case code == codes.NotFound || code == codes.InvalidArgument: // or never had such a name
		return nil
	case err != nil:
		return err
	case stored.GetSet() != p.o.Set:
		return nil
	}
	return bykind.Delete(ctx, p.o.API, x.kind,
		bykind.Deletion{Name: x.Name, Etag: stored.GetEtag(), AllowMissing: true})
}

// say writes a pass's verdict about an object into its status, if it is not there.
func (p *pass) say(ctx context.Context, x *object, v verdict) error {
	next := condition{Type: InForce, Status: "False", Reason: v.reason, Message: v.message,
		ObservedGeneration: x.Metadata.Generation, LastTransitionTime: time.Now().UTC().Truncate(time.Second)}
	if v.reason == Applied || v.reason == DeletionRefused {
		next.Status = "True"
	}
	for _, before := range x.Status.Conditions {
		if before.Type == InForce && before.Status == next.Status {
			next.LastTransitionTime = before.LastTransitionTime
			if before == next && x.Status.ObservedGeneration == x.Metadata.Generation {
				return nil
			}
		}
	}
	if v.reason != Applied {
		p.o.Log.Warn("custom resource", "object", x.String(), "resource", x.Name, "reason", v.reason,
			"message", v.message)
	}
	if err := p.leads(ctx); err != nil {
		return err
	}
	err := objects{p.o.Cluster}.patch(ctx, x, "/status", map[string]any{"status": status{
		ObservedGeneration: x.Metadata.Generation, Conditions: []condition{next}}})
	if kubernetes.Answered(err, http.StatusUnprocessableEntity) {
		return fmt.Errorf("status of %s: %w", x, err)
	}
	return err
}
