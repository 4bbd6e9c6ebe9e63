package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/pause"
	"github.com/titrate/titrate/services/quota/bykind"
	"github.com/titrate/titrate/services/store/resource"
)

const getLong = `get shows what is configured and, beside it, what is happening now: a pool's demand
and price, a quota's share and what holds it there.

Ask for a kind (pools, tenants, quotas, limits; singular and first letter do too),
for a name, for what belongs to a tenant, or for everything by asking for nothing.
With a tenant's name the tables have its quotas and limits too. -o wide adds columns.

Ask for gateways to see which revision of the configuration is in force at each, how many
changes it lacks, and since when. They are not configured, so they are asked for alone. A
gateway whose agent is unreachable goes on with what it has; it is shown, and counts
in IN FORCE, for ten minutes.

In YAML or JSON the output is documents, with a status beside spec; they can be
edited and given to titrate apply -f.

--watch asks again and again, --every after each answer. At a terminal the tables are
drawn anew until q; elsewhere they are printed anew when they have changed.

Rates are per second: requests, or cost units where costs are configured. FAIR is
what a tenant of weight 1 gets in a pool that is FULL. PER names what a limit counts together:
each CLIENT, the whole TENANT, or each value of the identity that it names. IN FORCE is the
number of gateways that enforce what is stored, of all; less than all is right for a moment
after a change. "-" says not known, or none.`

const getExample = `  titrate get                          everything
  titrate get pools
  titrate get tenants/acme
  titrate get tenants/acme/quotas --watch
  titrate get limits -o wide
  titrate get gateways                 the configuration at each gateway
  titrate get quotas limits -o yaml > quotas.yaml`

// get has the flags of the command get.
type get struct {
	c      connection
	output command.Format
	watch  bool
	every  time.Duration
}

func newGet() *cobra.Command {
	g := &get{}
	cmd := &cobra.Command{
		Use:     "get [KIND | NAME]...",
		Short:   "Show what is configured and what is happening",
		Long:    getLong,
		Example: getExample,
		Args:    cobra.ArbitraryArgs,
		RunE:    g.run,
	}
	g.c.flags(cmd)
	g.output.FlagWide(cmd)
	f := cmd.Flags()
	f.BoolVarP(&g.watch, "watch", "w", false, "show the tables anew until you end it")
	f.DurationVar(&g.every, "every", 2*time.Second,
		"with --watch, time from an answer to the next question, at least 1s")
	cmd.ValidArgsFunction = completeNames(&g.c, resource.Kinds, "pools", "plans", "tenants", "quotas", "limits",
		"overrides", gateways)
	return cmd
}

func (g *get) run(cmd *cobra.Command, args []string) error {
	if slices.ContainsFunc(args, isGateways) {
		return g.runGateways(cmd, args)
	}
	wanted, err := g.read(args)
	if err != nil {
		return command.Usage(err)
	}
	client, err := g.c.dial()
	if err != nil {
		return err
	}
	defer client.close()
	if g.watch {
		return g.follow(cmd.Context(), cmd.OutOrStdout(), func() (string, error) {
			return client.tables(cmd.Context(), wanted, g.output)
		})
	}
	ms, err := client.fetch(cmd.Context(), wanted)
	if err != nil {
		return worded(err)
	}
	if len(ms) == 0 && g.output.Tables() {
		fmt.Fprintln(cmd.ErrOrStderr(), nothingThere)
		return nil
	}
	return writeResources(cmd.OutOrStdout(), g.output, ms)
}

// nothingThere is said in place of tables.
const nothingThere = "Nothing is configured there. " +
	"titrate apply -f FILE configures; titrate apply --help has an example."

// read checks the flags and returns what the arguments ask for. The tables of a tenant or a plan have
// what belongs to it; its document stands alone.
func (g *get) read(args []string) (wanted []selection, err error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	for _, arg := range args {
		s, err := selectionOf(arg)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, s)
		if (s.kind == resource.Tenant || s.kind == resource.Plan) && s.name != "" && g.output.Tables() {
			wanted = append(wanted, selection{kind: resource.Quota, parent: s.name},
				selection{kind: resource.Limit, parent: s.name})
		}
		if s.kind == resource.Limit && strings.HasPrefix(s.name, "tenants/") && g.output.Tables() {
			wanted = append(wanted, selection{kind: resource.Override, parent: s.name})
		}
	}
	if len(args) == 0 {
		for _, kind := range resource.Kinds {
			if kind == resource.Override && g.output.Tables() { // there may be a million
				continue
			}
			wanted = append(wanted, selection{kind: kind})
		}
	}
	return wanted, nil
}

