package cli

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

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
		if name, is := strings.CutSuffix(s.Message(), ": "+store.ErrNotFound.Error()); is {
			if meant := names.meant(name); meant != "" {
				return status.Error(s.Code(), s.Message()+meant)
			}
		}
	case codes.FailedPrecondition:
		var details []protoadapt.MessageV1
		for _, d := range s.Details() {
			if one, is := d.(*errdetails.ResourceInfo); is {
				what := strings.TrimPrefix(one.GetDescription(), store.ErrReference.Error()+": ")
				name, _, _ := strings.Cut(what, ";")
				one.Description += names.meant(name)
			}
			if d, is := d.(protoadapt.MessageV1); is {
				details = append(details, d)
			}
		}
		if with, err := status.New(s.Code(), s.Message()).WithDetails(details...); err == nil && len(details) > 0 {
			return with.Err()
		}
	}
	return nil
}

// names are the configured names of each collection, read once.
type names struct {
	c     *client
	ctx   context.Context
	known map[selection][]string
}

// errEnough ends a list.
var errEnough = errors.New("enough")

// meant is the end of a complaint about a name that does not exist, "" if none is near, or if no resource is called so.
func (n *names) meant(name string) string {
	ref, err := resource.Parse(name)
	if err != nil {
		return ""
	}
	of := selection{kind: ref.Kind, parent: ref.Parent()}
	if _, read := n.known[of]; !read {
		var all []string
		_ = n.c.each(n.ctx, of, func(m resource.Message) error { // a guess: without a list there is none
			if all = append(all, m.GetName()); len(all) == mostNames {
				return errEnough
			}
			return nil
		})
		if n.known == nil {
			n.known = map[selection][]string{}
		}
		n.known[of] = all
	}
	// The collection is no part of what is compared: of a long name, more letters could be wrong.
	prefix := name[:strings.LastIndex(name, "/")+1]
	var last []string
	for _, k := range n.known[of] {
		last = append(last, strings.TrimPrefix(k, prefix))
	}
	if near := wording.Near(strings.TrimPrefix(name, prefix), last); near != "" {
		return "; did you mean " + prefix + near + "?"
	}
	return ""
}
