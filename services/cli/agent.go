package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/services/agent"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/rls"
	"github.com/titrate/titrate/services/telemetry"
)

const agentLong = `agent runs beside the Envoys of one host or pod. Filters inside the Envoys reach
it over a Unix socket; it gossips what they use with the other agents, so that
one limit holds over all gateways, and it streams their demand to the
coordinator and the tenants' shares back.

No request ever waits for it. With the coordinator gone, the last shares hold
without end. With the other agents gone, rates stay as they are, and after
--isolation-split-after each gateway keeps to its part by weight. With the agent
itself gone, the filters go on with what they last knew.

What it last obeyed is kept in --snapshot-dir, so that a restart needs neither
the coordinator nor etcd.

With --rls it also serves envoy.service.ratelimit.v3, the API of Envoy's own rate limit
filter: for Envoys that do not load the module. --rls-config is a directory with the YAML
of envoyproxy/ratelimit, as it is, or a mounted ConfigMap: all files are read, whatever
their names end in. A change is in force within two seconds, and files that cannot be read
leave those before in force. --rls-xds takes the same limits from an xDS
server instead, as Envoy Gateway is one: with it the agent is Envoy Gateway's rate limit
service. The domain "titrate" asks the limits and shares of Titrate's own tenants.
docs/rls.md says what differs.

With --rlqs it assigns quotas by envoy.service.rate_limit_quota.v3, to Envoys' own rate
limit quota filter: no module, and no call per request. Each Envoy reports every five
seconds what it has admitted and denied, and gets its share of the limit. That is coarse:
the mean over all Envoys is right, and a shift of demand is followed within two reports.
docs/how-to/rate-limit-quota.md has a whole envoy.yaml.

With --site, EXACT limits are exact among the agents of one site, and one limit holds over
all sites: what one admits is charged at the others a moment later. No limit is exact over
several sites. docs/how-to/two-regions.md has the bounds.

Ports are opened on loopback unless they are protected: --gossip by --gossip-key-file,
--admin, --rls and --rlqs by --tls-cert, or none by --insecure.

  GET  /metrics, /healthz, /readyz    on --admin
  GET  /status                        who is linked, reachable, a member; what is in force
  POST /fault/partition?on=true       with --fault-injection: cut off from agents and
                                      coordinator, in both directions; on=false heals

SIGTERM and Ctrl-C stop it in order. Gateways whose process is gone give up
their claims at once; claims of gateways that live on count until
--claims-forget-after, for they go on admitting.`

const agentExample = `  titrate agent --coordinator 127.0.0.1:7400 --socket /tmp/agent.sock
  titrate agent --coordinator c1:7400,c2:7400 --tls-ca ca.pem \
      --gossip 10.0.0.7:7500 --join agents.titrate.svc:7500 --gossip-key-file key
  openssl rand -base64 32 > key                   a gossip key
  titrate agent --socket /tmp/agent.sock --rls 127.0.0.1:8081 --rls-config config/
  titrate agent --coordinator 127.0.0.1:7400 --socket /tmp/agent.sock --rlqs 127.0.0.1:8082
  titrate agent --site eu --name eu-1 --coordinator c1:7400 --tls-ca ca.pem \
      --gossip 0.0.0.0:7500 --gossip-advertise 198.51.100.7:7500 \
      --join us-1.example.com:7500 --gossip-key-file key
  curl -s 127.0.0.1:7501/status                   what it knows`

// newAgent returns the command for the process next to the Envoys.
func newAgent() *cobra.Command {
	var config agent.Config
	var logging telemetry.Log
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Run the agent beside one or more Envoys",
		Long:    agentLong,
		Example: agentExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := logging.Open(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			config.Log, config.Version = logger, command.Version()
			a, err := config.Complete(cmd.Context())
			if errors.Is(err, agent.ErrSettings) {
				return command.Usage(err)
			}
			if err != nil {
				return err
			}
			return command.OnFewProcessors(cmd.Context(), a.Run)
		},
	}
	agentFlags(cmd, &config)
	config.Security.Flags(cmd.Flags())
	config.Meters.Flags(cmd.Flags())
	logging.Flags(cmd.Flags())
	return cmd
}

