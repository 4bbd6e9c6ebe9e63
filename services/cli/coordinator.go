package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/coordinator"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/telemetry"
)

const coordinatorLong = `coordinator shares the capacity of each pool among tenants. It keeps pools,
tenants, quotas and limits in etcd, serves the admin API (titrate get, apply,
delete, why), gets every agent's demand of its gateways' tenants, and
leases each tenant its share: weighted max-min fair or α-fair, exact, each round.

Run two or three of them on one etcd. One leads; the others are ready to take
over within --session-ttl and send agents its address. No request waits
for a coordinator: with all of them gone gateways hold the shares they have.

With --share-pools all of them lead: each pool is led by one of them, and every
agent has a stream to each. A question about a pool may go to any of them. A pool whose demand
is mostly at one site is led by a coordinator with that --site, if there is one. While an agent of a
release that knows one leader only is there, or a coordinator of such a release is elected,
one coordinator leads all.

Ports are loopback unless --tls-cert, --tls-key and --tls-ca are given or --insecure is
said. With --tls-ca callers show certificates, and what they may do depends on them:
those of agents may only be agents, under their own names; the identities of
--access-admin may do everything; --access-policy grants the rest. With --tokens or --jwks a
caller of the admin API may send a token instead of showing a certificate. With none of these
any client that can connect may do everything.

With --rest callers without gRPC have the admin API as JSON over HTTP, on a port of its
own, with the same TLS files, certificates, tokens and roles. --console serves pages for a
browser beside it.

On the admin port: /metrics for Prometheus, /healthz (the process runs), /readyz (etcd
and configuration there).`

const coordinatorExample = `  titrate coordinator --etcd-endpoints 127.0.0.1:2379
  titrate coordinator --etcd-endpoints etcd-0:2379,etcd-1:2379,etcd-2:2379 \
    --listen 0.0.0.0:7400 --advertise coordinator-0.titrate:7400 \
    --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt \
    --access-admin spiffe://example.org/ops
  titrate coordinator --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt \
    --tokens tokens.yaml \
    --jwks keys.json --jwt-issuer https://login.example.org --jwt-audience titrate`

// newCoordinator is the process that shares capacity.
func newCoordinator() *cobra.Command {
	var config coordinator.Config
	var log telemetry.Log
	cmd := &cobra.Command{
		Use:     "coordinator",
		Short:   "Share the capacity of pools among tenants",
		Long:    coordinatorLong,
		Example: coordinatorExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.Open(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return command.Usage(err)
			}
			config.Log, config.Version = logger, command.Version()
			return runCoordinator(cmd.Context(), config)
		},
	}
	coordinatorFlags(cmd, &config)
	log.Flags(cmd.Flags())
	return cmd
}

func coordinatorFlags(cmd *cobra.Command, c *coordinator.Config) {
	f := cmd.Flags()
	etcdFlags(f, &c.EtcdEndpoints, &c.EtcdSecurity, &c.EtcdUser, &c.EtcdPasswordFile, &c.Prefix)
	f.StringVar(&c.Listen, "listen", "127.0.0.1:7400", "gRPC address: admin API, control stream, health, reflection")
	f.StringVar(&c.ListenAgents, "listen-agents", "",
		"gRPC address for agents alone: control stream, health, reflection; --listen then has no control stream "+
			"(default: agents use --listen)")
	f.StringVar(&c.Rest, "rest", "",
		"HTTP address of the admin API as JSON, with its OpenAPI document at /openapi.json (default none)")
	f.StringVar(&c.Console, "console", "",
		"HTTP address of the console: pages for a browser, with the roles and tokens of the admin API (default none)")
	f.StringVar(&c.Admin, "admin", "127.0.0.1:7401", "HTTP address: metrics and health")
	f.StringVar(&c.Advertise, "advertise", "",
		"host:port at which agents reach --listen-agents or --listen (default: its address)")
	f.StringVar(&c.Name, "name", "", "unique name of this coordinator (default: the host's name)")
	f.BoolVar(&c.SharePools, "share-pools", false,
		"lead the pools together with the other coordinators with this flag, each a part; they reach it at "+
			"--advertise (default: one leads all)")
	f.StringVar(&c.Site, "site", "",
		"name of this coordinator's site, such as a region, as agents have it: with --share-pools it leads the pools "+
			"whose demand is mostly there. 1 to 128 letters, digits and . _ - (default none)")
	f.DurationVar(&c.Round, "round", 250*time.Millisecond,
		"least time between rounds, 50ms to 2s: shorter follows demand sooner, at more messages")
	f.DurationVar(&c.GossipPeriod, "gossip-period", exchange.DefaultPeriod,
		"the agents' --period; rounds are at least 2.5 times as long as it and the gossip delay together")
	f.DurationVar(&c.SoftExpiry, "soft-expiry", 10*time.Second,
		"age at which agents flag shares as stale; enforcement goes on")
	f.DurationVar(&c.SessionTTL, "session-ttl", 5*time.Second,
		"how long a dead leader keeps the lead: shorter replaces it sooner, but a slow etcd costs the lead")
	f.DurationVar(&c.Settle, "settle", 2*time.Second,
		"how long a new leader gathers reports before its first shares, when agents had others before")
	f.DurationVar(&c.Allocation.Membership, "membership", 20*time.Second,
		"how long an unreachable agent keeps its demand and its gateways")
	f.IntVar(&c.Streams.Streams, "max-streams", 4096, "control streams open at a time; more agents are turned away")
	f.IntVar(&c.Streams.PerIdentity, "max-streams-per-identity", 512,
		"control streams open at a time with one client certificate")
	historyFlags(f, c)
	f.IntVar(&c.TopTenants, "metrics-tenants", 100,
		"tenants with metrics of their own per pool: so many by demand and as many by guarantee; negative = none")
	f.DurationVar(&c.ShutdownTimeout, "shutdown-timeout", 5*time.Second, "longest wait for calls under way at shutdown")
	usageFlags(f, c)
	callerFlags(f, c)
	c.Security.Flags(f)
	c.Meters.Flags(f)
}

