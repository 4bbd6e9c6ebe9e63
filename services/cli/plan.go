package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/quota"
)

const planLong = `plan says what an apply of the documents would do, and changes nothing: which resources
it creates (+), updates (~) and deletes (-); and what would happen with the demand of now,
as the coordinator's allocator computes it: shares, what tenants ask for beyond them (OVER),
fair rates and prices of pools. Limits of clients act before shares; what a changed limit
does to the demand is not computed.

A plan ends with guards, reasons to think again, and exit status 1 if there are any:

  cut-half                     a capacity, guarantee, max or rate of a limit is more than halved,
                               or the share of a tenant that uses it
  delete-in-use                a tenant or a pool is deleted that is in use now
  guarantees-beyond-capacity   the guarantees of a pool add up to more than its capacity
  unknown-name                 an identity, a class or a cost that no gateway knows
  effects-unknown              no coordinator could say what happens

--waive NAME accepts a guard. titrate apply --plan and titrate rollback show the same plan,
and do it only if all guards are waived, on exactly the configuration that was planned for.`

const planExample = `  titrate plan -f quotas.yaml
  titrate plan -f config/ --set prod --prune
  titrate apply -f quotas.yaml --plan --waive cut-half`

func newPlan() *cobra.Command {
	var (
		c      connection
		output command.Format
		files  []string
		asked  planned
		ask    quotav1.ApplyRequest
	)
	cmd := &cobra.Command{
		Use:     "plan -f FILE|DIR|-",
		Short:   "Say what an apply would change, and what would happen",
		Long:    planLong,
		Example: planExample,
		Args:    command.FilesByFlag,
		RunE: func(cmd *cobra.Command, _ []string) error {
			documents, err := readDocuments(cmd, files, asked.prune)
			if err != nil {
				return err
			}
			return runPlan(cmd, &c, output, documents, &ask, asked)
		},
	}
	c.flags(cmd)
	output.Flag(cmd)
	command.FileFlag(cmd, &files, "file or directory of documents, - for standard input; may be repeated")
	_ = cmd.MarkFlagRequired("file")
	setFlags(cmd.Flags(), &ask, &asked.prune)
	asked.waiveFlag(cmd.Flags())
	return cmd
}

// planned has the user's answers to the guards of a plan.
type planned struct {
	prune bool
	waive []string
}

func (p *planned) waiveFlag(f *pflag.FlagSet) {
	f.StringSliceVar(&p.waive, "waive", nil, "name of a guard to accept, see titrate plan --help; may be repeated")
}

// begin connects and fills the request with the documents, for their plan or their apply.
func (p *planned) begin(cmd *cobra.Command, c *connection, documents []*document.Document,
	request *quotav1.ApplyRequest) (*client, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	client, err := c.dialFor(cmd, len(documents))
	if err != nil {
		return nil, err
	}
	if err := client.fill(cmd.Context(), request, documents, p.prune); err != nil {
		client.close()
		return nil, err
	}
	return client, nil
}

// check refuses names that are no guards.
func (p *planned) check() error {
	for _, name := range p.waive {
		if !slices.Contains(quota.Guards, name) {
			return command.Usagef("--waive %q is no guard: want one of %s", name, strings.Join(quota.Guards, ", "))
		}
	}
	return nil
}

func runPlan(cmd *cobra.Command, c *connection, output command.Format, documents []*document.Document,
	ask *quotav1.ApplyRequest, asked planned) error {
	client, err := asked.begin(cmd, c, documents, ask)
	if err != nil {
		return err
	}
	defer client.close()
	plan, err := client.Plan(cmd.Context(), &quotav1.PlanRequest{Apply: ask})
	if err != nil {
		return applyError(err, documents)
	}
	part := extent{rest: "-o json has all"}
	err = output.Message(cmd.OutOrStdout(), plan, func(w io.Writer) error { return writePlan(w, plan, part) })
	return errors.Join(err, asked.stands(plan, part))
}

// planFirst shows the plan of a request, and makes the request hold only for what was planned
// for. A guard that was not waived is an error.
func (c *client) planFirst(cmd *cobra.Command, w io.Writer, r *quotav1.ApplyRequest, documents []*document.Document,
	asked planned) error {
	plan, err := c.Plan(cmd.Context(), &quotav1.PlanRequest{Apply: r})
	if err != nil {
		return applyError(err, documents)
	}
	part := extent{rest: "titrate plan -o json has all"}
	if err := writePlan(w, plan, part); err != nil {
		return err
	}
	if err := asked.stands(plan, part); err != nil {
		return fmt.Errorf("nothing was applied: %w", err)
	}
	r.ExpectedRevision = plan.GetRevision()
	return nil
}

