package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

const getLong = `get shows what is configured and, beside it, what is happening now: a pool's demand
and price, a quota's share and what holds it there.

Ask for a kind (pools, tenants, quotas, limits; singular and first letter do too),
for a name, for what belongs to a tenant, or for everything by asking for nothing.

In YAML or JSON the output is documents, with a status beside spec; they can be
edited and given to titrate apply -f.

Rates are per second: requests, or cost units where costs are configured. FAIR is
what a tenant of weight 1 gets in a pool that is FULL; "-" says not known, or none.`

const getExample = `  titrate get                          everything
  titrate get pools
  titrate get tenants/acme
  titrate get tenants/acme/quotas
  titrate get quotas limits -o yaml > quotas.yaml`

func newGet() *cobra.Command {
	var (
		c      connection
		output format
	)
	cmd := &cobra.Command{
		Use:     "get [KIND | NAME]...",
		Short:   "Show what is configured and what is happening",
		Long:    getLong,
		Example: getExample,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGet(cmd, &c, output, args)
		},
	}
	c.flags(cmd)
	output.flag(cmd)
	cmd.ValidArgsFunction = completeNames(&c, resource.Kinds, "pools", "tenants", "quotas", "limits")
	return cmd
}

func runGet(cmd *cobra.Command, c *connection, output format, args []string) error {
	var wanted []selection
	for _, arg := range args {
		s, err := selectionOf(arg)
		if err != nil {
			return usage(err)
		}
		wanted = append(wanted, s)
	}
	if len(args) == 0 {
		for _, kind := range resource.Kinds {
			wanted = append(wanted, selection{kind: kind})
		}
	}
	client, err := c.dial()
	if err != nil {
		return err
	}
	defer client.close()
	ms, err := client.fetch(cmd.Context(), wanted)
	if err != nil {
		return worded(err)
	}
	if len(ms) == 0 && output == asTable {
		fmt.Fprintln(cmd.ErrOrStderr(),
			"Nothing is configured there. titrate apply -f FILE configures; titrate apply --help has an example.")
		return nil
	}
	if output == asTable {
		oldBursts(cmd.ErrOrStderr(), ms)
	}
	return writeResources(cmd.OutOrStdout(), output, ms)
}

// oldBursts says which limits were stored without a burst, by a version that gave
// these one second's worth.
func oldBursts(w io.Writer, ms []resource.Message) {
	var names []string
	for _, m := range ms {
		if l, ok := m.(*quotav1.Limit); ok && resource.BurstUnset(l) {
			names = append(names, l.GetName())
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(w, "note: stored without burst by an older version, and kept at one second's worth of the rate: "+
			"%s. "+
			"Applied anew without burst, the limit gets the amount of its rate (100/min: 100).\n", shortList(names, 5))
	}
}

// shortList names the first n and says how many more there are.
func shortList(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

func writeResources(w io.Writer, output format, ms []resource.Message) error {
	switch output {
	case asJSON:
		return document.WriteJSON(w, ms...)
	case asYAML:
		return document.WriteYAML(w, ms...)
	}
	if err := writeTables(w, ms); err != nil {
		return err
	}
	return writeWarnings(w, ms)
}

// writeWarnings lists, below the tables, what gateways make of what is configured.
func writeWarnings(w io.Writer, ms []resource.Message) error {
	head := "\nWARNINGS\n"
	for _, m := range ms {
		var warnings []string
		switch m := m.(type) {
		case *quotav1.Tenant:
			warnings = m.GetStatus().GetWarnings()
		case *quotav1.Quota:
			warnings = m.GetStatus().GetWarnings()
		case *quotav1.Limit:
			warnings = m.GetStatus().GetWarnings()
		}
		for _, text := range warnings {
			if _, err := fmt.Fprintf(w, "%s%s: %s\n", head, m.GetName(), text); err != nil {
				return err
			}
			head = ""
		}
	}
	return nil
}

// fetch returns what the selections ask for, each resource once.
func (c *client) fetch(ctx context.Context, wanted []selection) ([]resource.Message, error) {
	var ms []resource.Message
	seen := make(map[string]bool)
	for _, s := range wanted {
		found, err := c.list(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if !seen[m.GetName()] {
				seen[m.GetName()] = true
				ms = append(ms, m)
			}
		}
	}
	return ms, nil
}

// list returns what one selection asks for, all pages of it.
func (c *client) list(ctx context.Context, s selection) ([]resource.Message, error) {
	if s.name != "" {
		m, err := c.one(ctx, s)
		return []resource.Message{m}, err
	}
	if s.parent == "" {
		s.parent = "tenants/*"
	}
	var all []resource.Message
	for token := ""; ; {
		page, next, err := c.page(ctx, s, token)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		token = next
	}
}

func (c *client) one(ctx context.Context, s selection) (resource.Message, error) {
	switch s.kind {
	case resource.Pool:
		return c.GetPool(ctx, &quotav1.GetPoolRequest{Name: s.name})
	case resource.Tenant:
		return c.GetTenant(ctx, &quotav1.GetTenantRequest{Name: s.name})
	case resource.Quota:
		return c.GetQuota(ctx, &quotav1.GetQuotaRequest{Name: s.name})
	default:
		return c.GetLimit(ctx, &quotav1.GetLimitRequest{Name: s.name})
	}
}

// pageSize is the most that the API gives at once.
const pageSize = 1000

func (c *client) page(ctx context.Context, s selection, token string) ([]resource.Message, string, error) {
	switch s.kind {
	case resource.Pool:
		r, err := c.ListPools(ctx, &quotav1.ListPoolsRequest{PageSize: pageSize, PageToken: token})
		return messages(r.GetPools()), r.GetNextPageToken(), err
	case resource.Tenant:
		r, err := c.ListTenants(ctx, &quotav1.ListTenantsRequest{PageSize: pageSize, PageToken: token})
		return messages(r.GetTenants()), r.GetNextPageToken(), err
	case resource.Quota:
		r, err := c.ListQuotas(ctx, &quotav1.ListQuotasRequest{Parent: s.parent, PageSize: pageSize, PageToken: token})
		return messages(r.GetQuotas()), r.GetNextPageToken(), err
	default:
		r, err := c.ListLimits(ctx, &quotav1.ListLimitsRequest{Parent: s.parent, PageSize: pageSize, PageToken: token})
		return messages(r.GetLimits()), r.GetNextPageToken(), err
	}
}

func messages[T resource.Message](in []T) []resource.Message {
	out := make([]resource.Message, len(in))
	for i, m := range in {
		out[i] = m
	}
	return out
}
