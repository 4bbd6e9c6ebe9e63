package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/access"
	"github.com/titrate/titrate/services/audit"
	"github.com/titrate/titrate/services/coordinator/allocation"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/fleet"
	"github.com/titrate/titrate/services/coordinator/leadership"
	"github.com/titrate/titrate/services/coordinator/ledger"
	"github.com/titrate/titrate/services/coordinator/stream"
	"github.com/titrate/titrate/services/coordinator/webhook"
	"github.com/titrate/titrate/services/intake"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/telemetry"
)

// Config has the settings of an operator. Zero values mean the stated defaults; fields without a default are required.
type Config struct {
	// Listen is the address of the gRPC server: admin API, control stream, health, reflection. Default 127.0.0.1:7400.
	Listen string
	// ListenAgents is the address of a separate gRPC server for agents: control stream, health, reflection. Listen has
	// no control stream then. Empty = none.
	ListenAgents string
	// Rest is the address of an HTTP server with the admin API as JSON, see package rest. Empty = none.
	Rest string
	// Console is the address of an HTTP server with the console and the admin API that it asks, see package console.
	// Empty = none.
	Console string
	// Admin is the address of the HTTP server for metrics and health. Default 127.0.0.1:7401.
	Admin string
	// Advertise is the address by which agents reach this coordinator, host:port. Default: the address that
	// ListenAgents got, else Listen, which must then be a definite one.
	Advertise string
	// Name of this process, unique among coordinators. Default: the host name.
	Name string
	// Version of the build, for metrics.
	Version string

	// EtcdEndpoints are host:port or URLs of etcd's members. Required.
	EtcdEndpoints []string
	StoreConfig
	// SessionTTL is the time for which a dead leader keeps the lead. Default 5 s.
	SessionTTL time.Duration

	SharingConfig

	// Round is the least time between rounds. Default 250 ms, range 50 ms to 2 s.
	// Shorter follows demand sooner and costs more messages.
	Round time.Duration
	// GossipPeriod is the agents' --period, P in the law for the round. Default 50 ms.
	GossipPeriod time.Duration
	// SoftExpiry is the time without a renewal after which agents flag shares as stale. Enforcement goes on. Default 10
	// s; it should exceed a failover.
	SoftExpiry time.Duration
	// Settle is the time for which a new leader collects reports before its first leases. Default 2 s. Longer gives
	// slow agents time to find it.
	Settle time.Duration
	// Allocation are the numbers of the loop. Default: each as in allocation.Defaults.
	Allocation allocation.Params
	// Streams bound how many control streams are open at a time.
	Streams stream.Limits
	// TopTenants bounds the metrics per tenant: so many per pool by demand, and as many by guarantee.
	// Default 100, negative = none.
	TopTenants int
	// ShutdownTimeout bounds a stop in order. Default 5 s.
	ShutdownTimeout time.Duration

	AccessConfig
	// Webhook is sent an event when a client has used a part of a calendar quota that the limit names.
	Webhook webhook.Config

	Security telemetry.Security
	Meters   telemetry.Meters
	Log      *slog.Logger
}

// SharingConfig says which pools this coordinator leads.
type SharingConfig struct {
	// SharePools makes coordinators that say so lead the pools together, each a part of them. Without
	// it one leads all. They reach each other at Advertise.
	SharePools bool
	// Site of this coordinator, such as a region, see package agent. With SharePools it leads the pools whose demand is
	// mostly there. Empty = of none.
	Site string
	// SiteSettle is the time for which most of a pool's demand must come from another site before a coordinator there
	// leads it. Default 30 s.
	SiteSettle time.Duration
}

// StoreConfig has the settings about what is kept in etcd.
type StoreConfig struct {
	// EtcdSecurity are the TLS files for etcd.
	EtcdSecurity telemetry.Security
	// EtcdUser and the file with its password, for an etcd with authentication; without
	// a file the password is in the environment, see store.PasswordEnv.
	EtcdUser, EtcdPasswordFile string
	// Prefix of everything that Titrate keeps in etcd. Default /titrate.
	Prefix string
	// HistoryKeep is the number of revisions of the configuration that are kept for history and rollback. Default 200,
	// negative = none. HistoryBytes bounds the space in etcd of their changes, compressed. Default 64 MiB. The oldest
	// go first; a change that takes more alone is kept without its diff, and no rollback goes over it.
	HistoryKeep  int
	HistoryBytes int64
}

// AccessConfig says who may do what, and where changes are noted.
type AccessConfig struct {
	// AccessPolicy is the file that grants roles to client certificates, see package access. Empty: agents alone are
	// let in, by the form of their certificates. Without a CA in Security there are no certificates, and any client
	// that can connect may do everything.
	AccessPolicy string
	// AccessAdmins are the identities, URIs or DNS names of certificates, that may do
	// everything whatever the policy says.
	AccessAdmins []string
	// Tokens is the file of bearer tokens for the admin API, see access.Token; "" = none. JWT
	// says which JWTs are taken there. Tokens need Security.Cert, or a Listen on loopback.
	Tokens string
	JWT    access.JWT
	// AuditLog is the file that the JSON lines about changes are appended to. Empty: they go to Log.
	AuditLog string
	// AuditRequired makes a change fail, before it is stored, whose line AuditLog does not take.
	AuditRequired bool
}

