package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/lab/simulate/grid"
	"github.com/titrate/titrate/papers/markdown"
	"github.com/titrate/titrate/services/command"
)

const simulateGridLong = `grid plays a prepared question on virtual time and answers with a table.

  small-limits   limits of 1 to 100 per second, 100 per minute and 1000 per hour, with
                 bursts of 1, 5, 20 and one second's worth, on 3 to 100 gateways, at
                 gossip delays of 25 to 250 ms and losses of 0 and 30 %, through joins,
                 crashes, restarts and partitions; OPTIMISTIC and STRICT beside other
                 ways to split a limit. And on gateways of one site, whose agents are
                 0.25 to 2 ms apart: EXACT beside LOCAL

The tables show where a rival does better, and where EXACT misses its targets. It takes
some minutes; --quick plays a small part of it in seconds, --gateways and --delays a part.
The same --seed gives the same figures each time.

Exit status: 0 played, 1 failed or interrupted, 2 wrong usage.`

// gridFormat is the value of -o.
type gridFormat string

const asMarkdown gridFormat = "markdown"

func (f *gridFormat) String() string { return string(*f) }
func (f *gridFormat) Type() string   { return "table|json|markdown" }

// Set refuses all but the three formats.
func (f *gridFormat) Set(s string) error {
	switch v := gridFormat(s); v {
	case gridFormat(command.AsTable), gridFormat(command.AsJSON), asMarkdown:
		*f = v
		return nil
	}
	return fmt.Errorf("must be table, json or markdown")
}

// newSimulateGrid plays a grid.
func newSimulateGrid() *cobra.Command {
	output := gridFormat(command.AsTable)
	var o grid.Options
	cmd := &cobra.Command{
		Use:   "grid small-limits",
		Short: "Play a grid of limits, gateways and faults, and compare",
		Long:  simulateGridLong,
		Example: `  titrate-lab simulate grid small-limits --quick
  titrate-lab simulate grid small-limits --gateways 3,10 --delays 1ms     # one site
  titrate-lab simulate grid small-limits -o json | jq '.losses[]'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)(cmd, args); err != nil {
				return command.Usage(err)
			}
			return nil
		},
		ValidArgs: []string{"small-limits"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			progress := &progressLine{out: cmd.ErrOrStderr(), started: time.Now()}
			o.Progress = progress.tell
			r, err := grid.Run(cmd.Context(), o)
			progress.end()
			if errors.Is(err, grid.ErrNoCells) {
				return command.Usagef("no cell of the grid has these --gateways and --delays; " +
					"--quick has a few cells only")
			}
			if err != nil {
				return err
			}
			return writeGrid(cmd.OutOrStdout(), r, output)
		},
	}
	f := cmd.Flags()
	f.VarP(&output, "output", "o", "format of the output")
	f.BoolVar(&o.Quick, "quick", false, "play a small part of the grid, in seconds")
	f.IntSliceVar(&o.Gateways, "gateways", nil, "play only cells of so many gateways: 3, 10, 30, 100; default all")
	f.DurationSliceVar(&o.Delays, "delays", nil, "play only cells of these delays, one way: 250us, 1ms and 2ms are "+
		"one site, 25ms, 100ms and 250ms the others; default all")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all randomness")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]cobra.Completion{string(command.AsTable), string(command.AsJSON), string(asMarkdown)},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func writeGrid(w io.Writer, r *grid.Result, output gridFormat) error {
	switch output {
	case gridFormat(command.AsJSON):
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", data)
		return err
	case asMarkdown:
		return writeGridMarkdown(w, r)
	}
	if len(r.Rows) > 0 {
		if err := aligned(w, r.Table); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "\n%s\n\nWhere a rival does better:\n", grid.Legend); err != nil {
			return err
		}
		if err := aligned(w, r.LossTable); err != nil {
			return err
		}
	}
	if len(r.Site) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\n%s\n\n", grid.SiteLegend); err != nil {
		return err
	}
	return aligned(w, r.SiteTable)
}

func writeGridMarkdown(w io.Writer, r *grid.Result) error {
	if len(r.Rows) > 0 {
		if _, err := fmt.Fprintf(w, "%s\n\n%s\nWhere a rival does better:\n\n%s\n", grid.Legend, r.Document(),
			markdown.Table(r.LossTable())); err != nil {
			return err
		}
	}
	if len(r.Site) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s\n\n%s", grid.SiteLegend, r.SiteDocument())
	return err
}

// aligned writes a table in columns.
func aligned(w io.Writer, of func() ([]string, [][]string)) error {
	titles, lines := of()
	t := &command.Table{}
	for _, title := range titles {
		t.Columns = append(t.Columns, command.Column{Title: strings.ToUpper(title)})
	}
	for _, line := range lines {
		t.Add(line...)
	}
	return t.Write(w)
}
