package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/wording"
)

const historyLong = `history lists the changes of the configuration, the newest first: the revision that
each made, when, by whom, how many resources it created (+), updated (~) and deleted (-),
and the message that was given with -m.

titrate history show REVISION says what exactly a change did; titrate rollback REVISION
goes back to what the configuration was after it.

Who made a change is known by the client certificate or the token; without either only an
address is. The history is in etcd beside the configuration, and is backed up with it. How
much is kept the coordinators' --history-keep and --history-bytes say. A change by titrate
recover, or by a coordinator of a version without history, leaves a gap, which rollback
refuses to cross.`

const historyExample = `  titrate history
  titrate history -n 100 -o json
  titrate history show 1795362000123`

func newHistory() *cobra.Command {
	var (
		c      connection
		output command.Format
		most   int
	)
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "Show who changed what, when and why",
		Long:    historyLong,
		Example: historyExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 1 {
				return command.Usagef("-n %d: want 1 at least", most)
			}
			return c.use(func(client *client) error { return runHistory(cmd, client, output, most) })
		},
	}
	c.flags(cmd)
	output.Flag(cmd)
	cmd.Flags().IntVarP(&most, "number", "n", 20, "most changes to list")
	cmd.AddCommand(newHistoryShow())
	return cmd
}

func runHistory(cmd *cobra.Command, client *client, output command.Format, most int) error {
	all, err := client.revisions(cmd.Context(), most)
	if err != nil {
		return worded(err)
	}
	if output == command.AsTable && len(all.GetRevisions()) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No change is in the history.")
		return nil
	}
	return output.Message(cmd.OutOrStdout(), all, func(w io.Writer) error {
		return writeRevisions(w, all.GetRevisions())
	})
}

// revisions returns the newest revisions, at most so many.
func (c *client) revisions(ctx context.Context, most int) (*quotav1.ListRevisionsResponse, error) {
	all := &quotav1.ListRevisionsResponse{}
	for token := ""; ; {
		ask := &quotav1.ListRevisionsRequest{PageSize: int32(min(most-len(all.Revisions), pageSize)), PageToken: token}
		page, err := c.ListRevisions(ctx, ask)
		if err != nil {
			return nil, err
		}
		all.Revisions = append(all.Revisions, page.GetRevisions()...)
		if token = page.GetNextPageToken(); token == "" || len(all.Revisions) >= most {
			return all, nil
		}
	}
}

func writeRevisions(w io.Writer, revisions []*quotav1.Revision) error {
	t := command.NewTable("REVISION", "TIME", "CHANGES", "ACTION",
		"SET", "AUTHOR", "MESSAGE")
	for _, r := range revisions {
		t.Add(strconv.FormatInt(r.GetRevision(), 10), moment(r), counts(r), cmp.Or(r.GetAction(), command.None),
			cmp.Or(r.GetSet(), command.None), cmp.Or(r.GetAuthor(), command.None), cmp.Or(r.GetMessage(), command.None))
	}
	return t.Write(w)
}

func moment(r *quotav1.Revision) string { return r.GetTime().AsTime().UTC().Format(time.RFC3339) }

// counts says how many resources a revision created, updated and deleted.
func counts(r *quotav1.Revision) string {
	return fmt.Sprintf("+%d ~%d -%d", r.GetCreated(), r.GetUpdated(), r.GetDeleted())
}

const historyShowLong = `show says what a change did, resource by resource: + created, ~ updated, - deleted, and
the fields that differ.`

func newHistoryShow() *cobra.Command {
	var (
		c      connection
		output command.Format
		all    bool
	)
	cmd := &cobra.Command{
		Use:     "show REVISION",
		Short:   "Show what a change did",
		Long:    historyShowLong,
		Example: "  titrate history show 1795362000123",
		Args:    oneRevision,
		RunE: func(cmd *cobra.Command, args []string) error {
			ask := &quotav1.GetRevisionRequest{}
			ask.Revision, _ = strconv.ParseInt(args[0], 10, 64)
			return c.use(func(client *client) error { return runHistoryShow(cmd, client, output, ask, all) })
		},
	}
	c.flags(cmd)
	output.Flag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show all resources, not only the first 1000")
	return cmd
}

// oneRevision wants a revision as the only argument.
func oneRevision(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.Usagef("want one REVISION; titrate history lists them")
	}
	if n, err := strconv.ParseInt(args[0], 10, 64); err != nil || n < 1 {
		return command.Usagef("%s is not a revision: want a number that titrate history lists", wording.Quote(args[0]))
	}
	return nil
}

func runHistoryShow(cmd *cobra.Command, client *client, output command.Format, ask *quotav1.GetRevisionRequest,
	all bool) error {
	got, err := client.GetRevision(cmd.Context(), ask)
	for err == nil && all && got.GetMore() > 0 && got.GetRevision().GetBytes() > 0 {
		ask.Skip = int64(len(got.GetChanges()))
		var page *quotav1.GetRevisionResponse
		page, err = client.GetRevision(cmd.Context(), ask)
		got.Changes, got.More = append(got.Changes, page.GetChanges()...), page.GetMore()
	}
	if err != nil {
		return worded(err)
	}
	return output.Message(cmd.OutOrStdout(), got, func(w io.Writer) error { return writeRevision(w, got) })
}

// writeRevision writes one change with its diff.
func writeRevision(w io.Writer, got *quotav1.GetRevisionResponse) error {
	r := got.GetRevision()
	lines := []string{fmt.Sprintf("revision %d  %s  %s", r.GetRevision(), moment(r), counts(r)),
		"author:  " + cmp.Or(r.GetAuthor(), command.None), "action:  " + cmp.Or(r.GetAction(), command.None)}
	if r.GetSet() != "" {
		lines = append(lines, "set:     "+r.GetSet())
	}
	if r.GetRequestId() != "" {
		lines = append(lines, "request: "+r.GetRequestId())
	}
	if r.GetMessage() != "" {
		lines = append(lines, "message: "+strings.Map(command.Printable, r.GetMessage()))
	}
	if _, err := fmt.Fprintln(w, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if err := writeChanges(w, got.GetChanges()); err != nil {
		return err
	}
	return writeMore(w, got)
}

// writeMore says what is not shown.
func writeMore(w io.Writer, got *quotav1.GetRevisionResponse) (err error) {
	switch {
	case got.GetMore() == 0:
	case got.GetRevision().GetBytes() == 0:
		_, err = fmt.Fprintf(w, "The changes of its %s were too large to be kept: see --history-bytes of "+
			"titrate coordinator.\n", wording.Count(got.GetMore(), "resource"))
	default:
		_, err = fmt.Fprintf(w, "and %d more; --all shows them\n", got.GetMore())
	}
	return err
}
