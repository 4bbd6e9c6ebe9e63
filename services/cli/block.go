package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

const blockLong = `block refuses all requests of one client of a tenant, at every gateway within a second:
status 429, reason client_limit, without Retry-After. The others notice nothing.

With --for or --until the block ends by itself. Gateways count the time: it ends although
no coordinator runs, and whatever the clocks of their hosts say. Without either it stays
until titrate unblock. A second block of the client replaces the first one.

The client is named as the gateways name it: titrate top --by client shows the names.
The block is an Override with rate 0 of a limit. Without --limit that is the limit
blocked of the tenant, which limits nobody else. It comes with the first block, and goes
with the last titrate unblock. While it is there, each request of the tenant is counted
once more. With --limit the override is of that limit, whose identity then says what
a client is. It must have a rate, and no other numbers for the client. A block for
tenant "-", for all tenants, stands in the list of the limit.

A block is a change as any other: titrate history has its author and its --reason, titrate
why TENANT --client NAME says that it is there, and titrate rollback undoes it.`

const blockExample = `  titrate block acme --client mallory --for 1h --reason "scans us"
  titrate block acme --client 10.0.0.7 --limit per-address --for 30m --dry-run`

const unblockLong = `unblock takes back titrate block. It removes each override with rate 0 of the client, of all limits
of the tenant, or with --limit of that limit. Without one it fails.`

const unblockExample = `  titrate unblock acme --client mallory --reason "it was a test"`

// tries bounds how often a change is made anew because somebody else was faster.
const tries = 5

// block is one call of block or unblock.
type block struct {
	c                     connection
	output                command.Format
	client, limit, reason string
	tenant                string
	lasts                 time.Duration
	until                 string
	end                   *timestamppb.Timestamp // nil: none
	ask                   quotav1.ApplyRequest
}

func newBlock() *cobra.Command {
	b := &block{}
	cmd := b.command("block", "Refuse all requests of one client, for a while", blockLong, blockExample, b.block)
	cmd.Flags().DurationVar(&b.lasts, "for", 0, "how long, such as 30m or 24h, at least 1s")
	cmd.Flags().StringVar(&b.until, "until", "", "when it ends, such as 2026-12-01T00:00:00Z")
	return cmd
}

func newUnblock() *cobra.Command {
	b := &block{}
	return b.command("unblock", "Take back a block", unblockLong, unblockExample, b.unblock)
}

// command makes what block and unblock have in common. fill asks for the change of limits, and says what it means.
func (b *block) command(name, short, long, example string, fill func(context.Context, *client) (string, error),
) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " TENANT --client NAME", Short: short, Long: long, Example: example,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.read(cmd, args); err != nil {
				return command.Usage(err)
			}
			b.ask.Message = strings.TrimSuffix(fmt.Sprintf("%s client %q: %s", name, b.client, b.reason), ": ")
			return b.c.use(func(client *client) error { return b.run(cmd, client, fill) })
		},
	}
	b.flags(cmd)
	_ = cmd.MarkFlagRequired("client")
	cmd.Flags().StringVar(&b.limit, "limit", "", "limit to "+name+" it in, such as limits/per-client")
	return cmd
}

// flags adds the flags of block, unblock and reset.
func (b *block) flags(cmd *cobra.Command) {
	b.c.flags(cmd)
	b.output.Flag(cmd)
	f := cmd.Flags()
	f.StringVar(&b.client, "client", "", "name of the client, as gateways have it")
	f.StringVar(&b.reason, "reason", "", "why; titrate history and titrate why show it")
	f.BoolVar(&b.ask.ValidateOnly, "dry-run", false, "ask the coordinator what would happen, and change nothing")
	requestFlag(f, &b.ask.RequestId)
	cmd.ValidArgsFunction = completeNames(&b.c, []resource.Kind{resource.Tenant})
}

// read reads the arguments.
func (b *block) read(cmd *cobra.Command, args []string) (err error) {
	if len(args) != 1 {
		return fmt.Errorf("want one TENANT, such as titrate %s acme --client mallory", cmd.Name())
	}
	if b.tenant, err = full(resource.Tenant, args[0]); err != nil {
		return err
	}
	if b.limit != "" {
		b.limit = b.tenant + "/limits/" + strings.TrimPrefix(strings.TrimPrefix(b.limit, b.tenant+"/"), "limits/")
		if _, err := resource.Parse(b.limit); err != nil {
			return fmt.Errorf("--limit: %w", err)
		}
	}
	end := time.Now().Add(b.lasts)
	switch {
	case b.until != "" && cmd.Flags().Changed("for"):
		return fmt.Errorf("give --for or --until, one of the two")
	case b.until != "":
		if end, err = time.Parse(time.RFC3339, b.until); err != nil {
			return fmt.Errorf("--until %q: want a time with its zone, such as 2026-12-01T00:00:00Z", b.until)
		}
		if time.Until(end) <= 0 {
			return fmt.Errorf("--until %s has passed", b.until)
		}
	case !cmd.Flags().Changed("for"):
		return nil
	case b.lasts < time.Second:
		return fmt.Errorf("--for %s: want 1s at least, such as 30m or 24h", b.lasts)
	}
	b.end = timestamppb.New(end.Truncate(time.Second))
	return nil
}

