package installation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
	"github.com/titrate/titrate/services/telemetry"
)

// Options of an installation. The zero value is etcd and a coordinator.
type Options struct {
	// Name ends the names of etcd and of the coordinator, where a rig has several installations.
	Name string
	// Ports has the ports, also those of the first gateways. nil has free ones, and no gateway.
	Ports *PortPlan
	// Host is the address that coordinators' APIs listen on; "" is 127.0.0.1.
	Host string
	// Documents are applied before the first gateway starts. "" applies nothing.
	Documents string
	// Upstream are arguments of the upstream; nil starts none.
	Upstream []string
	// Coordinator and Agent are arguments of each coordinator and of each agent.
	Coordinator, Agent []string
	// Client has the TLS files of a client of the API. With them the API and the admin pages have TLS, and
	// Rig.Client must trust them. The zero value is no TLS.
	Client telemetry.Security
}

// Installation is Titrate: etcd, coordinators, an upstream, and gateways that join.
type Installation struct {
	*Rig
	Etcd, Upstream *Server // Upstream is nil if Options states none
	Coordinators   []*Coordinator
	Gateways       []*Gateway
	Revision       int64 // of the configuration that was applied last

	o      Options
	ports  *PortPlan
	gossip []string // addresses of the agents
}

// Coordinator is a coordinator's server, the address of its API, and the URL of its admin page.
type Coordinator struct {
	*Server
	API, Web string
}

// New plans an installation; Start starts it.
func (r *Rig) New(o Options) (in *Installation, err error) {
	in = &Installation{Rig: r, o: o, ports: o.Ports}
	if in.ports == nil {
		if in.ports, err = PlanPorts(0, 0); err != nil {
			return nil, err
		}
	}
	p := in.ports
	in.Etcd = r.Etcd(strings.TrimSpace("etcd "+o.Name), Address(p.etcd), Address(p.etcdPeer))
	if o.Upstream != nil {
		in.Upstream = r.Upstream(Address(p.upstream), o.Upstream...)
	}
	for _, port := range p.gossip {
		in.gossip = append(in.gossip, Address(port))
	}
	in.addCoordinator(strings.TrimSuffix("coordinator-"+o.Name, "-"), in.at(Address(p.coordinator)),
		Address(p.coordinatorWeb))
	return in, nil
}

// AddCoordinator adds a coordinator at free ports. Add it before the gateways, which are given its address.
func (in *Installation) AddCoordinator(name string) error {
	free, err := Addresses(2)
	if err == nil {
		in.addCoordinator(name, in.at(free[0]), free[1])
	}
	return err
}

// at returns the address of an API whose port is free on loopback.
func (in *Installation) at(loopback string) string {
	if in.o.Host == "" {
		return loopback
	}
	return net.JoinHostPort(in.o.Host, strconv.Itoa(Port(loopback)))
}

func (in *Installation) addCoordinator(name, api, web string) {
	s := in.Coordinator(name, api, web, Address(in.ports.etcd), in.o.Coordinator...)
	in.secure(s)
	in.Coordinators = append(in.Coordinators, &Coordinator{s, api, in.scheme() + web})
}

func (in *Installation) scheme() string {
	if in.o.Client.Given() {
		return "https://"
	}
	return "http://"
}

// secure has the server's admin page asked with TLS, if the installation has TLS.
func (in *Installation) secure(s *Server) {
	s.Probe = strings.Replace(s.Probe, "http://", in.scheme(), 1)
}

// REST returns the planned address of the admin API over HTTP, which the coordinator serves if an argument says so.
func (p *PortPlan) REST() string { return Address(p.rest) }

// Console returns the planned address of the console, which the coordinator serves if an argument says so.
func (p *PortPlan) Console() string { return Address(p.console) }

// API returns the address of the first coordinator's API.
func (in *Installation) API() string { return in.Coordinators[0].API }

// Start starts all servers, in the order of their dependencies: etcd, upstream, coordinators, the configuration,
// agents, Envoys. It returns when all serve and every gateway enforces the configuration.
func (in *Installation) Start(ctx context.Context) error {
	first := []*Server{in.Etcd}
	if in.Upstream != nil {
		first = append(first, in.Upstream)
	}
	for _, c := range in.Coordinators {
		first = append(first, c.Server)
	}
	for _, s := range first {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	if in.o.Documents != "" {
		if err := in.Apply(ctx, in.o.Documents); err != nil {
			return err
		}
	}
	for _, step := range []func(*Gateway, context.Context) error{
		func(g *Gateway, ctx context.Context) error { return g.Agent.Start(ctx) },
		func(g *Gateway, ctx context.Context) error { return g.Proxy.Start(ctx) },
		(*Gateway).Enforces,
	} {
		all, ctx := errgroup.WithContext(ctx)
		for _, g := range in.Gateways {
			all.Go(func() error { return step(g, ctx) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops all servers in reverse order. Its error names the servers that had to be killed.
func (in *Installation) Stop() error {
	var proxies, agents, centre []*Server
	for _, g := range in.Gateways {
		proxies, agents = append(proxies, g.Proxy.Server), append(agents, g.Agent)
	}
	for _, c := range in.Coordinators {
		centre = append(centre, c.Server)
	}
	var failed error
	for _, some := range [][]*Server{proxies, agents, append(centre, in.Upstream), {in.Etcd}} {
		failed = errors.Join(failed, in.Rig.Stop(some...))
	}
	return failed
}

// Dial opens a connection to the first coordinator.
func (in *Installation) Dial() (*grpc.ClientConn, error) {
	how, err := in.o.Client.ClientCredentials()
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(in.API(), grpc.WithTransportCredentials(how))
}

// Resources reads YAML documents.
func Resources(documents string) (all []*quotav1.Resource, err error) {
	parsed, err := document.Parse("documents", []byte(documents))
	for _, d := range parsed {
		all = append(all, resource.Of(d.Resource))
	}
	return all, err
}

// Apply applies YAML documents as `titrate apply` does.
func (in *Installation) Apply(ctx context.Context, documents string) error {
	all, err := Resources(documents)
	if err != nil {
		return err
	}
	conn, err := in.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	applied, err := quotav1.NewQuotaServiceClient(conn).Apply(ctx, &quotav1.ApplyRequest{Resources: all},
		grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	in.Revision = applied.GetRevision()
	return nil
}
