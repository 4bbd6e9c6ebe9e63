// Command titrate-lab is the laboratory of Titrate: the demo and its parts, the simulation, the calculator, and the
// figures of the papers. Package cli has the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/titrate/titrate/lab/cli"
	"github.com/titrate/titrate/services/telemetry"
)

func main() {
	telemetry.LimitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