// Coordinator is one process of the coordinator, its ports open.
type Coordinator struct {
	config        Config
	log           *slog.Logger
	client        *clientv3.Client
	store         *store.Store
	elector       *election.Elector
	configuration *config.Cache
	fleet         fleet.Fleet
	streams       *stream.Server
	loop          *leadership.Loop
	ledger        *ledger.Ledger
	webhook       *webhook.Sender // nil without Config.Webhook
	leads
	metrics *telemetry.Metrics
	traces  changeTraces
	logs    *telemetry.Logs // nil: none are sent
	servers
	guard    *access.Guard
	audit    *audit.File    // nil without Config.AuditLog
	tidying  sync.WaitGroup // the store, after an election
	claims   claims
	deciding sync.WaitGroup // on claims
	decide   func()         // begins to decide on claims

	instruments   instruments
	suspectLogged time.Time // when the log last named a suspect agent
}

// leads says which pools this coordinator leads, and who leads the others.
type leads struct {
	homes homes // of the goroutine that leads
	part  part  // that this coordinator leads; of the goroutine that leads
	peers *peers
}

type servers struct {
	admin   *telemetry.Admin
	server  *grpc.Server
	agents  *grpc.Server  // for the control stream: server, or a separate one
	rest    *http.Server  // nil without Config.Rest
	console consoleServer // zero without Config.Console
	intake  *intake.Intake
	health  *health.Server

	grpcListener, adminListener net.Listener
	agentListener               net.Listener // nil where agents have no separate one
	restListener                net.Listener // nil without Config.Rest
}

const (
	defaultListen = "127.0.0.1:7400"
	defaultAdmin  = "127.0.0.1:7401"
	defaultPrefix = "/titrate"
	minRound      = 50 * time.Millisecond
)

// ErrSettings marks errors of Complete that are about the settings alone, not about what they met on this machine.
var ErrSettings = errors.New("wrong settings")

// fill writes the defaults.
func (c *Config) fill() error {
	or(&c.Listen, defaultListen)
	or(&c.Admin, defaultAdmin)
	or(&c.Prefix, defaultPrefix)
	or(&c.SessionTTL, 5*time.Second)
	or(&c.Round, 250*time.Millisecond)
	or(&c.GossipPeriod, exchange.DefaultPeriod)
	or(&c.SoftExpiry, 10*time.Second)
	or(&c.Settle, 2*time.Second)
	or(&c.SiteSettle, 30*time.Second)
	allocation := allocation.Defaults()
	or(&c.Allocation.Membership, allocation.Membership)
	or(&c.Allocation.Margin, allocation.Margin)
	or(&c.Allocation.Smoothing, allocation.Smoothing)
	or(&c.Allocation.Drain, allocation.Drain)
	or(&c.Allocation.Idle, allocation.Idle)
	or(&c.TopTenants, 100)
	or(&c.HistoryKeep, 200)
	or(&c.HistoryBytes, 64<<20)
	or(&c.ShutdownTimeout, 5*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.Name, err = telemetry.ProcessName(c.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	c.Meters.Service, c.Meters.Instance, c.Meters.Version = "titrate-coordinator", c.Name, c.Version
	return nil
}

func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) check() error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if len(c.EtcdEndpoints) == 0 {
		bad("--etcd-endpoints: give at least one, such as 127.0.0.1:2379")
	}
	if c.Round < minRound || c.Round > leadership.MaxRound {
		bad("--round %s: want %s to %s; agents leave a coordinator that sends nothing for 5s", c.Round, minRound,
			leadership.MaxRound)
	}
	if c.SoftExpiry <= 2*c.Round {
		bad("--soft-expiry %s: want more than two rounds (%s), or shares go stale between two", c.SoftExpiry, 2*c.Round)
	}
	if c.SessionTTL < time.Second {
		bad("--session-ttl %s: want at least 1s, etcd's least", c.SessionTTL)
	}
	if c.Advertise != "" {
		if _, _, err := net.SplitHostPort(c.Advertise); err != nil {
			bad("--advertise %q: want host:port: %w", c.Advertise, err)
		}
	}
	if c.Site != "" && !telemetry.IsName(c.Site) {
		bad("--site %q: want 1 to 128 of a-z A-Z 0-9 . _ -, with a letter or digit at both ends", c.Site)
	}
	wrong = append(wrong, c.Streams.Check(), c.JWT.Check(), c.Webhook.Check())
	if c.AuditRequired && c.AuditLog == "" {
		bad("--audit-required is about the file of --audit-log: give that, too")
	}
	if c.HistoryBytes < 0 {
		bad("--history-bytes %d: want 1 at least", c.HistoryBytes)
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return nil
}

// Complete fills in defaults, checks everything, opens the ports and connects the
// parts. It does not wait for etcd. The caller that got a Coordinator must Run it.
func (c Config) Complete(ctx context.Context) (*Coordinator, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	o := &Coordinator{config: c, log: c.Log, configuration: config.New()}
	ok := false
	defer func() {
		if !ok {
			o.release()
		}
	}()
	for _, step := range []func(context.Context) error{o.open, o.observe, o.connect, o.wire} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	ok = true
	return o, nil
}
