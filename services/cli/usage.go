package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/usage"
)

const usageLong = `usage shows what clients have used of calendar quotas (quota: in a limit): the cost of their
requests in the present period, or with --period in another one. USED has the real cost of requests, as far as that is
known; refused requests are not in it. All tenants are shown unless one is named.

A record is final an hour after the end of its period; later if an agent was lost or a coordinator was elected in that
hour. The present period and the last three are kept.

--export writes the final records of ended periods, one a line: json is the record, cloudevents is CloudEvents 1.0 with
the record as data. Records have an id that is the same in each export. So a program may export every hour, and keep
the ids that it does not know.`

const usageExample = `  titrate usage acme
  titrate usage acme monthly --client key-17 -o json
  titrate usage --period ended
  titrate usage --export json >>usage.jsonl`

// usageOf has the flags of the command usage.
type usageOf struct {
	c              connection
	output         command.Format
	client, period string
	export         string
}

func newUsage() *cobra.Command {
	u := &usageOf{}
	cmd := &cobra.Command{
		Use:     "usage [TENANT [LIMIT]]",
		Short:   "Show what clients have used of calendar quotas",
		Long:    usageLong,
		Example: usageExample,
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := u.check(); err != nil {
				return command.Usage(err)
			}
			return u.c.use(func(client *client) error { return u.run(cmd, client, args) })
		},
	}
	u.c.flags(cmd)
	u.output.Flag(cmd)
	f := cmd.Flags()
	f.StringVar(&u.client, "client", "", "only this client (default: all)")
	f.StringVar(&u.period, "period", "",
		"present, ended, all, or a period by its first day or month, such as 2026-11 (default present; of --export "+
			"ended)")
	f.StringVar(&u.export, "export", "", "write final records, one a line: json or cloudevents")
	return cmd
}

func (u *usageOf) check() error {
	switch u.export {
	case "":
		return nil
	case "json", "cloudevents":
	default:
		return fmt.Errorf("--export %q: want json or cloudevents", u.export)
	}
	u.period = cmp.Or(u.period, "ended")
	if u.output != command.AsTable {
		return fmt.Errorf("-o %s: none beside --export", u.output)
	}
	return nil
}

// request is the question of the arguments.
func (u *usageOf) request(args []string) *quotav1.ListUsageRequest {
	r := &quotav1.ListUsageRequest{Parent: "tenants/*", Client: u.client, Period: u.period, PageSize: 1000}
	if len(args) > 0 {
		r.Parent = "tenants/" + strings.TrimPrefix(args[0], "tenants/")
	}
	if len(args) > 1 {
		r.Limit = strings.TrimPrefix(args[1], "limits/")
	}
	return r
}

func (u *usageOf) run(cmd *cobra.Command, client *client, args []string) error {
	all := &quotav1.ListUsageResponse{}
	open := 0
	err := client.usage(cmd.Context(), u.request(args), func(page []*quotav1.Usage) error {
		if u.export == "" {
			all.Usage = append(all.Usage, page...)
			return nil
		}
		n, err := u.writeLines(cmd.OutOrStdout(), page)
		open += n
		return err
	})
	if err != nil {
		return worded(err)
	}
	if u.export != "" {
		if open > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "Left out: %d records that are not final yet.\n", open)
		}
		return nil
	}
	if u.output == command.AsTable && len(all.GetUsage()) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No use of a calendar quota is known.")
		return nil
	}
	return u.output.Message(cmd.OutOrStdout(), all, func(w io.Writer) error {
		_, err := io.WriteString(w, usageTable(all.GetUsage()))
		return err
	})
}

// usage gives take all pages of an answer.
func (c *client) usage(ctx context.Context, r *quotav1.ListUsageRequest, take func([]*quotav1.Usage) error) error {
	for {
		page, err := c.ListUsage(ctx, r)
		if err != nil {
			return err
		}
		if err := take(page.GetUsage()); err != nil {
			return err
		}
		if r.PageToken = page.GetNextPageToken(); r.GetPageToken() == "" {
			return nil
		}
	}
}

// writeLines writes the final records, and returns how many others there were.
func (u *usageOf) writeLines(w io.Writer, page []*quotav1.Usage) (open int, err error) {
	for _, one := range page {
		if !one.GetFinal() {
			open++
			continue
		}
		line, err := usage.JSON(one)
		if u.export == "cloudevents" {
			var event *usage.Event
			if event, err = usage.EventOfEnd(one); err == nil {
				line, err = json.Marshal(event)
			}
		}
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err != nil {
			return open, err
		}
	}
	return open, nil
}

// usageTable lays uses out.
func usageTable(all []*quotav1.Usage) string {
	t := command.NewTable("LIMIT", "CLIENT", "PERIOD", "#USED", "#OF", "#PART", "#REFUSED", "STATE")
	for _, u := range all {
		part := command.None
		if u.GetAmount() > 0 {
			part = fmt.Sprintf("%.1f%%", 100*u.GetSettled()/u.GetAmount())
		}
		state := "open"
		switch {
		case u.GetFinal() && u.GetLost() > 0:
			state = fmt.Sprintf("final, %d agents without a last report", u.GetLost())
		case u.GetFinal():
			state = "final"
		}
		if u.GetResetTime() != nil {
			state += ", since the reset of " + resource.Moment(u.GetResetTime())
		}
		t.Add(u.GetLimit(), cmp.Or(u.GetClient(), command.None), u.GetPeriod(), command.Number(u.GetSettled()),
			command.Number(u.GetAmount()), part, command.Number(u.GetRefused()), state)
	}
	return t.Text()
}