func agentFlags(cmd *cobra.Command, config *agent.Config) {
	f := cmd.Flags()
	f.StringVar(&config.Name, "name", "",
		"name of this agent, unique among the agents: 1 to 128 letters, digits and . _ - (default the host name)")
	f.StringSliceVar(&config.Coordinators, "coordinator", nil,
		"host:port of the coordinators, any of them; the leader is found")
	f.StringVar(&config.Socket, "socket", "/run/titrate/agent.sock",
		"Unix socket for the filters; only this user and root may connect, and --socket-group")
	f.StringVar(&config.SocketGroup, "socket-group", "",
		"name or number of a group that may connect to --socket, too, such as the group of Envoys of another "+
			"user. This user must be in it (default none)")
	f.StringVar(&config.Gossip, "gossip", "127.0.0.1:7500", "IP:port for the other agents, UDP and TCP")
	f.StringVar(&config.GossipAdvertise, "gossip-advertise", "",
		"host:port that the others reach --gossip at (default as bound)")
	f.StringSliceVar(&config.Join, "join", nil, "host:port of other agents' --gossip; a name may stand for many")
	f.StringVar(&config.GossipKeyFile, "gossip-key-file", "",
		"file with the gossip keys, one a line: 16, 24 or 32 bytes in base64; the first one seals, all are read; a "+
			"change needs no restart")
	f.StringVar(&config.Admin, "admin", "127.0.0.1:7501", "address of the HTTP server for metrics, health and status")
	f.StringVar(&config.SnapshotDir, "snapshot-dir", "",
		"directory that keeps the last good configuration and shares, of this agent alone (default none)")
	f.DurationVar(&config.Period, "period", exchange.DefaultPeriod,
		"time between two announcements, the same for all agents, 10ms to 1s; longer is cheaper and slower to settle")
	f.DurationVar(&config.T1, "isolation-split-after", exchange.DefaultSplitAfter,
		"a cut-off agent falls to its part by weight after this")
	f.DurationVar(&config.T2, "claims-forget-after", exchange.DefaultForgetAfter,
		"an unreachable replica's last claim counts for this long; more than --isolation-split-after")
	f.DurationVar(&config.ExactWithin, "exact-within", exchange.DefaultExactWithin,
		"limits that state no precision are EXACT while the way to every other agent takes this at most, one way, "+
			"at all agents. Range 0 to 10ms; 0 = they are LOCAL")
	f.StringVar(&config.Site, "site", "",
		"name of this agent's site, such as a region: EXACT limits and nearness are judged within it. 1 to 128 "+
			"letters, digits and . _ - (default one site)")
	rlsFlags(f, &config.RLS)
	f.StringVar(&config.RLQS.Address, "rlqs", "",
		"address to serve Envoy's rate limit quota API at, such as 127.0.0.1:8082 (default none)")
	f.StringVar(&config.RLQS.Unknown, "rlqs-unknown", "allow",
		"what becomes of requests in buckets whose tenant or domain is not known: allow or deny; they are counted")
	f.BoolVar(&config.FaultInjection, "fault-injection", false,
		"serve POST /fault/partition; for tests and demonstrations")
}

func rlsFlags(f *pflag.FlagSet, r *agent.RLS) {
	f.StringVar(&r.Address, "rls", "",
		"address to serve Envoy's rate limit API at, such as 127.0.0.1:8081 (default none)")
	f.StringVar(&r.Dir, "rls-config", "",
		"directory with the YAML files of envoyproxy/ratelimit, watched (default none)")
	f.StringVar(&r.XDS.Address, "rls-xds", "",
		"host:port of an xDS server that has the limits, by TLS if --tls-ca or --tls-cert is given (default none)")
	f.StringVar(&r.XDS.Node, "rls-xds-node", rls.DefaultNode, "node id by which that server knows what to send")
	f.StringVar(&r.XDS.ServerName, "rls-xds-server-name", "",
		"name that the certificate of that server must have (default the host of --rls-xds)")
	f.StringVar((*string)(&r.Windows), "rls-windows", string(rls.Sliding),
		"how N per unit counts: sliding or fixed. Sliding is a bucket of N that refills evenly; fixed is N in "+
			"each second, minute and so on, as envoyproxy/ratelimit counts")
	f.IntVar(&r.Keys, "rls-keys", limiter.DefaultKeys,
		"clients with counters of their own, 40 B each (140 B at most in fixed windows); those beyond share one per "+
			"limit")
	f.BoolVar(&r.Read.MergeDomains, "rls-merge-domains", false, "let several files have one domain")
	f.BoolVar(&r.Shadow, "rls-shadow", false, "answer OK to every request, and count what would be over its limit")
	f.BoolVar(&r.Quota, "rls-quota", false, "treat every limit of the files as one with quota_mode")
	f.BoolVar(&r.Headers, "rls-headers", false,
		"add RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of the tightest limit to responses")
	f.BoolVar(&r.Metadata, "rls-metadata", false,
		"add dynamic metadata to responses: what was asked, the metadata of limits that let it pass, the reasons of "+
			"refusals")
	f.BoolVar(&r.StopOverLimit, "rls-stop-over-limit", false,
		"charge nothing for a refused descriptor; by default one with several hits uses up what was left")
}
