// Command titrate is all of Titrate in one binary: the client of the admin API, the
// coordinator, the agent, and the demo. Package cli has the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/titrate/titrate/services/cli"
	"github.com/titrate/titrate/services/telemetry"
)

func main() {
	telemetry.LimitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
