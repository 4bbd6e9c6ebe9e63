package cli

import (
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/titrate/titrate/lab/dev/upstream"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/wording"
)

// newUpstream is the command that serves what the demo's gateways protect.
func newUpstream() *cobra.Command {
	var (
		listen, tracePath string
		capacity          float64
		service, grace    time.Duration
		queue             int
	)
	cmd := &cobra.Command{
		Use:     "upstream",
		Short:   "Serve HTTP with a fixed capacity: slow, then failing, when overloaded",
		Example: "  titrate-lab upstream --listen 127.0.0.1:8080 --capacity 100 --service-time 50ms",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			workers := math.Round(capacity * service.Seconds())
			if !(workers >= 1 && workers <= 1e6) {
				return command.Usagef("--capacity %s with --service-time %v makes %s workers, must be 1 to 1000000",
					wording.Number(capacity), service, wording.Number(workers))
			}
			config := upstream.Config{Workers: int(workers), ServiceTime: service, Queue: queue}
			return serveUpstream(cmd, config, listen, tracePath, grace)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9000", "address to serve on")
	f.Float64Var(&capacity, "capacity", 300, "requests per second that can be served; rounded to whole workers")
	f.DurationVar(&service, "service-time", 100*time.Millisecond, "time that one request takes a worker")
	f.IntVar(&queue, "queue", 100, "requests that may wait for a worker; more get 503")
	f.StringVar(&tracePath, "trace", "", "file to get one NDJSON line per request")
	f.DurationVar(&grace, "grace", 2*time.Second, "time for requests in service to finish at the end")
	return cmd
}

func serveUpstream(cmd *cobra.Command, config upstream.Config, listen, tracePath string,
	grace time.Duration) (err error) {
	if tracePath != "" {
		f, err := os.Create(tracePath)
		if err != nil {
			return fmt.Errorf("--trace: %w", err)
		}
		defer f.Close()
		config.Trace = io.Writer(f)
	}
	server, err := upstream.New(config)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "upstream: %s, %s of %v each: %.0f requests/s\n",
		l.Addr(), wording.Count(config.Workers, "worker"), config.ServiceTime, config.Capacity())
	return server.ListenAndServe(cmd.Context(), l, grace)
}