// callerFlags adds the flags about the callers of the admin API.
func callerFlags(f *pflag.FlagSet, c *coordinator.Config) {
	f.StringVar(&c.AccessPolicy, "access-policy", "",
		"YAML file that grants roles to client certificates, read again after a change; needs --tls-ca (default: "+
			"agents alone, by .../agent/NAME or NAME.agent....)")
	f.StringSliceVar(&c.AccessAdmins, "access-admin", nil,
		"URI or DNS name of the certificates that may do everything, whatever the policy says; a star stands for "+
			"anything")
	f.StringVar(&c.Tokens, "tokens", "",
		"YAML file of bearer tokens: tokens: [{name, sha256, role, tenants, ceiling, expires}]; read again after "+
			"changes; needs --tls-cert or a loopback --listen")
	f.StringVar(&c.JWT.Keys, "jwks", "",
		"file with a JWK set of public keys, read again when it changes. JWTs that one of them has signed are "+
			"tokens, too; needs --jwt-issuer and --jwt-audience")
	f.StringVar(&c.JWT.Issuer, "jwt-issuer", "", "what the claim iss of a JWT must be")
	f.StringVar(&c.JWT.Audience, "jwt-audience", "", "what the claim aud of a JWT must have")
	f.StringToStringVar(&c.JWT.Claims, "jwt-claims", nil,
		"claims that name a JWT's subject, roles (tenant-viewer, viewer, editor, admin) and their tenants (default "+
			"subject=sub,role=titrate_role,tenants=titrate_tenants)")
	f.StringVar(&c.AuditLog, "audit-log", "",
		"file that a JSON line is appended to for each resource that is changed (default: the log)")
	f.BoolVar(&c.AuditRequired, "audit-required", false,
		"write a line to --audit-log before each change too, and refuse the change if that cannot be done")
}

// historyFlags adds the flags about earlier revisions.
func historyFlags(f *pflag.FlagSet, c *coordinator.Config) {
	f.IntVar(&c.HistoryKeep, "history-keep", 200,
		"revisions of the configuration kept in etcd for titrate history and rollback; negative = none")
	f.Int64Var(&c.HistoryBytes, "history-bytes", 64<<20,
		"bytes of etcd that their compressed changes may take, the oldest go first. A change that takes more "+
			"alone is kept without its diff, and no rollback goes over it")
}

// usageFlags adds the flags about the use of calendar quotas.
func usageFlags(f *pflag.FlagSet, c *coordinator.Config) {
	f.StringVar(&c.Webhook.URL, "usage-webhook", "",
		"URL that is sent a signed event when a client reaches a soft threshold of a calendar quota: https (default "+
			"none)")
	f.StringVar(&c.Webhook.Secret, "usage-webhook-secret", "",
		"file with the secret of the signatures, at least 16 bytes; read again for each request")
	f.BoolVar(&c.Webhook.Internal, "usage-webhook-internal", false,
		"let --usage-webhook have a loopback or private address")
}

// etcdFlags say how to reach etcd.
func etcdFlags(f *pflag.FlagSet, endpoints *[]string, security *telemetry.Security, user, password, prefix *string) {
	f.StringSliceVar(endpoints, "etcd-endpoints", []string{"127.0.0.1:2379"},
		"etcd's members, host:port or URL, comma-separated")
	f.StringVar(&security.CA, "etcd-ca", "", "PEM file with the CA of etcd's certificates; makes the connection TLS")
	f.StringVar(&security.Cert, "etcd-cert", "", "PEM file with the certificate shown to etcd")
	f.StringVar(&security.Key, "etcd-key", "", "PEM file with the key of --etcd-cert")
	f.StringVar(user, "etcd-user", "", "user of an etcd with authentication; it needs read and write on --etcd-prefix")
	f.StringVar(password, "etcd-password-file", "",
		"file with the password of --etcd-user (default: "+store.PasswordEnv+" in the environment)")
	f.StringVar(prefix, "etcd-prefix", "/titrate",
		"prefix of all keys in etcd; the same for all coordinators of a cluster")
}

// runCoordinator serves until ctx ends.
func runCoordinator(ctx context.Context, config coordinator.Config) error {
	c, err := config.Complete(ctx)
	if errors.Is(err, coordinator.ErrSettings) {
		return command.Usage(err)
	}
	if err != nil {
		return err
	}
	return command.OnFewProcessors(ctx, c.Run)
}
