// Command bench measures what Titrate costs in real Envoys, and how exactly it
// limits, beside Envoy's own rate limits on the same machine.
//
// # Parts
//
//	cpu           CPU per request and requests per second      package cpu
//	instructions  instructions per request, counted            package instructions
//	latency       added p50, p99, p999                         package latency
//	memory        a million clients in one Envoy               package memory
//	exactness     limits over three gateways                   package exactness
//	queues        three kinds of clients under four laws       package queues
//	configuration many tenants: load, and one change           package configuration
//
// Each package says how it measures. All of them compare variants in one run, in
// interleaved rounds: absolute figures of a shared machine mean little. Progress
// goes to the standard error, tables to the standard output, every figure to
// -json. The whole takes less than 15 minutes.
//
// Everything runs on loopback; every process ends with this one.
package main

import (
	"context"
	"time"

	"github.com/titrate/titrate/e2e/bench/configuration"
	"github.com/titrate/titrate/e2e/bench/cpu"
	"github.com/titrate/titrate/e2e/bench/exactness"
	"github.com/titrate/titrate/e2e/bench/instructions"
	"github.com/titrate/titrate/e2e/bench/latency"
	"github.com/titrate/titrate/e2e/bench/memory"
	"github.com/titrate/titrate/e2e/bench/queues"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/bench/table"
)

// parts are all parts, in the order in which they run.
func parts() []part {
	return []part{
		{"cpu", func(ctx context.Context, r *rig.Rig, e effort) (any, []table.Table, error) {
			return cpu.Run(ctx, r, cpu.Options{Rounds: e.rounds, Duration: e.duration, Keys: 100_000})
		}},
		{"instructions", func(ctx context.Context, r *rig.Rig, _ effort) (any, []table.Table, error) {
			return instructions.Run(ctx, r, 3*time.Second)
		}},
		{"latency", func(ctx context.Context, r *rig.Rig, e effort) (any, []table.Table, error) {
			return latency.Run(ctx, r, 12*e.rounds)
		}},
		{"memory", func(ctx context.Context, r *rig.Rig, e effort) (any, []table.Table, error) {
			return memory.Run(ctx, r, 8*e.rounds)
		}},
		{"exactness", func(ctx context.Context, r *rig.Rig, _ effort) (any, []table.Table, error) {
			return exactness.Run(ctx, r)
		}},
		{"queues", func(ctx context.Context, r *rig.Rig, _ effort) (any, []table.Table, error) {
			return queues.Run(ctx, r, 20*time.Second)
		}},
		{"configuration", func(ctx context.Context, r *rig.Rig, e effort) (any, []table.Table, error) {
			return configuration.Run(ctx, r, []int{1e3, 1e4, 1e5}, e.rounds)
		}},
	}
}
