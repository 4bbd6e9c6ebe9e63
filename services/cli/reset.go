package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/control/config"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/wording"
)

const resetLong = `reset lets one client of a limit begin anew, at every gateway within a second: it has the whole
burst again, or the whole amount of a quota's present period. The others notice nothing.

LIMIT is a limit of the tenant, of its plan, or of every tenant. A limit with key TENANT
has one count for all clients: leave out --client. A limit with a concurrency has nothing
to reset: a request in flight ends by itself.

What was used of a quota stays: titrate usage shows the use before and after the reset as
two lines, and their sum is what the client has used.

A reset is an entry in the tenant's field resets. titrate history has its author and its
--reason. titrate rollback undoes it: the count from before goes on, without what was used
since. A tenant keeps its last 100 resets. When one makes room for another, its client
begins anew once more. An apply of the tenant from a file without the field keeps them.`

const resetExample = `  titrate reset acme limits/per-client --client alice --reason "our fault"
  titrate reset acme limits/monthly --client alice --dry-run`

// reset is one call of reset.
type reset struct{ block }

func newReset() *cobra.Command {
	r := &reset{}
	cmd := &cobra.Command{
		Use: "reset TENANT LIMIT [--client NAME]", Short: "Let one client's count of a limit begin anew",
		Long: resetLong, Example: resetExample, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.read(args); err != nil {
				return command.Usage(err)
			}
			r.ask.Message = fmt.Sprintf("reset %s of limits/%s", r.who(), r.limit)
			if r.reason != "" {
				r.ask.Message += ": " + r.reason
			}
			return r.c.use(func(client *client) error { return r.run(cmd, client, r.fill) })
		},
	}
	r.flags(cmd)
	return cmd
}

func (r *reset) who() string {
	if r.client == "" {
		return "all clients together"
	}
	return "client " + wording.Quote(r.client)
}

func (r *reset) read(args []string) (err error) {
	if len(args) != 2 {
		return fmt.Errorf("want a TENANT and a LIMIT, such as titrate reset acme limits/per-client --client alice")
	}
	if r.tenant, err = full(resource.Tenant, args[0]); err != nil {
		return err
	}
	r.limit = strings.TrimPrefix(strings.TrimPrefix(args[1], r.tenant+"/"), "limits/")
	if _, err := resource.Parse(r.tenant + "/limits/" + r.limit); err != nil {
		return fmt.Errorf("limit %s: %w", wording.Quote(args[1]), err)
	}
	return nil
}

// fill asks for the tenant with the reset.
func (r *reset) fill(ctx context.Context, c *client) (what string, err error) {
	t, err := c.GetTenant(ctx, &quotav1.GetTenantRequest{Name: r.tenant})
	if err != nil {
		return "", err
	}
	l, err := r.held(ctx, c, t)
	if err != nil {
		return "", err
	}
	switch {
	case l.GetConcurrency() > 0:
		return "", fmt.Errorf("%s has a concurrency: there is nothing to reset, a request in flight ends by itself",
			l.GetName())
	case l.GetKey() == quotav1.Key_TENANT && r.client != "":
		return "", fmt.Errorf("%s has key TENANT, so all clients have one count: leave out --client", l.GetName())
	case l.GetKey() != quotav1.Key_TENANT && r.client == "":
		return "", fmt.Errorf("%s counts each client apart: say which one with --client", l.GetName())
	}
	now := timestamppb.New(time.Now().Truncate(time.Millisecond))
	one := &quotav1.Reset{Limit: r.limit, Client: r.client, Time: now}
	t.Resets = slices.DeleteFunc(t.GetResets(), func(o *quotav1.Reset) bool {
		return o.GetLimit() == one.Limit && o.GetClient() == one.Client
	})
	what = fmt.Sprintf("%s of %s begins anew at every gateway", r.who(), l.GetName())
	if l.GetQuota() != nil {
		what += ", with the whole amount of the present period"
	}
	if len(t.Resets) >= config.MaxResets {
		first := slices.MinFunc(t.Resets, func(a, b *quotav1.Reset) int {
			return a.GetTime().AsTime().Compare(b.GetTime().AsTime())
		})
		t.Resets = slices.DeleteFunc(t.Resets, func(o *quotav1.Reset) bool { return o == first })
		what += fmt.Sprintf("; so does client %s of limits/%s, whose reset of %s made room",
			wording.Quote(first.GetClient()), first.GetLimit(), resource.Moment(first.GetTime()))
	}
	t.Resets = append(t.Resets, one)
	r.ask.Resources = append(r.ask.Resources, resource.Of(t))
	return what, nil
}

// held returns the limit of that name which holds for the tenant: its own, its plan's, or every tenant's.
func (r *reset) held(ctx context.Context, c *client, t *quotav1.Tenant) (*quotav1.Limit, error) {
	parents := []string{r.tenant, "tenants/" + resource.AnyTenant}
	if t.GetPlan() != "" {
		parents = slices.Insert(parents, 1, "plans/"+t.GetPlan())
	}
	for _, parent := range parents {
		l, err := c.GetLimit(ctx, &quotav1.GetLimitRequest{Name: parent + "/limits/" + r.limit})
		if status.Code(err) != codes.NotFound {
			return l, err
		}
	}
	return nil, fmt.Errorf("%s has no limit %s, neither itself nor of a plan nor of every tenant", r.tenant,
		wording.Quote(r.limit))
}
