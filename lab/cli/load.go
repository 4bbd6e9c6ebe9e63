package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/lab/dev/load"
	"github.com/titrate/titrate/lab/dev/scenario"
	"github.com/titrate/titrate/lab/dev/trace"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/wording"
)

const (
	loadClients = 4                // of each tenant
	loadRound   = time.Minute      // after which the schedule restarts with another seed
	loadLine    = 10 * time.Second // between two lines of output
	loadLeast   = time.Second      // that a line after the first one is about
	loadLead    = time.Second      // before the first request: the schedule is made
)

const loadLong = `load sends requests to gateways for some tenants, at a fixed rate that does not wait for
answers, as independent clients do. Each tenant has four clients, TENANT-1 to TENANT-4. A
request has its tenant in the header x-tenant and its client in x-client, as the gateways of
titrate-lab dev and of the tutorial read them.

Each ten seconds, and at the end, a line says for each tenant how many requests per second
were admitted, rejected (429) and failed (all other answers, and none). Requests that have no
answer yet when the load ends are not counted as failed; the last line has their number.`

// newLoad is the command that loads gateways, for the compose file.
func newLoad() *cobra.Command {
	var (
		gateways []string
		spread   []float64
		tenants  []string
		duration time.Duration
		seed     uint64
	)
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Send open-loop load of several tenants to gateways",
		Args:  cobra.NoArgs,
		Long:  loadLong,
		Example: "  titrate-lab load --gateways http://127.0.0.1:8001 --tenant acme=200 --tenant globex=150 " +
			"--duration 30s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadScenario(gateways, spread, tenants)
			if err == nil && duration < 0 {
				err = fmt.Errorf("--duration %v: want a time above 0, or 0 for until stopped", duration)
			}
			if err != nil {
				return command.Usage(err)
			}
			s.Seed = seed
			return runLoad(cmd.Context(), cmd.OutOrStdout(), gateways, s, duration)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&gateways, "gateways", nil, "URLs of the gateways (required)")
	f.Float64SliceVar(&spread, "spread", nil, "weight of each gateway in the load (default all alike)")
	f.StringArrayVar(&tenants, "tenant", nil, "tenant=rate, requests per second; may be repeated (required)")
	f.DurationVar(&duration, "duration", 0, "how long, from the first request on; 0 = until stopped")
	f.Uint64Var(&seed, "seed", 1, "seed of the schedule")
	for _, required := range []string{"gateways", "tenant"} {
		_ = cmd.MarkFlagRequired(required) // fails for unknown flags only
	}
	return cmd
}

// runLoad sends load for a duration from the first request on, 0: until ctx ends.
func runLoad(ctx context.Context, out io.Writer, gateways []string, s *scenario.Scenario,
	duration time.Duration) error {
	start := time.Now().Add(loadLead)
	if duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, start.Add(duration))
		defer cancel()
	}
	c := loadCounter{since: start}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		c.print(ctx, out)
	}()
	(&load.Generator{URLs: gateways, Observe: c.count}).Loop(ctx, *s, start)
	<-printed
	c.printLast(out, time.Now())
	return nil
}

// loadScenario has one phase, a Poisson process per client.
func loadScenario(gateways []string, spread []float64, tenants []string) (*scenario.Scenario, error) {
	if spread == nil {
		spread = slices.Repeat([]float64{1}, len(gateways))
	}
	if len(spread) != len(gateways) {
		return nil, fmt.Errorf("--spread has %s for %s", wording.Count(len(spread), "weight"),
			wording.Count(len(gateways), "gateway"))
	}
	s := &scenario.Scenario{
		Version: scenario.Version,
		Pool:    scenario.Pool{Name: "unknown", Capacity: 1},
		Phases:  []scenario.Phase{{Name: "load", End: loadRound.Seconds()}},
	}
	for i, gateway := range gateways {
		if err := isURL(gateway); err != nil {
			return nil, err
		}
		s.Gateways = append(s.Gateways, scenario.Gateway{Name: gateway, Weight: spread[i]})
	}
	for _, text := range tenants {
		name, rate, _ := strings.Cut(text, "=")
		r, err := strconv.ParseFloat(rate, 64)
		if err != nil || name == "" {
			return nil, fmt.Errorf("--tenant %s: want name=rate, such as acme=200", wording.Quote(text))
		}
		t := scenario.Tenant{Name: name, Weight: 1}
		for i := range loadClients {
			t.Clients = append(t.Clients, scenario.Client{Name: fmt.Sprintf("%s-%d", name, i+1),
				Process: scenario.Poisson, Rates: []float64{r / loadClients}})
		}
		s.Tenants = append(s.Tenants, t)
	}
	return s, s.Validate()
}

// isURL refuses what no request can be sent to.
func isURL(gateway string) error {
	u, err := url.Parse(gateway)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--gateways %s: want a URL such as http://127.0.0.1:8001", wording.Quote(gateway))
	}
	return nil
}

// loadCounter counts answers per tenant.
type loadCounter struct {
	mu     sync.Mutex
	since  time.Time          // of the last line, or when the load began
	counts map[string]*[3]int // admitted, rejected, failed
	lines  int                // printed
	open   int                // requests that had no answer when the load ended
}

func (c *loadCounter) count(r *trace.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Error == trace.Aborted {
		c.open++
		return
	}
	if c.counts == nil {
		c.counts = map[string]*[3]int{}
	}
	n := c.counts[r.Tenant]
	if n == nil {
		n = &[3]int{}
		c.counts[r.Tenant] = n
	}
	switch {
	case r.Failed():
		n[2]++
	case r.Status == 429:
		n[1]++
	default:
		n[0]++
	}
}

// print prints a line each loadLine from the first request on.
func (c *loadCounter) print(ctx context.Context, out io.Writer) {
	next := time.NewTimer(time.Until(c.since) + loadLine)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-next.C:
			fmt.Fprintln(out, c.line(now))
			next.Reset(loadLine)
		}
	}
}

// printLast prints what came since the last line. Of a moment after another line it says only how many
// requests have no answer.
func (c *loadCounter) printLast(out io.Writer, now time.Time) {
	if c.lines == 0 || now.Sub(c.since) >= loadLeast {
		fmt.Fprintln(out, cmp.Or(c.line(now), "no request was answered"))
	}
	if c.open > 0 {
		fmt.Fprintf(out, "%s had no answer when the load ended\n", wording.Count(c.open, "request"))
	}
}

// line has the rates since the last line.
func (c *loadCounter) line(now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	s := now.Sub(c.since).Seconds()
	for tenant, n := range c.counts {
		parts = append(parts, fmt.Sprintf("%s %.0f/s admitted, %.0f/s rejected, %.0f/s failed",
			tenant, float64(n[0])/s, float64(n[1])/s, float64(n[2])/s))
	}
	slices.Sort(parts)
	c.counts, c.since = nil, now
	c.lines++
	return strings.Join(parts, "; ")
}
