// Command bench measures the cost of Titrate in real Envoys, and how exactly it limits, compared with Envoy's
// own rate limits on the same machine.
//
// # Parts
//
//	cpu           CPU per request and requests per second      package cpu
//	instructions  instructions per request, counted            package instructions
//	latency       added p50, p99, p999                         package latency
//	memory        a million clients in one Envoy               package memory
//	exactness     limits over three gateways                   package exactness
//	queues        three kinds of clients under four laws       package queues
//	inflight      limits on requests in flight                 package inflight
//	configuration many tenants: load, and one change           package configuration
//	overrides     many overrides of one limit, likewise        package configuration
//	idle          memory and CPU of each part at rest          package idle
//
// Each package describes its method. All of them compare variants in one run, in interleaved rounds: absolute
// figures of a shared machine mean little. Progress goes to the standard error, tables to the standard output,
// every figure to -json. The whole takes some 30 minutes.
//
// With -compare, the parts cpu, latency and exactness measure only what the comparison of rate
// limiters shows, and package comparison writes it into README.md and docs/comparison.md.
//
// Everything runs on loopback; every process ends with this one.
package main

import (
	"context"
	"time"

	"github.com/titrate/titrate/e2e/bench/comparison"
	"github.com/titrate/titrate/e2e/bench/configuration"
	"github.com/titrate/titrate/e2e/bench/cpu"
	"github.com/titrate/titrate/e2e/bench/exactness"
	"github.com/titrate/titrate/e2e/bench/idle"
	"github.com/titrate/titrate/e2e/bench/inflight"
	"github.com/titrate/titrate/e2e/bench/instructions"
	"github.com/titrate/titrate/e2e/bench/latency"
	"github.com/titrate/titrate/e2e/bench/memory"
	"github.com/titrate/titrate/e2e/bench/queues"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/papers/markdown"
)

// parts are all parts, in the order in which they run.
func parts() []part {
	return []part{
		{"cpu", func(ctx context.Context, r *rig.Rig, e effort) (any, []markdown.Section, error) {
			return cpu.Run(ctx, r, cpu.Options{Rounds: e.rounds, Duration: e.duration, Keys: 100_000,
				Comparison: e.comparison})
		}},
		{"instructions", func(ctx context.Context, r *rig.Rig, _ effort) (any, []markdown.Section, error) {
			return instructions.Run(ctx, r, 3*time.Second)
		}},
		{"latency", func(ctx context.Context, r *rig.Rig, e effort) (any, []markdown.Section, error) {
			return latency.Run(ctx, r, latency.Options{Rounds: 12 * e.rounds, Comparison: e.comparison})
		}},
		{"memory", func(ctx context.Context, r *rig.Rig, e effort) (any, []markdown.Section, error) {
			return memory.Run(ctx, r, 8*e.rounds)
		}},
		{"exactness", func(ctx context.Context, r *rig.Rig, e effort) (any, []markdown.Section, error) {
			largest := 10_000
			if e.comparison {
				largest = comparison.Limit
			}
			return exactness.Run(ctx, r, largest)
		}},
		{"queues", func(ctx context.Context, r *rig.Rig, _ effort) (any, []markdown.Section, error) {
			return queues.Run(ctx, r, 20*time.Second)
		}},
		{"inflight", func(ctx context.Context, r *rig.Rig, e effort) (any, []markdown.Section, error) {
			return inflight.Run(ctx, r, inflight.Options{Rounds: max(1, e.rounds/3), Duration: 5 * e.duration})
		}},
		{"configuration", func(ctx context.Context, r *rig.Rig, e effort) (any, []markdown.Section, error) {
			return configuration.Run(ctx, r, []int{1e3, 1e4, 1e5}, e.rounds)
		}},
		{"overrides", func(ctx context.Context, r *rig.Rig, e effort) (any, []markdown.Section, error) {
			return configuration.RunOverrides(ctx, r, 1e6, e.rounds)
		}},
		{"idle", func(ctx context.Context, r *rig.Rig, e effort) (any, []markdown.Section, error) {
			return idle.Run(ctx, r, 15*e.duration)
		}},
	}
}
