package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
)

// aboutRequest is the word that makes why explain a decision. A tenant of that name is asked about as tenants/request.
const aboutRequest = "request"

// runWhyRequest explains what was decided about the request of an ID. A request that no gateway knows is a failure.
func runWhyRequest(cmd *cobra.Command, client *client, output command.Format, id string) error {
	response, err := client.FindDecisions(cmd.Context(), &quotav1.FindDecisionsRequest{Request: id})
	if err != nil {
		return worded(err)
	}
	err = output.Message(cmd.OutOrStdout(), response, func(w io.Writer) error { return writeDecisions(w, response) })
	if err == nil && len(response.GetDecisions()) == 0 {
		return &command.Exit{Status: command.ExitFailed} // said above
	}
	return err
}

// writeDecisions writes each decision as a numbered list, an empty line between two.
func writeDecisions(w io.Writer, r *quotav1.FindDecisionsResponse) error {
	var paragraphs []string
	for _, d := range r.GetDecisions() {
		var b strings.Builder
		fmt.Fprintf(&b, "request %s\n", shown(d.GetRequest()))
		for i, step := range d.GetSteps() {
			fmt.Fprintf(&b, "%3d. %s\n", i+1, shown(step))
		}
		paragraphs = append(paragraphs, b.String())
	}
	for _, note := range r.GetNotes() {
		paragraphs = append(paragraphs, shown(note)+"\n")
	}
	_, err := io.WriteString(w, strings.Join(paragraphs, "\n"))
	return err
}
