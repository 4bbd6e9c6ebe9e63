package cli

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

const rollbackLong = `rollback makes the configuration what it was after a revision of titrate history:
resources that were created since are deleted, resources that were deleted or changed since
are put back, all in one transaction. It shows what it would do and what would happen, as titrate
plan does, and does it with --yes, if all guards of the plan are waived.

A rollback is a change as any other: it is a new revision, and can be rolled back itself.
If somebody changes the configuration between the plan and the rollback, nothing happens.`

const rollbackExample = `  titrate rollback 1795362000123
  titrate rollback 1795362000123 --yes -m "the new plan starves batch"`

func newRollback() *cobra.Command {
	var (
		c     connection
		ask   quotav1.RollbackRequest
		yes   bool
		part  = extent{rest: "--all shows all"}
		asked planned
	)
	cmd := &cobra.Command{
		Use:     "rollback REVISION",
		Short:   "Go back to an earlier configuration",
		Long:    rollbackLong,
		Example: rollbackExample,
		Args:    oneRevision,
		RunE: func(cmd *cobra.Command, args []string) error {
			ask.Revision, _ = strconv.ParseInt(args[0], 10, 64)
			return runRollback(cmd, &c, &ask, asked, part, yes)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, after showing what it does")
	cmd.Flags().BoolVar(&part.all, "all", false, "show all resources, tenants and guards, not only the first")
	messageFlag(cmd.Flags(), &ask.Message)
	requestFlag(cmd.Flags(), &ask.RequestId)
	asked.waiveFlag(cmd.Flags())
	return cmd
}

func runRollback(cmd *cobra.Command, c *connection, ask *quotav1.RollbackRequest, asked planned, part extent,
	yes bool) error {
	if err := asked.check(); err != nil {
		return err
	}
	client, err := c.dial()
	if err != nil {
		return err
	}
	defer client.close()
	plan, err := client.Plan(cmd.Context(), &quotav1.PlanRequest{Rollback: ask.GetRevision()})
	if err != nil {
		return worded(err)
	}
	w := cmd.OutOrStdout()
	if len(plan.GetChanges()) == 0 {
		fmt.Fprintf(w, "Nothing to change: the configuration is what it was at revision %d.\n", ask.GetRevision())
		return nil
	}
	if err := writePlan(w, plan, part); err != nil {
		return err
	}
	if err := asked.stands(plan, part); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if !yes {
		fmt.Fprintf(w, "Nothing was changed yet. To do it: titrate rollback %d --yes\n", ask.GetRevision())
		return nil
	}
	if n := len(plan.GetChanges()); n >= manyDocuments && !cmd.Flags().Changed("timeout") {
		client.limit += time.Duration(n) * perDocument
	}
	ask.ExpectedRevision, ask.RequestId = plan.GetRevision(), cmp.Or(ask.GetRequestId(), rand.Text())
	done, err := client.Rollback(cmd.Context(), ask)
	if status.Code(err) == codes.Aborted {
		return fmt.Errorf("nothing was changed: somebody changed the configuration after this plan; run it again: %w",
			worded(err))
	}
	if err != nil {
		return worded(err)
	}
	if done.GetRevision() <= plan.GetRevision() {
		fmt.Fprintf(w, "Nothing was changed now: the request %s has rolled back to %d before, in revision %d.\n",
			ask.GetRequestId(), ask.GetRevision(), done.GetRevision())
		return nil
	}
	fmt.Fprintf(w, "Rolled back to %d; the configuration is now revision %d.\n", ask.GetRevision(), done.GetRevision())
	return nil
}
