package rig

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/titrate/titrate/lab/installation/child"
)

// Names of rate limiters, in tables and for Options.Systems. Titrate in Envoy has limits of one precision or
// the other; limits of --rls state none.
const (
	TitrateModule  = "titrate LOCAL"
	TitrateExact   = "titrate EXACT"
	TitrateService = "titrate --rls"
	LocalRateLimit = "local_ratelimit"
	RedisRateLimit = "ratelimit + Redis"
	Limitador      = "Limitador (library)"
)

// Systems are all names, in the order of the tables.
func Systems() []string {
	return []string{TitrateModule, TitrateExact, TitrateService, LocalRateLimit, RedisRateLimit, Limitador}
}

// Wants reports whether a system is to be measured.
func (r *Rig) Wants(system string) bool {
	return r.o.Systems == nil || r.o.Systems.MatchString(system)
}

// Service is a running rate limit service, which Envoy's ratelimit filter asks.
type Service struct {
	ports   []int // of the services that the gateways' Envoys ask; a single entry is for all
	charged []CPU // besides the Envoy of each gateway; a single entry is for all
	all     []*child.Process
}

// Port returns the port of the service for the Envoy of a gateway, counted from 0.
func (s *Service) Port(gateway int) int { return s.ports[gateway%len(s.ports)] }

// Processes returns the service's processes that work for a request through a gateway.
func (s *Service) Processes(gateway int) CPU { return s.charged[gateway%len(s.charged)] }

// Stop ends them all.
func (s *Service) Stop() error { return child.Stop(stopGrace, s.all...) }

// stopGrace is the time that a process has to end after a signal.
const stopGrace = 15 * time.Second

// starter starts a service for so many gateways, with a limit per client of each tenant.
type starter func(ctx context.Context, r *Rig, limits []Limit, gateways int) (*Service, error)

// services are the known services, in the order of the tables.
var services = []struct {
	name   string
	binary func(*Options) string
	start  starter
}{
	{TitrateService, func(o *Options) string { return o.Titrate }, startAgents},
	{RedisRateLimit, func(o *Options) string { return o.RateLimit }, startRateLimit},
	{Limitador, func(o *Options) string { return o.Limitador }, startLimitador},
}

// Services returns the names of the services that are wanted and can be started here.
func (r *Rig) Services() (names []string) {
	for _, s := range services {
		if r.Wants(s.name) && s.binary(&r.o) != "" {
			names = append(names, s.name)
		}
	}
	return names
}

// Missing names the wanted services without a binary; "" if all have one.
func (r *Rig) Missing() string {
	var names []string
	for _, s := range services {
		if r.Wants(s.name) && s.binary(&r.o) == "" {
			names = append(names, s.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Not measured, for want of a binary: " + strings.Join(names, ", ") + "."
}

// Service starts a service by its name.
func (r *Rig) Service(ctx context.Context, name string, limits []Limit, gateways int) (*Service, error) {
	for _, s := range services {
		if s.name != name {
			continue
		}
		started, err := s.start(ctx, r, limits, gateways)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return started, nil
	}
	return nil, fmt.Errorf("there is no rate limit service %q", name)
}