// run makes the change, again if somebody was faster, and says what was done.
func (b *block) run(cmd *cobra.Command, client *client, fill func(context.Context, *client) (string, error)) error {
	b.ask.RequestId = cmp.Or(b.ask.GetRequestId(), rand.Text())
	var what string
	var done *quotav1.ApplyResponse
	var err error
	for range tries {
		b.ask.Resources, b.ask.Deletions, b.ask.ExpectedRevision = nil, nil, 0
		if what, err = fill(cmd.Context(), client); err == nil {
			done, err = client.Apply(cmd.Context(), &b.ask)
		}
		if status.Code(err) != codes.Aborted {
			break
		}
	}
	if err != nil {
		return worded(err)
	}
	var ms []resource.Message
	for _, r := range done.GetResources() {
		ms = append(ms, resource.Unwrap(r))
	}
	for _, w := range done.GetWarnings() {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s\n", w.GetResource(), w.GetMessage())
	}
	if b.output != command.AsTable {
		return writeResources(cmd.OutOrStdout(), b.output, ms)
	}
	if b.ask.GetValidateOnly() {
		what = "(dry run) " + what
	}
	for i, m := range ms {
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s\n", m.GetName(), strings.ToLower(done.Outcomes[i].String()), what)
	}
	for _, name := range done.GetDeleted() {
		fmt.Fprintf(cmd.OutOrStdout(), "%s deleted: %s\n", name, what)
	}
	return nil
}

// block asks for the block, which the coordinator words.
func (b *block) block(ctx context.Context, c *client) (what string, err error) {
	what = fmt.Sprintf("client %s is refused by every gateway until titrate unblock", wording.Quote(b.client))
	if b.end != nil {
		what = strings.Replace(what, "titrate unblock", resource.Moment(b.end), 1)
	}
	plan, err := c.PlanBlock(ctx, &quotav1.PlanBlockRequest{Tenant: b.tenant, Client: b.client, Limit: b.limit,
		Until: b.end})
	b.ask.Resources, b.ask.Deletions = plan.GetApply().GetResources(), plan.GetApply().GetDeletions()
	b.ask.ExpectedRevision = plan.GetApply().GetExpectedRevision()
	return what, err
}

// unblock asks for limits without their blocks of the client, in both forms. The limit of blocks goes with the last
// one.
func (b *block) unblock(ctx context.Context, c *client) (what string, err error) {
	limits, err := c.list(ctx, selection{kind: resource.Limit, name: b.limit, parent: b.tenant})
	if err != nil {
		return "", err
	}
	for _, m := range limits {
		l := m.(*quotav1.Limit)
		before := len(l.GetOverrides())
		l.Overrides = slices.DeleteFunc(l.GetOverrides(), func(o *quotav1.InlineOverride) bool {
			return o.GetClient() == b.client && resource.Blocks(o.GetRate())
		})
		gone, others, err := b.unblockOverride(ctx, c, l)
		switch {
		case err != nil:
			return "", err
		case len(l.Overrides) == before && !gone:
		case len(l.Overrides) == 0 && !others && resource.IsOfBlocks(l):
			b.ask.Deletions = append(b.ask.Deletions, &quotav1.Deletion{Name: l.GetName(), Etag: l.GetEtag()})
		case len(l.Overrides) < before:
			b.ask.Resources = append(b.ask.Resources, resource.Of(l))
		}
	}
	if len(b.ask.Resources)+len(b.ask.Deletions) == 0 {
		return "", fmt.Errorf("nothing was changed: no limit of %s blocks client %s; titrate why %s --client has "+
			"what limits it", b.tenant, wording.Quote(b.client), strings.TrimPrefix(b.tenant, "tenants/"))
	}
	return fmt.Sprintf("client %s is not blocked any more", wording.Quote(b.client)), nil
}

// unblockOverride asks for a limit without an Override that blocks the client. It reports whether there is one, and
// whether there are others.
func (b *block) unblockOverride(ctx context.Context, c *client, l *quotav1.Limit) (gone, others bool, err error) {
	if b.tenant == "tenants/"+resource.AnyTenant {
		return false, false, nil
	}
	r, err := c.ListOverrides(ctx, &quotav1.ListOverridesRequest{Parent: l.GetName(), PageSize: 2})
	if err != nil {
		return false, false, err
	}
	o, err := c.GetOverride(ctx, &quotav1.GetOverrideRequest{
		Name: l.GetName() + "/overrides/" + resource.ClientID(b.client)})
	switch {
	case status.Code(err) == codes.NotFound:
		return false, len(r.GetOverrides()) > 0, nil
	case err != nil:
		return false, false, err
	}
	if gone = resource.Blocks(o.GetRate()); gone {
		b.ask.Deletions = append(b.ask.Deletions, &quotav1.Deletion{Name: o.GetName(), Etag: o.GetEtag()})
	}
	return gone, len(r.GetOverrides()) > 1 || !gone, nil
}
