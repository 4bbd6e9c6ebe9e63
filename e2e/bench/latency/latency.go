// Package latency measures the added latency of a rate limit when no request is limited.
//
// # Method
//
// Latency counts from when a request was due (package openloop). An open loop asks each
// variant in turn for a quarter of a second, in rounds whose order rotates, at two rates:
//
//   - half of the highest rate, where the highest is the rate that the Envoy without
//     filter answers to a closed load at the beginning of the run;
//   - 1000/s, where rate limit services can take part as well. All variants of
//     that table send on to one more Envoy, since the ratelimit filter needs a
//     route to an upstream. Services have two gateways, as in package cpu.
//
// In each round each variant has its p50, p99 and p999. Judged is the median over rounds of the difference to
// the Envoy without filter in the same round, with its 95 % interval (package paired). Quantiles of a whole run
// would show the moments at which other processes used the machine.
//
// Rounds are short and many: a disturbance then affects few of them, and the pairs are close in time. At the
// low rate p99 of a round is its third worst request and p999 its worst: take them as such.
//
// The generator and the Envoys share the machine's processors. This adds to the latency of all variants, the
// more the fewer processors there are.
package latency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/e2e/bench/paired"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/lab/judge"
	"github.com/titrate/titrate/papers/markdown"
)

// Target is an Envoy under load.
type Target struct {
	Name    string
	Envoy   *rig.Envoy
	Tenant  string
	Clients int // asked in turn
}

const (
	window      = 250 * time.Millisecond // of one variant in one round
	connections = 64
)

// figures of a sample, in microseconds.
var figures = []struct {
	name     string
	quantile float64
}{{"p50", .50}, {"p99", .99}, {"p999", .999}}

// Highest is the rate that an Envoy answers to a closed load, per second.
func Highest(ctx context.Context, r *rig.Rig, t Target) (float64, error) {
	a, err := r.Wrk(ctx, t.Envoy.URL(), rig.Closed{Tenant: t.Tenant, Keys: t.Clients, Connections: 32,
		Duration: 2 * time.Second})
	return a.Rate, err
}

// Measure asks all targets at a rate, in turn, in rounds. The first target is the base of the others. Each
// round continues with the clients after the last round's.
func Measure(ctx context.Context, r *rig.Rig, targets []Target, rate float64, rounds int) (paired.Rounds, error) {
	all := paired.Rounds{}
	requests := map[string][][]byte{}
	for _, t := range targets {
		requests[t.Name] = openloop.Requests(t.Tenant, t.Clients)
	}
	for round := range rounds {
		for i := range targets {
			t := targets[(i+round)%len(targets)]
			s, err := ask(ctx, t, requests[t.Name], openloop.Steady(rate, window, t.Clients, round*int(rate)))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.Name, err)
			}
			all[t.Name] = append(all[t.Name], s)
		}
		if (round+1)%20 == 0 {
			r.Say("latency: round %d/%d at %.0f/s", round+1, rounds, rate)
		}
	}
	return all, nil
}

// ask is one window of one target.
func ask(ctx context.Context, t Target, requests [][]byte, shots []openloop.Shot) (paired.Sample, error) {
	g := openloop.Generator{Targets: []string{t.Envoy.Address()}, Connections: connections, Requests: requests}
	results, err := g.Run(ctx, shots)
	if err != nil {
		return nil, err
	}
	latencies := make([]float64, len(results))
	for i, res := range results {
		if res.Status != 200 {
			return nil, errors.New("requests failed or were refused; the run proves nothing")
		}
		latencies[i] = float64((res.Done - res.Due).Nanoseconds()) / 1e3
	}
	s := paired.Sample{}
	for _, f := range figures {
		s[f.name] = judge.Quantile(latencies, f.quantile)
	}
	return s, nil
}

// Tabulate shows each target's added latency over the base.
func Tabulate(title string, targets []Target, rounds paired.Rounds) markdown.Section {
	base := targets[0].Name
	t := markdown.Section{Title: title, Head: []string{"variant", "p50, µs", "p99, µs", "p999, µs",
		"p50 added", "p99 added", "p999 added"},
		Notes: []string{fmt.Sprintf("Medians of %d rounds of %v; added: median of the paired differences with its 95 "+
			"%% interval, µs.", len(rounds[base]), window)}}
	for _, target := range targets {
		row := []any{target.Name}
		for _, f := range figures {
			row = append(row, fmt.Sprintf("%.0f", paired.Median(rounds.Values(target.Name, f.name))))
		}
		for _, f := range figures {
			if target.Name == base {
				row = append(row, "–")
				continue
			}
			row = append(row, paired.Spread(rounds.Differences(target.Name, base, f.name), 0))
		}
		t.Add(row...)
	}
	return t
}
