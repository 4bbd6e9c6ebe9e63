package cli

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/health" // atLeader needs it

	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/kubernetes"
	"github.com/titrate/titrate/services/operator"
	"github.com/titrate/titrate/services/telemetry"
)

const operatorLong = `operator makes Kubernetes' custom resources Pool, Tenant, Quota and Limit the
configuration of a coordinator. A custom resource is a document of titrate apply with
Kubernetes' metadata:

  apiVersion: titrate.dev/v1alpha1
  kind: Limit
  metadata:
    name: acme-per-client
  name: tenants/acme/limits/per-client   # the resource that it stands for
  spec:
    rate: 100/min

The condition InForce in its status says whether it is in force, and if not, why. What is
applied belongs to --set, as with apply --set: resources of other sets are refused and stay
as they are. A deleted object stays until its resource is deleted, and that is refused as
long as other resources need it.

It runs in a pod, with the rights of its service account: the Helm chart starts it with
operator.enabled, and has the definitions of the custom resources (crds.enabled). Of several
operators one leads; a Lease says which.

  GET  /metrics, /healthz, /readyz    on --admin`

// operatorConfig has the values of the flags.
type operatorConfig struct {
	connection connection
	log        telemetry.Log
	meters     telemetry.Meters
	owner      string // --set
	name       string
	admin      string
	resync     time.Duration
}

// newOperator is the process that follows custom resources.
func newOperator() *cobra.Command {
	var c operatorConfig
	cmd := &cobra.Command{
		Use:     "operator",
		Short:   "Make Kubernetes' custom resources the configuration",
		Long:    operatorLong,
		Example: "  titrate operator --server coordinator:7400 --tls-ca ca.crt --tls-cert tls.crt --tls-key tls.key",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context(), cmd)
		},
	}
	c.connection.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.owner, "set", "kubernetes",
		"set that owns what is applied; each cluster with the same coordinator needs another one")
	f.StringVar(&c.name, "name", "", "unique name of this operator (default: the host's name)")
	f.StringVar(&c.admin, "admin", "127.0.0.1:7601", "HTTP address: metrics and health")
	f.DurationVar(&c.resync, "resync", time.Minute,
		"longest time until what somebody has changed by other means is put back, at least 1s; shorter costs more")
	c.meters.Flags(f)
	c.log.Flags(f)
	return cmd
}

func (c *operatorConfig) run(ctx context.Context, cmd *cobra.Command) error {
	if err := c.check(); err != nil {
		return err
	}
	logger, err := c.log.Open(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	cluster, err := kubernetes.InCluster()
	if err != nil {
		return err
	}
	client, err := c.connection.dial(grpc.WithDefaultServiceConfig(atLeader))
	if err != nil {
		return err
	}
	defer client.close()
	c.meters.Service, c.meters.Instance, c.meters.Version = "titrate-operator", c.name, command.Version()
	metrics, err := c.meters.Open(ctx)
	if err != nil {
		return err
	}
	logger, logs, err := c.meters.OpenLogs(ctx, logger, metrics)
	if err != nil {
		return err
	}
	defer flush(logs)
	o := operator.New(operator.Options{API: client, Set: c.owner, Name: c.name, Resync: c.resync, Log: logger,
		Cluster: cluster})
	admin, at, err := c.open(ctx, o, metrics, logger)
	if err != nil {
		return err
	}
	logger.Info("operator started", "set", c.owner, "admin", at.Addr().String(), "coordinator", c.connection.Server)
	group, serving := errgroup.WithContext(ctx)
	group.Go(func() error { return admin.Serve(serving, at) })
	group.Go(func() error { o.Run(serving); return nil })
	return group.Wait()
}

// flush sends what is left of the log, for a second at most.
func flush(logs *telemetry.Logs) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = logs.Close(ctx) // what is not sent is in the log
}

// check refuses wrong flags, and fills in the name.
func (c *operatorConfig) check() error {
	if c.resync < time.Second {
		return command.Usagef("--resync %s: want at least 1s", c.resync)
	}
	if c.owner == "" {
		return command.Usagef("--set is empty: want the name of the set that owns what is applied")
	}
	var err error
	c.name, err = telemetry.ProcessName(c.name)
	return command.Usage(err)
}

// open opens the HTTP server, which has the operator's metrics. With a certificate it speaks HTTPS.
func (c *operatorConfig) open(ctx context.Context, o *operator.Operator, metrics *telemetry.Metrics,
	log *slog.Logger) (*telemetry.Admin, net.Listener, error) {
	security := telemetry.Security{CA: c.connection.CA, Cert: c.connection.Cert, Key: c.connection.Key,
		Insecure: c.connection.Insecure}
	admin, err := telemetry.NewAdmin(metrics, security, log)
	if err != nil {
		return nil, nil, err
	}
	if err := o.Register(metrics); err != nil {
		return nil, nil, err
	}
	admin.Alarm("operator", o.Trouble)
	at, err := security.Listen(ctx, "--admin", c.admin)
	return admin, at, err
}
