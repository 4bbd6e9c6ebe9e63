package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// mostNames bounds the names that a misspelt one is compared with.
const mostNames = 5 * pageSize

// guess adds to the status of a call the configured name that is nearest to a name that does not exist. It returns nil
// if there is none.
func (c *client) guess(ctx context.Context, s *status.Status) error {
	names := &names{c: c, ctx: ctx}
	switch s.Code() {
	case codes.NotFound:
		if name, _, is := strings.Cut(s.Message(), ": "+store.ErrNotFound.Error()); is { // advice may follow
			if meant := names.meant(name); meant != "" {
				return status.Error(s.Code(), s.Message()+meant)
			}
		}
	case codes.FailedPrecondition:
		var details []protoadapt.MessageV1
		for _, d := range s.Details() {
			one, is := d.(*errdetails.ResourceInfo)
			missing := missingIn(one.GetDescription())
			for _, m := range missing {
				with := proto.CloneOf(one)
				with.Description = m.why + names.meant(m.name)
				details = append(details, with)
			}
			if d, other := d.(protoadapt.MessageV1); other && (!is || len(missing) == 0) {
				details = append(details, d)
			}
		}
		if with, err := status.New(s.Code(), s.Message()).WithDetails(details...); err == nil && len(details) > 0 {
			return with.Err()
		}
	}
	return nil
}

// missingName is a name that does not exist, and what is said about it.
type missingName struct{ name, why string }

// missingIn splits the description of a refusal into one complaint per missing name.
func missingIn(description string) (all []missingName) {
	list, is := strings.CutPrefix(description, store.ErrReference.Error()+": ")
	if !is {
		return nil
	}
	list, advice, _ := strings.Cut(list, ";")
	for name := range strings.SplitSeq(list, ", ") {
		all = append(all, missingName{name, fmt.Sprintf("%s: %s;%s", store.ErrReference, name, advice)})
	}
	return all
}

// guessed reports whether an error says which name may be meant.
func guessed(err error) bool { return strings.Contains(status.Convert(err).Message(), didYouMean) }

const didYouMean = "; did you mean "

// names are the names of each collection, without it, read once.
type names struct {
	c     *client
	ctx   context.Context
	known map[selection][]string
}

// errEnough ends a list.
var errEnough = errors.New("enough")

// meant is the end of a complaint about a name that does not exist, "" if none is near, or if nothing is called so.
func (n *names) meant(name string) string {
	// The collection is no part of what is compared: of a long name, more letters could be wrong.
	at := strings.LastIndex(name, "/") + 1
	collection, last := name[:at], name[at:]
	switch collection {
	case gateways + "/":
		return nearest(last, collection, n.gateways())
	case resource.Limit.Collection() + "/": // of any tenant
		return nearest(last, "", n.of(selection{kind: resource.Limit}))
	}
	ref, err := resource.Parse(name)
	if err != nil {
		return ""
	}
	in := n.of(selection{kind: ref.Kind, parent: ref.Parent()})
	if ref.Kind != resource.Limit {
		return nearest(last, collection, in)
	}
	every := selection{kind: resource.Limit, parent: "tenants/" + resource.AnyTenant}
	return cmp.Or(nearest(last, collection, in), nearest(last, every.parent+"/limits/", n.of(every)))
}

// nearest is the end of a complaint about a name of a collection.
func nearest(name, collection string, known []string) string {
	if near := wording.Near(name, known); near != "" {
		return didYouMean + collection + near + "?"
	}
	return ""
}

// of returns what a selection has. It is a guess: what cannot be listed has nothing.
func (n *names) of(s selection) []string {
	if all, read := n.known[s]; read {
		return all
	}
	var all []string
	_ = n.c.each(n.ctx, s, func(m resource.Message) error {
		if all = append(all, m.GetName()[strings.LastIndex(m.GetName(), "/")+1:]); len(all) == mostNames {
			return errEnough
		}
		return nil
	})
	if n.known == nil {
		n.known = map[selection][]string{}
	}
	n.known[s] = all
	return all
}

func (n *names) gateways() (all []string) {
	found, _ := n.c.ListGateways(n.ctx, &quotav1.ListGatewaysRequest{}) // a guess
	for _, g := range found.GetGateways() {
		all = append(all, g.GetName())
	}
	return all
}
