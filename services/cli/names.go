package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

// selection is one argument of get: one name, or all of a kind, of one tenant or plan if parent is set.
type selection struct {
	kind   resource.Kind
	name   string
	parent string
}

// kindOf reads a kind as people say it: pool, pools, po.
func kindOf(word string) (resource.Kind, bool) {
	for _, k := range resource.Kinds {
		singular := strings.ToLower(k.String())
		if w := strings.ToLower(word); w == singular || w == k.Collection() || w == singular[:1] || w == singular[:2] {
			return k, true
		}
	}
	return 0, false
}

// selectionOf reads an argument: a kind, a name, or a collection of a tenant or a plan.
func selectionOf(arg string) (selection, error) {
	if kind, ok := kindOf(arg); ok {
		return selection{kind: kind}, nil
	}
	if parent, collection, ok := cutCollection(arg); ok {
		return selection{kind: collection, parent: parent}, nil
	}
	ref, err := resource.Parse(arg)
	if err != nil {
		if strings.Contains(arg, "/") {
			return selection{}, err
		}
		kinds := []string{"pools", "plans", "tenants", "quotas", "limits", "overrides", gateways}
		meant := wording.Near(arg, kinds)
		if meant == "" {
			meant = fmt.Sprintf("pools/%s or tenants/%s", arg, arg)
		}
		return selection{}, fmt.Errorf("%q is neither a kind (%s) nor a name; did you mean %s?", arg,
			strings.Join(kinds, ", "), meant)
	}
	return selection{kind: ref.Kind, name: arg}, nil
}

// cutCollection takes tenants/acme/quotas, plans/gold/quotas or tenants/acme/limits/each/overrides apart.
func cutCollection(arg string) (parent string, kind resource.Kind, ok bool) {
	at := strings.LastIndex(arg, "/")
	if at < 0 {
		return "", 0, false
	}
	ref, err := resource.Parse(arg[:at])
	if err != nil {
		return "", 0, false
	}
	kinds := map[resource.Kind][]resource.Kind{resource.Plan: {resource.Quota, resource.Limit},
		resource.Tenant: {resource.Quota, resource.Limit, resource.Override}, resource.Limit: {resource.Override}}
	for _, k := range kinds[ref.Kind] {
		if arg[at+1:] == k.Collection() {
			return arg[:at], k, true
		}
	}
	return "", 0, false
}

// full returns a name with its collection in front, if it is not there yet.
func full(kind resource.Kind, name string) (string, error) {
	if !strings.Contains(name, "/") {
		name = kind.Collection() + "/" + name
	}
	ref, err := resource.Parse(name)
	if err == nil && ref.Kind != kind {
		err = fmt.Errorf("%q names a %s, want a %s", name, ref.Kind, kind)
	}
	return name, err
}

// completionTime bounds what pressing Tab costs when no coordinator answers.
const completionTime = time.Second

// completeNames completes names of the kinds from what is configured, and words.
func completeNames(c *connection, kinds []resource.Kind, words ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		out := words
		c.timeout = completionTime
		client, err := c.dial()
		if err != nil {
			return out, cobra.ShellCompDirectiveNoFileComp
		}
		defer client.close()
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		for _, kind := range kinds {
			ms, err := client.list(ctx, selection{kind: kind})
			if err != nil {
				break
			}
			for _, m := range ms {
				out = append(out, m.GetName())
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
