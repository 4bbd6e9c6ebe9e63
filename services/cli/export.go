package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/store/resource"
)

const exportLong = `export writes the configuration as documents for titrate apply, without what only the
server knows: no etag, no status. The order is always the same, so that two exports can be
compared, and kept in git. With --revision it is what the configuration was after a revision
of titrate history; with --set only what that set owns.`

const exportExample = `  titrate export > config/all.yaml
  titrate export --set prod > config/prod.yaml
  titrate export --revision 1795362000123 | diff - config/all.yaml`

func newExport() *cobra.Command {
	var (
		c        connection
		set      string
		revision int64
		output   format
	)
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Write the configuration as documents, of now or of a revision",
		Long:    exportLong,
		Example: exportExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if revision < 0 {
				return usagef("--revision %d: want a number that titrate history lists", revision)
			}
			return runExport(cmd, &c, output, set, revision)
		},
	}
	c.flags(cmd)
	output.flag(cmd)
	output = asYAML
	f := cmd.Flags()
	f.Lookup("output").DefValue = string(asYAML)
	f.StringVar(&set, "set", "", "only what this set owns (default everything)")
	f.Int64Var(&revision, "revision", 0, "the configuration after this revision (default now)")
	return cmd
}

func runExport(cmd *cobra.Command, c *connection, output format, set string, revision int64) error {
	client, err := c.dial()
	if err != nil {
		return err
	}
	defer client.close()
	ms, err := client.configuration(cmd.Context(), revision)
	if err != nil {
		return worded(err)
	}
	var out []resource.Message
	for _, m := range ms {
		if set == "" || m.GetSet() == set {
			out = append(out, resource.Spec(m))
		}
	}
	if len(out) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing is configured there.")
		return nil
	}
	return writeResources(cmd.OutOrStdout(), output, out)
}

// configuration is everything that is configured, of a revision or of now (0), kind by kind
// in the order of the names.
func (c *client) configuration(ctx context.Context, revision int64) ([]resource.Message, error) {
	all := map[string]resource.Message{}
	for _, kind := range resource.Kinds {
		ms, err := c.list(ctx, selection{kind: kind})
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			all[m.GetName()] = m
		}
	}
	if revision > 0 {
		back, err := c.Plan(ctx, &quotav1.PlanRequest{Rollback: revision})
		if err != nil {
			return nil, err
		}
		for _, change := range back.GetChanges() {
			if delete(all, change.GetName()); change.GetAfter() != nil {
				all[change.GetName()] = resource.Unwrap(change.GetAfter())
			}
		}
	}
	var out []resource.Message
	for _, m := range all {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b resource.Message) int {
		if d := int(resource.KindOf(a)) - int(resource.KindOf(b)); d != 0 {
			return d
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return out, nil
}
