package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/services/dev/load"
	"github.com/titrate/titrate/services/dev/scenario"
	"github.com/titrate/titrate/services/dev/trace"
	"github.com/titrate/titrate/services/wording"
)

const (
	loadClients = 4                // of each tenant
	loadRound   = time.Minute      // after which the schedule begins anew with another seed
	loadLine    = 10 * time.Second // between two lines of output
	loadLeast   = time.Second      // that a line is about
)

const loadLong = `load sends requests to gateways for some tenants, at a fixed rate that does not wait for
answers, as independent clients do. Each tenant has four clients, TENANT-1 to TENANT-4. A
request has its tenant in the header x-tenant and its client in x-client, as the gateways of
titrate dev and of the tutorial read them.

Each ten seconds, and at the end, a line says for each tenant how many requests per second
were admitted, rejected (429) and failed (all other answers, and none).`

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
		Use:     "load",
		Short:   "Send open-loop load of several tenants to gateways",
		Args:    cobra.NoArgs,
		Long:    loadLong,
		Example: "  titrate load --gateways http://127.0.0.1:8001 --tenant acme=200 --tenant globex=150 --duration 30s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadScenario(gateways, spread, tenants)
			if err != nil {
				return usage(err)
			}
			s.Seed = seed
			ctx := cmd.Context()
			if duration > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, duration)
				defer cancel()
			}
			c := loadCounter{since: time.Now().Add(time.Second)}
			go c.print(ctx, cmd.OutOrStdout())
			(&load.Generator{URLs: gateways, Observe: c.count}).Loop(ctx, *s, c.since)
			if time.Since(c.since) >= loadLeast {
				fmt.Fprintln(cmd.OutOrStdout(), c.line(time.Now()))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&gateways, "gateways", nil, "URLs of the gateways (required)")
	f.Float64SliceVar(&spread, "spread", nil, "weight of each gateway in the load (default all alike)")
	f.StringArrayVar(&tenants, "tenant", nil, "tenant=rate, requests per second; may be repeated (required)")
	f.DurationVar(&duration, "duration", 0, "how long; 0 = until stopped")
	f.Uint64Var(&seed, "seed", 1, "seed of the schedule")
	for _, required := range []string{"gateways", "tenant"} {
		_ = cmd.MarkFlagRequired(required) // fails for unknown flags only
	}
	return cmd
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
	for i, url := range gateways {
		s.Gateways = append(s.Gateways, scenario.Gateway{Name: url, Weight: spread[i]})
	}
	for _, text := range tenants {
		name, rate, _ := strings.Cut(text, "=")
		r, err := strconv.ParseFloat(rate, 64)
		if err != nil || name == "" {
			return nil, fmt.Errorf("--tenant %q: want name=rate, such as acme=200", text)
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

// loadCounter counts answers per tenant.
type loadCounter struct {
	mu     sync.Mutex
	since  time.Time          // of the last line, or when the load began
	counts map[string]*[3]int // admitted, rejected, failed
}

func (c *loadCounter) count(r *trace.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
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

func (c *loadCounter) print(ctx context.Context, out io.Writer) {
	ticker := time.NewTicker(loadLine)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			fmt.Fprintln(out, c.line(now))
		}
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
	return strings.Join(parts, "; ")
}
