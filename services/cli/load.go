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
)

const (
	loadClients = 4                // of each tenant
	loadRound   = time.Minute      // after which the schedule begins anew with another seed
	loadLine    = 10 * time.Second // between two lines of output
)

// newLoad is the hidden command that loads gateways, for the compose file.
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
		Hidden:  true,
		Args:    cobra.NoArgs,
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
			c := loadCounter{}
			go c.print(ctx, cmd.OutOrStdout())
			(&load.Generator{URLs: gateways, Observe: c.count}).Loop(ctx, *s, time.Now().Add(time.Second))
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
		return nil, fmt.Errorf("--spread has %d weights for %d gateways", len(spread), len(gateways))
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
		case <-ticker.C:
			fmt.Fprintln(out, c.line())
		}
	}
}

// line tells the rates since the last line.
func (c *loadCounter) line() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for tenant, n := range c.counts {
		s := loadLine.Seconds()
		parts = append(parts, fmt.Sprintf("%s %.0f/s admitted, %.0f/s rejected, %.0f/s failed",
			tenant, float64(n[0])/s, float64(n[1])/s, float64(n[2])/s))
	}
	slices.Sort(parts)
	c.counts = nil
	return strings.Join(parts, "; ")
}