// check refuses flags that contradict each other.
func (g *get) check() error {
	switch {
	case g.watch && !g.output.Tables():
		return fmt.Errorf("--watch is for tables: leave out --output %s", g.output)
	case g.every < time.Second:
		return fmt.Errorf("--every %s: want at least 1s", g.every)
	}
	return nil
}

// tables are the tables of what the selections ask for.
func (c *client) tables(ctx context.Context, wanted []selection, as command.Format) (string, error) {
	ms, err := c.fetch(ctx, wanted)
	if err != nil {
		return "", err
	}
	if len(ms) == 0 {
		return nothingThere + "\n", nil
	}
	var b strings.Builder
	err = writeResources(&b, as, ms)
	return b.String(), err
}

// follow shows what ask says, until ctx ends or the user does: at a terminal in place of what it
// said before, elsewhere below it, if it differs.
func (g *get) follow(ctx context.Context, out io.Writer, ask func() (string, error)) error {
	if command.Terminal(out) {
		s := &screen{every: g.every, ask: func() func() (string, error) { return ask }, obey: func(string) {},
			head: func() string { return fmt.Sprintf("every %s; q ends", g.every) }}
		return s.run(ctx, out)
	}
	for before, between := "", ""; ; between = "\n" {
		text, err := ask()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return worded(err)
		}
		if text != before {
			if _, err := io.WriteString(out, between+text); err != nil {
				return err
			}
			before = text
		}
		if !pause.For(ctx, g.every) {
			return nil
		}
	}
}

func writeResources(w io.Writer, output command.Format, ms []resource.Message) error {
	switch output {
	case command.AsJSON:
		return document.WriteJSON(w, ms...)
	case command.AsYAML:
		return document.WriteYAML(w, ms...)
	}
	if err := writeTables(w, ms, output == command.AsWide); err != nil {
		return err
	}
	return writeWarnings(w, ms)
}

// mostWarnings is the number of warnings below the tables.
const mostWarnings = 20

// writeWarnings lists, below the tables, what gateways make of what is configured.
func writeWarnings(w io.Writer, ms []resource.Message) error {
	n, head := 0, "\nWARNINGS\n"
	for _, m := range ms {
		for _, text := range resource.Warnings(m) {
			if n++; n > mostWarnings {
				continue
			}
			if _, err := fmt.Fprintf(w, "%s%s: %s\n", head, m.GetName(), text); err != nil {
				return err
			}
			head = ""
		}
	}
	return writeRest(w, n-mostWarnings, "warnings", "-o json has all")
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

// list returns all pages of what one selection asks for.
func (c *client) list(ctx context.Context, s selection) ([]resource.Message, error) {
	if s.name != "" {
		m, err := bykind.Get(ctx, c, s.kind, s.name)
		return []resource.Message{m}, err
	}
	var all []resource.Message
	err := c.each(ctx, s, func(m resource.Message) error {
		all = append(all, m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// each visits what one selection of many asks for, and holds one page.
func (c *client) each(ctx context.Context, s selection, visit func(resource.Message) error) error {
	if s.parent == "" && s.kind.Child() {
		parents := []string{"plans/*", "tenants/*"} // in the order of the names
		if s.kind == resource.Override {
			parents = parents[1:]
		}
		for _, s.parent = range parents {
			if err := c.each(ctx, s, visit); err != nil {
				return err
			}
		}
		return nil
	}
	for token := ""; ; {
		page, next, err := c.page(ctx, s, token)
		if err != nil {
			return err
		}
		for _, m := range page {
			if err := visit(m); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		token = next
	}
}

// pageSize is the most that the API gives at once.
const pageSize = 1000

func (c *client) page(ctx context.Context, s selection, token string) ([]resource.Message, string, error) {
	switch s.kind {
	case resource.Pool:
		r, err := c.ListPools(ctx, &quotav1.ListPoolsRequest{PageSize: pageSize, PageToken: token})
		return messages(r.GetPools()), r.GetNextPageToken(), err
	case resource.Plan:
		r, err := c.ListPlans(ctx, &quotav1.ListPlansRequest{PageSize: pageSize, PageToken: token})
		return messages(r.GetPlans()), r.GetNextPageToken(), err
	case resource.Tenant:
		r, err := c.ListTenants(ctx, &quotav1.ListTenantsRequest{PageSize: pageSize, PageToken: token})
		return messages(r.GetTenants()), r.GetNextPageToken(), err
	case resource.Quota:
		r, err := c.ListQuotas(ctx, &quotav1.ListQuotasRequest{Parent: s.parent, PageSize: pageSize, PageToken: token})
		return messages(r.GetQuotas()), r.GetNextPageToken(), err
	case resource.Override:
		r, err := c.ListOverrides(ctx, &quotav1.ListOverridesRequest{Parent: s.parent, PageSize: pageSize,
			PageToken: token})
		return messages(r.GetOverrides()), r.GetNextPageToken(), err
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
