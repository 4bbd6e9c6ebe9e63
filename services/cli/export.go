package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
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
		output   command.Format
	)
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Write the configuration as documents, of now or of a revision",
		Long:    exportLong,
		Example: exportExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if revision < 0 {
				return command.Usagef("--revision %d: want a number that titrate history lists", revision)
			}
			return c.use(func(client *client) error { return runExport(cmd, client, output, set, revision) })
		},
	}
	c.flags(cmd)
	output.Flag(cmd)
	output = command.AsYAML
	f := cmd.Flags()
	f.Lookup("output").DefValue = string(command.AsYAML)
	f.StringVar(&set, "set", "", "only what this set owns (default everything)")
	f.Int64Var(&revision, "revision", 0, "the configuration after this revision (default now)")
	return cmd
}

func runExport(cmd *cobra.Command, client *client, output command.Format, set string, revision int64) error {
	to, tabled, sets := bufio.NewWriter(cmd.OutOrStdout()), []resource.Message(nil), map[string]bool{}
	w := document.NewWriter(to, output == command.AsJSON)
	err := client.configuration(cmd.Context(), revision, func(m resource.Message) error {
		sets[m.GetSet()] = true
		switch {
		case set != "" && m.GetSet() != set:
			return nil
		case output == command.AsJSON || output == command.AsYAML:
			return w.Write(resource.Spec(m))
		}
		tabled = append(tabled, resource.Spec(m))
		return nil
	})
	switch {
	case err != nil:
		return errors.Join(worded(err), to.Flush())
	case set != "" && !sets[set]:
		return noSet(set, sets)
	case w.Count()+len(tabled) == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing is configured there.")
		return nil
	case tabled != nil:
		return writeResources(cmd.OutOrStdout(), output, tabled)
	}
	return errors.Join(w.Close(), to.Flush())
}

// noSet is the error about a set that owns nothing.
func noSet(set string, owners map[string]bool) error {
	delete(owners, "")
	names := slices.Sorted(maps.Keys(owners))
	if len(names) == 0 {
		return fmt.Errorf("no resource belongs to set %s, or to any set", wording.Quote(set))
	}
	return fmt.Errorf("no resource belongs to set %s%s", wording.Quote(set), wording.Meant(set, names))
}

// ofKind visits the resources of a kind in the order of their names, without what has changed since.
func (c *client) ofKind(ctx context.Context, kind resource.Kind, since []*quotav1.ResourceChange,
	visit func(resource.Message) error) error {
	was := slices.DeleteFunc(slices.Clone(since), func(c *quotav1.ResourceChange) bool {
		ref, err := resource.Parse(c.GetName())
		return err != nil || ref.Kind != kind
	})
	// until visits what the revision has of names before next.
	until := func(next string) error {
		for ; len(was) > 0 && (next == "" || was[0].GetName() < next); was = was[1:] {
			if m := resource.Unwrap(was[0].GetAfter()); m != nil {
				if err := visit(m); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := c.each(ctx, selection{kind: kind}, func(m resource.Message) error {
		if err := until(m.GetName()); err != nil {
			return err
		}
		if len(was) > 0 && was[0].GetName() == m.GetName() {
			return until(m.GetName() + "\x00")
		}
		return visit(m)
	})
	if err != nil {
		return err
	}
	return until("")
}

// configuration visits everything that is configured, of a revision or of now (0), kind by kind in
// the order of the names. It holds a page of it, and of a revision what has changed since.
func (c *client) configuration(ctx context.Context, revision int64, visit func(resource.Message) error) error {
	var since []*quotav1.ResourceChange
	var on int64 // the revision that since goes back from
	if revision > 0 {
		back, err := c.Plan(ctx, &quotav1.PlanRequest{Rollback: revision})
		if err != nil {
			return err
		}
		since, on = back.GetChanges(), back.GetRevision()
		slices.SortFunc(since, func(a, b *quotav1.ResourceChange) int {
			return strings.Compare(a.GetName(), b.GetName())
		})
	}
	for _, kind := range resource.Kinds {
		if err := c.ofKind(ctx, kind, since, visit); err != nil {
			return err
		}
	}
	if revision == 0 {
		return nil
	}
	now, err := c.Plan(ctx, &quotav1.PlanRequest{Rollback: revision})
	if err == nil && now.GetRevision() != on {
		err = fmt.Errorf("the configuration has changed from revision %d to %d while it was read, so that what was "+
			"written may mix both: export it again", on, now.GetRevision())
	}
	return err
}
