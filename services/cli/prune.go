package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

// left are the resources that the request's set owns and the request does not name.
func (c *client) left(ctx context.Context, r *quotav1.ApplyRequest) ([]*quotav1.Deletion, error) {
	named := make(map[string]bool, len(r.GetResources()))
	for _, envelope := range r.GetResources() {
		named[resource.Name(envelope)] = true
	}
	var out []*quotav1.Deletion
	for _, kind := range slices.Backward(resource.Kinds) {
		ms, err := c.list(ctx, selection{kind: kind})
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			if m.GetSet() == r.GetSet() && !named[m.GetName()] {
				out = append(out, &quotav1.Deletion{Name: m.GetName(), Etag: m.GetEtag()})
			}
		}
	}
	return out, nil
}

// dialFor makes a client for a request about so many documents, which has more time for many.
func (c *connection) dialFor(cmd *cobra.Command, documents int) (*client, error) {
	if documents >= manyDocuments && !cmd.Flags().Changed("timeout") {
		c.timeout += time.Duration(documents) * perDocument
	}
	return c.dial()
}

// fill puts the documents into a request, and with prune what they no longer mention.
func (c *client) fill(ctx context.Context, r *quotav1.ApplyRequest, documents []*document.Document, prune bool) error {
	if prune && r.GetSet() == "" {
		return command.Usagef("--prune needs --set NAME: only what a set owns is deleted")
	}
	if n := len(documents); n > maxApply {
		return fmt.Errorf("nothing was applied: %d documents, but one transaction takes %d at most; apply them in "+
			"parts, pools and tenants first", n, maxApply)
	}
	for _, d := range documents {
		r.Resources = append(r.Resources, resource.Of(d.Resource))
	}
	if prune {
		var err error
		if r.Deletions, err = c.left(ctx, r); err != nil {
			return worded(err)
		}
	}
	if n := proto.Size(r); n > maxApplyBytes {
		return fmt.Errorf("nothing was applied: the documents take %d bytes, one step takes %d; apply them in parts, "+
			"pools and tenants first", n, maxApplyBytes)
	}
	return nil
}