// stands is the error of guards that were not waived.
func (p *planned) stands(plan *quotav1.PlanResponse, part extent) error {
	var lines []error
	var names []string
	of := map[string]int{} // guards of a name
	for _, g := range plan.GetGuards() {
		if slices.Contains(p.waive, g.GetName()) {
			continue
		}
		if of[g.GetName()]++; of[g.GetName()] == 1 {
			names = append(names, g.GetName())
		}
		where := ""
		if g.GetResource() != "" {
			where = g.GetResource() + ": "
		}
		if part.all || of[g.GetName()] <= mostGuards {
			lines = append(lines, fmt.Errorf("%s: %s%s", g.GetName(), where, g.GetMessage()))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	for _, name := range names {
		if more := of[name] - mostGuards; more > 0 && !part.all {
			lines = append(lines, fmt.Errorf("%s: and %d more; %s", name, more, part.rest))
		}
	}
	return fmt.Errorf("guards stand against this:\n%w\nIf it is meant: --waive %s", errors.Join(lines...),
		strings.Join(names, ","))
}

// What a plan shows at most: resources, tenants, and guards of a name.
const (
	mostChanges = 1000
	mostEffects = 50
	mostGuards  = 10
)

// extent is the part of a plan that is shown.
type extent struct {
	all  bool
	rest string // which command shows all
}

func writePlan(w io.Writer, plan *quotav1.PlanResponse, part extent) error {
	if len(plan.GetChanges()) == 0 {
		_, err := fmt.Fprintln(w, "Nothing to change.")
		return err
	}
	changes := plan.GetChanges()
	n := part.of(len(changes), mostChanges)
	if err := writeChanges(w, changes[:n]); err != nil {
		return err
	}
	if err := writeRest(w, len(changes)-n, "resources", part.rest); err != nil {
		return err
	}
	if err := writePoolEffects(w, plan.GetPools()); err != nil {
		return err
	}
	return writeFlowEffects(w, plan.GetFlows(), part)
}

// of returns the number of items that are shown, of n.
func (e extent) of(n, most int) int {
	if e.all {
		return n
	}
	return min(n, most)
}

func writePoolEffects(w io.Writer, pools []*quotav1.PoolEffect) error {
	t := command.NewTable("POOL", "#DEMAND", "#CAPACITY", "#THEN", "#FAIR",
		"#THEN", "#PRICE", "#THEN")
	for _, e := range pools {
		t.Add(e.GetPool(), command.PerSecond(e.GetDemand()), command.PerSecond(e.GetCapacityBefore()),
			command.PerSecond(e.GetCapacityAfter()),
			fairOrNone(e.GetFairRateBefore()), fairOrNone(e.GetFairRateAfter()), command.Number(e.GetPriceBefore()),
			command.Number(e.GetPriceAfter()))
	}
	return writeBelow(w, t)
}

func fairOrNone(x float64) string {
	if x == 0 {
		return command.None
	}
	return command.PerSecond(x)
}

// writeFlowEffects writes the effects on tenants, the greatest losses first.
func writeFlowEffects(w io.Writer, flows []*quotav1.FlowEffect, part extent) error {
	flows = slices.Clone(flows)
	slices.SortStableFunc(flows, func(a, b *quotav1.FlowEffect) int {
		lose := func(e *quotav1.FlowEffect) float64 { return e.GetOverAfter() - e.GetOverBefore() }
		switch x, y := lose(a), lose(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	t := command.NewTable("TENANT", "POOL", "#DEMAND", "#SHARE", "#THEN",
		"#OVER", "#THEN", "THEN BOUND BY")
	n := part.of(len(flows), mostEffects)
	for _, e := range flows[:n] {
		bound := command.None
		if e.GetBoundAfter() != quotav1.Bound_BOUND_UNSPECIFIED {
			bound = e.GetBoundAfter().String()
		}
		t.Add(e.GetTenant(), e.GetPool(), command.PerSecond(max(e.GetDemandAfter(), e.GetDemandBefore())),
			command.PerSecond(e.GetShareBefore()), command.PerSecond(e.GetShareAfter()),
			command.PerSecond(e.GetOverBefore()),
			command.PerSecond(e.GetOverAfter()), bound)
	}
	if err := writeBelow(w, t); err != nil {
		return err
	}
	return writeRest(w, len(flows)-n, "rows, which lose less", part.rest)
}

// writeRest says how many more there are of what was shown in part, and what has all.
func writeRest(w io.Writer, more int, of, all string) error {
	if more <= 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "and %d more %s; %s\n", more, of, all)
	return err
}

// writeBelow writes a table that has rows below an empty line.
func writeBelow(w io.Writer, t *command.Table) error {
	if len(t.Rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w)
}
