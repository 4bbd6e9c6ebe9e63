package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/limiter"
)

// Bootstrap are the settings of the whole process.
type Bootstrap struct {
	// AgentSocket is the absolute path of the agent's Unix socket.
	AgentSocket string
	// Replica is this Envoy's name for the agents: the same in parent and child of
	// a hot restart, different in every other Envoy. Default: the host's name.
	Replica string
	// Weight of this Envoy in the split of a share, above 0, at most exchange.MaxWeight, default 1.
	Weight float64
	// Unknown decides requests of unknown tenants, default DEFAULT.
	Unknown limiter.UnknownPolicy
	// UnknownStatus is the HTTP status of their refusal under REJECT, 400 to 599,
	// default 403.
	UnknownStatus int
	// Boot decides requests before the first configuration, and a request whose decision
	// failed inside the filter. Default OPEN.
	Boot limiter.BootPolicy
	// BootWait is the time that Envoy waits at its start for the first configuration before it takes traffic, 0
	// to 60 s, default 5 s.
	BootWait time.Duration
	// Keys is the budget of client keys; 0 = the engine's default.
	Keys int
	// Contended is the budget of contended keys; 0 = the engine's default.
	Contended int
	// Concurrency is Envoy's number of workers; 0 = ask Envoy.
	Concurrency int
}

// Bounds of the bootstrap settings.
const (
	maxSocketPath  = 107 // sun_path without its terminating zero
	maxReplica     = 253
	minKeys        = 1 << 10
	maxKeys        = 100_000_000
	minContended   = 1 << 10
	maxConcurrency = 1024

	defaultBootWait = 5 * time.Second
	maxBootWait     = time.Minute
)

var unknownPolicies = map[string]limiter.UnknownPolicy{
	"DEFAULT": limiter.UnknownDefault, "REJECT": limiter.UnknownReject, "BYPASS": limiter.UnknownBypass,
}

var bootPolicies = map[string]limiter.BootPolicy{"OPEN": limiter.BootOpen, "CLOSED": limiter.BootClosed}

// ParseBootstrap reads the bootstrap extension's configuration.
func ParseBootstrap(raw []byte) (*Bootstrap, error) {
	m, err := object("", raw, "agent_socket", "replica", "weight", "unknown_tenant", "unknown_tenant_status",
		"boot_policy", "boot_wait", "keys", "contended_keys", "concurrency")
	if err != nil {
		return nil, err
	}
	b := &Bootstrap{Weight: 1, UnknownStatus: http.StatusForbidden, BootWait: defaultBootWait}
	for _, read := range []func() error{
		func() error { return value(m, "", "agent_socket", "a path", &b.AgentSocket) },
		func() error { return value(m, "", "replica", "a name", &b.Replica) },
		func() error { return value(m, "", "weight", "a number", &b.Weight) },
		func() error { return whole(m, "keys", minKeys, maxKeys, &b.Keys) },
		func() error { return whole(m, "contended_keys", minContended, limiter.MaxContended, &b.Contended) },
		func() error { return whole(m, "concurrency", 1, maxConcurrency, &b.Concurrency) },
		func() error {
			return choice(m, "unknown_tenant", "DEFAULT, REJECT or BYPASS", unknownPolicies, &b.Unknown)
		},
		func() error { return whole(m, "unknown_tenant_status", minStatus, maxStatus, &b.UnknownStatus) },
		func() error { return duration(m, "boot_wait", maxBootWait, &b.BootWait) },
		func() error { return choice(m, "boot_policy", "OPEN or CLOSED", bootPolicies, &b.Boot) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return b, b.check()
}

func (b *Bootstrap) check() error {
	if b.Replica == "" {
		host, err := os.Hostname()
		if err != nil {
			return wrong("replica", "is missing and the host has no name: %v", err)
		}
		b.Replica = host
	}
	switch {
	case b.AgentSocket == "":
		return wrong("agent_socket", "is missing; give the path that `titrate agent --socket` has")
	case len(b.AgentSocket) > maxSocketPath:
		return wrong("agent_socket", "has %d bytes, a Unix socket's path has room for %d; "+
			"move the agent's --socket to a shorter path than %q", len(b.AgentSocket), maxSocketPath, b.AgentSocket)
	case !filepath.IsAbs(b.AgentSocket) || strings.ContainsRune(b.AgentSocket, 0):
		return wrong("agent_socket", "is %q; an absolute path is needed", b.AgentSocket)
	case len(b.Replica) > maxReplica:
		return wrong("replica", "has %d bytes, at most %d are allowed", len(b.Replica), maxReplica)
	case !(b.Weight > 0 && b.Weight <= exchange.MaxWeight):
		return wrong("weight", "is %v, a number above 0 and at most %v is needed", b.Weight, exchange.MaxWeight)
	}
	return nil
}

// whole reads an integer within bounds; JSON from a Struct may say 2e6.
func whole(m map[string]json.RawMessage, key string, least, most int, v *int) error {
	if _, ok := m[key]; !ok {
		return nil
	}
	var f float64
	if err := value(m, "", key, "a number", &f); err != nil {
		return err
	}
	if f != math.Trunc(f) || f < float64(least) || f > float64(most) {
		return wrong(key, "is %v, a whole number from %d to %d is needed", f, least, most)
	}
	*v = int(f)
	return nil
}

// duration reads a time such as 500ms or 5s, from 0 to most.
func duration(m map[string]json.RawMessage, key string, most time.Duration, v *time.Duration) error {
	if _, ok := m[key]; !ok {
		return nil
	}
	var s string
	if err := value(m, "", key, "a time such as 5s", &s); err != nil {
		return err
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > most {
		return wrong(key, "is %q, a time from 0s to %v is needed", s, most)
	}
	*v = d
	return nil
}

// choice reads one of the choices. YAML takes a bare OFF for false.
func choice[T any](m map[string]json.RawMessage, key, want string, choices map[string]T, v *T) error {
	raw, ok := m[key]
	if !ok {
		return nil
	}
	if c, ok := choices["OFF"]; ok && off(raw) {
		*v = c
		return nil
	}
	var s string
	if err := value(m, "", key, want, &s); err != nil {
		return err
	}
	c, ok := choices[s]
	if !ok {
		return wrong(key, "is %q, %s is needed", s, want)
	}
	*v = c
	return nil
}

func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
