package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/services/telemetry"
)

// Config has the settings of an operator. Zero values mean the stated defaults.
type Config struct {
	// Name of this agent, unique in the cluster, see [telemetry.ProcessName]. Default: the host's name.
	Name string
	// Version of the build, for the coordinator and metrics.
	Version string
	// Coordinators are host:port of the coordinators, any of them. None: the snapshot is served without end.
	Coordinators []string
	// Socket is the path of the Unix socket for the filters. Default /run/titrate/agent.sock.
	Socket string
	// SocketGroup is the name or number of a group whose processes may connect to Socket,
	// too: the group of the Envoys, where they run as another user. Default: none.
	SocketGroup string
	// Gossip is IP:port for the other agents, UDP and TCP. Default 127.0.0.1:7500.
	Gossip string
	// GossipAdvertise is the host:port that the others reach Gossip at. Default: as bound.
	GossipAdvertise string
	// Join are host:port of any other agents' Gossip; a name may stand for many.
	Join []string
	// GossipKeyFile holds the gossip keys, one a line: 16, 24 or 32 bytes in base64. The first one
	// seals, and what any of them has sealed is read. A change is in force within seconds. Required
	// beyond loopback, unless Security.Insecure.
	GossipKeyFile string
	// Admin is the address of the HTTP server for metrics, health and status. Default 127.0.0.1:7501.
	Admin string
	// SnapshotDir keeps the last good configuration and shares, of this agent alone. Empty: nowhere.
	SnapshotDir string
	// Period P between two announcements of contended keys. Default 50 ms, range 10 ms to 1 s, the same in the whole
	// cluster. Longer costs less and makes limits slower to settle.
	Period time.Duration
	// T1 is the time for which a cut-off agent keeps its last rates before it uses its part by weight. Default 14 s.
	T1 time.Duration
	// T2 is the time for which an unreachable replica's last claim counts. Default 15 s; it must exceed T1 by the skew
	// of clocks' rates.
	T2 time.Duration
	// ExactWithin bounds the delay to every other agent, one way, up to which limits that state no precision are EXACT;
	// at most exchange.MaxExactWithin. 0: they are LOCAL, wherever agents are.
	ExactWithin time.Duration
	// Site names the place of this agent: EXACT limits are exact among the agents of one site. Default "": all agents
	// without a name of a site are of one site.
	Site string
	// RLS and RLQS are the services for Envoys without the filter.
	RLS  RLS
	RLQS RLQS
	// FaultInjection adds POST /fault/partition to the admin server.
	FaultInjection bool

	Security telemetry.Security
	Meters   telemetry.Meters
	Log      *slog.Logger
}

// ErrSettings marks errors of Complete that are about the settings alone, not about the machine or a port.
var ErrSettings = errors.New("wrong settings")

// longestSocket is the longest path of a Unix socket on Linux (sun_path, less the final 0).
const longestSocket = 107

// withDefaults fills in what is zero and checks what is not.
func (c Config) withDefaults() (Config, error) {
	name, wrong := telemetry.ProcessName(c.Name)
	c.Name = name
	c.Version = cmp.Or(c.Version, "unknown")
	c.Socket = cmp.Or(c.Socket, "/run/titrate/agent.sock")
	c.Gossip = cmp.Or(c.Gossip, "127.0.0.1:7500")
	c.Admin = cmp.Or(c.Admin, "127.0.0.1:7501")
	c.Period = cmp.Or(c.Period, exchange.DefaultPeriod)
	c.T1 = cmp.Or(c.T1, exchange.DefaultSplitAfter)
	c.T2 = cmp.Or(c.T2, exchange.DefaultForgetAfter)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(wrong, c.check(), c.RLS.check(), c.RLQS.check(), c.guardGossip()); err != nil {
		return c, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return c, nil
}

func (c Config) check() error {
	var all []error
	bad := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if len(c.Socket) > longestSocket {
		bad("--socket %s: %d bytes, the system takes %d at most: give a shorter path", c.Socket, len(c.Socket),
			longestSocket)
	}
	if c.Site != "" && !telemetry.IsName(c.Site) {
		bad("--site %q: want 1 to 128 of a-z A-Z 0-9 . _ -, with a letter or digit at both ends", c.Site)
	}
	if c.Period < 10*time.Millisecond || c.Period > time.Second {
		bad("--period %v: want 10ms to 1s", c.Period)
	}
	if c.ExactWithin < 0 || c.ExactWithin > exchange.MaxExactWithin {
		bad("--exact-within %v: want 0 to %v: requests wait for four ways at most, and no longer than 50ms",
			c.ExactWithin, exchange.MaxExactWithin)
	}
	if c.T1 < 10*c.Period || c.T2 <= c.T1 {
		bad("--isolation-split-after %v and --claims-forget-after %v: want at least 10 periods for the first, and "+
			"more than the first for the second", c.T1, c.T2)
	}
	addresses := map[string][]string{"--coordinator": c.Coordinators, "--join": c.Join}
	if at := c.RLS.XDS.Address; at != "" {
		addresses["--rls-xds"] = []string{at}
	}
	for flag, list := range addresses {
		for _, a := range list {
			if _, _, err := net.SplitHostPort(a); err != nil {
				bad("%s %q: want host:port: %w", flag, a, err)
			}
		}
	}
	return errors.Join(all...)
}

// guardGossip refuses a cluster beyond loopback that nothing protects.
func (c Config) guardGossip() error {
	for flag, a := range map[string]string{"--gossip": c.Gossip, "--gossip-advertise": c.GossipAdvertise} {
		if a == "" {
			continue
		}
		host, _, err := net.SplitHostPort(a)
		if err != nil {
			return fmt.Errorf("%s %q: want host:port, such as 127.0.0.1:7500: %w", flag, a, err)
		}
		if c.GossipKeyFile == "" && !c.Security.Insecure && !telemetry.Loopback(host) {
			return fmt.Errorf("%s %s: not a loopback address; give --gossip-key-file (openssl rand -base64 32 makes "+
				"one), or --insecure to gossip in the clear", flag, a)
		}
	}
	return nil
}

// keys reads the gossip keys, none if there is no file. The first one seals.
func (c Config) keys() (keys [][]byte, err error) {
	if c.GossipKeyFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.GossipKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--gossip-key-file: %w", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if line = strings.TrimSpace(line); line == "" && i > 0 {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, fmt.Errorf("--gossip-key-file %s: line %d: not base64: %w", c.GossipKeyFile, i+1, err)
		}
		if n := len(key); n != 16 && n != 24 && n != 32 {
			return nil, fmt.Errorf("--gossip-key-file %s: line %d: %d bytes, want 16, 24 or 32 in base64 "+
				"(openssl rand -base64 32)", c.GossipKeyFile, i+1, n)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Complete checks the configuration, loads the snapshot and opens the ports.
// On error nothing stays open; errors of the settings are ErrSettings. Run must follow.
func (c Config) Complete(ctx context.Context) (*Agent, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	a, err := newAgent(c)
	if err != nil {
		return nil, err
	}
	if err := a.open(ctx); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}
