package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
)

// What titrate why --shadow shows at most.
const (
	mostShadowLimits  = 20
	mostShadowClients = 10
)

// runWhyShadow says what enforcing all that is in SHADOW would do, and to whom.
func runWhyShadow(cmd *cobra.Command, client *client, output command.Format) error {
	out := &quotav1.WhyResponse{}
	limits, err := client.shadowed(cmd.Context(), quotav1.Selection_LIMIT, mostShadowLimits)
	if err != nil {
		return worded(err)
	}
	for _, m := range limits.GetRows() {
		limit := nameOf(quotav1.Selection_LIMIT, m)
		out.Limits = append(out.Limits, &quotav1.LimitExplanation{Limit: limit, Activity: m})
	}
	if limits.GetOther().GetShadowed() > 0 {
		out.Limits = append(out.Limits, &quotav1.LimitExplanation{Limit: "other", Activity: limits.GetOther()})
	}
	clients, err := client.shadowed(cmd.Context(), quotav1.Selection_CLIENT, mostShadowClients)
	if err != nil {
		return worded(err)
	}
	out.Clients, out.Notes = clients.GetRows(), missing(limits)
	return output.Message(cmd.OutOrStdout(), out, func(w io.Writer) error { return writeWhyShadow(w, out) })
}

// shadowed are the limits or clients that SHADOW let the most requests of pass.
func (c *client) shadowed(ctx context.Context, by quotav1.Selection_By, most int32) (*quotav1.TopResponse, error) {
	r, err := c.Top(ctx, &quotav1.TopRequest{Selection: &quotav1.Selection{By: by,
		Order: quotav1.Selection_SHADOWED, Most: most}})
	if err != nil {
		return nil, err
	}
	r.Rows = slices.DeleteFunc(r.GetRows(), func(m *quotav1.Activity) bool { return m.GetShadowed() == 0 })
	return r, nil
}

func writeWhyShadow(w io.Writer, r *quotav1.WhyResponse) error {
	t := command.NewTable("LIMIT", "#SHADOWED", "#SINCE")
	for _, l := range r.GetLimits() {
		m, since := l.GetActivity(), command.None
		if m.GetSince() != nil {
			since = m.GetSince().AsDuration().Round(time.Second).String()
		}
		t.Add(l.GetLimit(), rateOf(m, m.GetShadowed()), since)
	}
	text := "Nothing in SHADOW would have refused or held a request in the last minute.\n"
	if len(t.Rows) > 0 || len(r.GetClients()) > 0 {
		text = "Enforcing all that is in SHADOW would have refused or held these requests, as of the last minute:\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if err := writeBelow(w, t); err != nil {
		return err
	}
	if len(r.GetClients()) > 0 {
		if _, err := fmt.Fprintf(w, "\n%s", clientTop(&quotav1.TopResponse{Rows: r.GetClients()}).Text()); err != nil {
			return err
		}
	}
	for _, note := range r.GetNotes() {
		if _, err := fmt.Fprintf(w, "\n%s\n", note); err != nil {
			return err
		}
	}
	return nil
}
