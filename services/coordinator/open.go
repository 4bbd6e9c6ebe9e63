package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/telemetry"
)

// open opens the ports.
func (o *Coordinator) open(ctx context.Context) (err error) {
	c := &o.config
	if o.grpcListener, err = o.listen(ctx, "--listen", c.Listen); err != nil {
		return err
	}
	flag, agents := "--listen", o.grpcListener
	if c.ListenAgents != "" {
		if o.agentListener, err = o.listen(ctx, "--listen-agents", c.ListenAgents); err != nil {
			return err
		}
		flag, agents = "--listen-agents", o.agentListener
	}
	if c.Rest != "" {
		if o.restListener, err = o.listen(ctx, "--rest", c.Rest); err != nil {
			return err
		}
	}
	if c.Console != "" {
		if o.console.listener, err = o.listen(ctx, "--console", c.Console); err != nil {
			return err
		}
	}
	if o.adminListener, err = c.Security.Listen(ctx, "--admin", c.Admin); err != nil {
		return err
	}
	if c.Advertise != "" {
		return nil
	}
	address := agents.Addr().(*net.TCPAddr)
	if address.IP.IsUnspecified() {
		return fmt.Errorf("%s opens every interface: say with --advertise host:port how agents reach this coordinator",
			flag)
	}
	c.Advertise = address.String()
	return nil
}

// listen opens a port for calls.
func (o *Coordinator) listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if err := o.checkCallersKnown(flag, address); err != nil {
		return nil, err
	}
	return o.config.Security.Listen(ctx, flag, address)
}

// connect makes etcd's client, which dials in the background.
func (o *Coordinator) connect(context.Context) error {
	c := &o.config
	secure, err := c.EtcdSecurity.TLSCredentials()
	if err != nil {
		return fmt.Errorf("TLS for etcd: %w", err)
	}
	password, err := store.Password(c.EtcdUser, c.EtcdPasswordFile)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	o.client, err = store.Dial(store.Access{Endpoints: c.EtcdEndpoints, TLS: secure, User: c.EtcdUser,
		Password: password, Observe: o.instruments.called})
	if err != nil {
		return fmt.Errorf("--etcd-endpoints: %w", err)
	}
	o.store = store.Open(o.client, c.Prefix+"/v1alpha1/").LogTo(c.Log).
		Retain(store.Retention{Revisions: c.HistoryKeep, Bytes: c.HistoryBytes})
	o.elector = election.New(election.Config{
		Client: o.client, Prefix: c.Prefix + "/election", Address: c.Advertise, TTL: c.SessionTTL, Log: o.log,
		Share: c.SharePools, Name: c.Name, Site: c.Site,
	})
	return nil
}

// observe makes metrics and the admin server.
func (o *Coordinator) observe(ctx context.Context) (err error) {
	o.config.Meters.Log = o.log
	if o.metrics, err = o.config.Meters.Open(ctx); err != nil {
		return err
	}
	if err = o.instruments.define(o.meter()); err != nil {
		return err
	}
	if o.traces.sender, err = o.config.Meters.OpenTraces(ctx, o.metrics); err != nil {
		return err
	}
	if o.log, o.logs, err = o.config.Meters.OpenLogs(ctx, o.log, o.metrics); err != nil {
		return err
	}
	if o.admin, err = telemetry.NewAdmin(o.metrics, o.config.Security, o.log); err != nil {
		return err
	}
	return o.admin.Files("etcd tls", o.config.EtcdSecurity)
}

// release undoes what Complete began.
func (o *Coordinator) release() {
	for _, l := range []net.Listener{o.grpcListener, o.agentListener, o.restListener, o.console.listener,
		o.adminListener} {
		if l != nil {
			l.Close()
		}
	}
	if o.client != nil {
		o.client.Close()
	}
	if o.peers != nil {
		o.peers.close()
	}
	if o.metrics != nil {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := errors.Join(o.traces.sender.Close(closing), o.logs.Close(closing),
			o.metrics.Close(closing)); err != nil {
			o.log.Debug("metrics, traces or logs not flushed", "error", err)
		}
	}
}

// Address returns the address of the gRPC server.
func (o *Coordinator) Address() string { return o.grpcListener.Addr().String() }

// AgentAddress returns the address of the server for agents.
func (o *Coordinator) AgentAddress() string {
	if o.agentListener == nil {
		return o.Address()
	}
	return o.agentListener.Addr().String()
}

// RestAddress returns the address of the admin API over HTTP, "" without Config.Rest.
func (o *Coordinator) RestAddress() string {
	if o.restListener == nil {
		return ""
	}
	return o.restListener.Addr().String()
}

// AdminAddress returns the address of the HTTP server.
func (o *Coordinator) AdminAddress() string { return o.adminListener.Addr().String() }
