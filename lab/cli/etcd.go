package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/telemetry"
)

// etcdStart bounds the time until the server answers.
const etcdStart = 30 * time.Second

// newEtcd is the command that runs one member of etcd inside this binary,
// for dev and tests. It has no TLS, so it opens loopback addresses only.
func newEtcd() *cobra.Command {
	var dir, client, peer, level string
	cmd := &cobra.Command{
		Use:     "etcd",
		Short:   "Run a single etcd, for development",
		Example: "  titrate-lab etcd --data-dir etcd",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := etcdConfig(dir, client, peer, level)
			if err != nil {
				return command.Usage(err)
			}
			return command.OnFewProcessors(cmd.Context(), func(ctx context.Context) error {
				return runEtcd(ctx, config, func(address string) {
					fmt.Fprintf(cmd.OutOrStdout(), "etcd is ready at http://%s\n", address)
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "", "directory of the data; made if it does not exist (required)")
	f.StringVar(&client, "listen", "127.0.0.1:2379", "loopback host:port or URL for clients (also --client-url)")
	f.StringVar(&peer, "listen-peer", "127.0.0.1:2380",
		"loopback host:port or URL for peers, of which there are none (also --peer-url)")
	f.StringVar(&level, "log-level", "error", "least level that is logged: debug, info, warn or error")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "client-url":
			name = "listen"
		case "peer-url":
			name = "listen-peer"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

func etcdConfig(dir, client, peer, level string) (*embed.Config, error) {
	if dir == "" {
		return nil, errors.New("--data-dir is required: the directory of etcd's data")
	}
	logger, err := etcdLogger(level, "stderr")
	if err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.ZapLoggerBuilder = "titrate", dir, embed.NewZapLoggerBuilder(logger)
	for _, at := range []struct {
		flag, address string
		urls          []*[]url.URL
	}{
		{"--listen", client, []*[]url.URL{&c.ListenClientUrls, &c.AdvertiseClientUrls}},
		{"--listen-peer", peer, []*[]url.URL{&c.ListenPeerUrls, &c.AdvertisePeerUrls}},
	} {
		host := strings.TrimSuffix(strings.TrimPrefix(at.address, "http://"), "/")
		if err := (telemetry.Security{}).Guard(at.flag, host); err != nil {
			return nil, fmt.Errorf("%w (titrate-lab etcd is for development and stays on this machine)", err)
		}
		for _, urls := range at.urls {
			*urls = []url.URL{{Scheme: "http", Host: host}}
		}
	}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	return c, nil
}

// etcdLogger returns the logger of the server. It writes to output: stderr, or a file.
func etcdLogger(level, output string) (*zap.Logger, error) {
	least, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	c := logutil.DefaultZapLoggerConfig
	c.Level, c.OutputPaths, c.ErrorOutputPaths = least, []string{output}, []string{output}
	return c.Build(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return returnedErrors{core} }))
}

// returnedErrors drops the log entry of an error that embed.Etcd.Err hands to runEtcd as well. Close of the server
// makes one for each listener, because the listener is closed.
type returnedErrors struct{ zapcore.Core }

func (r returnedErrors) With(fields []zapcore.Field) zapcore.Core {
	return returnedErrors{r.Core.With(fields)}
}

func (r returnedErrors) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Message == "setting up serving from embedded etcd failed." {
		return to
	}
	return r.Core.Check(e, to)
}

// etcdStop bounds the time that calls have to end after the server was asked to stop.
const etcdStop = 500 * time.Millisecond

// runEtcd serves until ctx ends or the server fails; ready is called with the
// address for clients once it answers.
func runEtcd(ctx context.Context, config *embed.Config, ready func(address string)) error {
	calls := make(chan *grpc.Server, 1) // the server of --listen, once it serves
	config.ServiceRegister = func(s *grpc.Server) { calls <- s }
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("etcd on %s: %w", config.ListenClientUrls[0].Host, err)
	}
	defer closeEtcd(server, calls)
	late := time.NewTimer(etcdStart)
	defer late.Stop()
	select {
	case <-server.Server.ReadyNotify():
		ready(server.Clients[0].Addr().String())
	case err := <-server.Err():
		return fmt.Errorf("etcd stopped at start: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped at start")
	case <-late.C:
		return fmt.Errorf("etcd not ready after %s", etcdStart)
	case <-ctx.Done():
		return nil
	}
	select {
	case err := <-server.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	case <-ctx.Done():
		return nil
	}
}

// closeEtcd stops the server. By itself etcd waits seven seconds for the calls that are under way, and a watch of a
// client that lives on does not end.
func closeEtcd(server *embed.Etcd, calls <-chan *grpc.Server) {
	late := time.AfterFunc(etcdStop, func() {
		select {
		case s := <-calls:
			s.Stop()
		default: // it has not begun to serve
		}
	})
	defer late.Stop()
	server.Close()
}
