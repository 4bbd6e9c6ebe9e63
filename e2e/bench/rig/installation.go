package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/titrate/titrate/lab/dev/child"
	"github.com/titrate/titrate/lab/dev/local"
	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

// Installation is Titrate: etcd, a coordinator, and gateways that join.
type Installation struct {
	rig      *Rig
	centre   []*child.Process
	api, web string   // the coordinator's address, URL of its admin page
	gossip   []string // addresses of the agents so far, the newest first
	first    string   // the documents that it began with
	revision int64
}

// Installation starts etcd and a coordinator, and applies the documents.
func (r *Rig) Installation(ctx context.Context, name, documents string) (*Installation, error) {
	p, err := local.Ports(4)
	if err != nil {
		return nil, err
	}
	in := &Installation{rig: r, first: documents, api: local.Address(p[2]), web: "http://" + local.Address(p[3])}
	for _, s := range []local.Server{
		r.Etcd("etcd "+name, local.Address(p[0]), local.Address(p[1])),
		r.Coordinator("coordinator-"+name, in.api, local.Address(p[3]), local.Address(p[0])),
	} {
		started, err := r.Serve(ctx, s)
		if err != nil {
			return nil, err
		}
		in.centre = append(in.centre, started)
	}
	return in, in.Apply(ctx, documents)
}

// Processes are etcd and the coordinator.
func (in *Installation) Processes() []*child.Process { return in.centre }

// Stop ends etcd and the coordinator.
func (in *Installation) Stop() error {
	return child.Stop(stopGrace, in.centre...)
}

// Apply applies YAML documents as `titrate apply` does.
func (in *Installation) Apply(ctx context.Context, documents string) error {
	parsed, err := document.Parse("bench.yaml", []byte(documents))
	if err != nil {
		return err
	}
	var all []*quotav1.Resource
	for _, d := range parsed {
		all = append(all, resource.Of(d.Resource))
	}
	conn, err := grpc.NewClient(in.api, grpc.WithTransportCredentials(insecure.NewCredentials()))
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
	in.revision = applied.GetRevision()
	return nil
}

// ApplyFile runs `titrate apply -f`.
func (in *Installation) ApplyFile(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, in.rig.o.Titrate, "apply", "--server", in.api, "--timeout", "10m", "-f", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("titrate apply: %w: %.2000s", err, out)
	}
	return in.Apply(ctx, in.first) // stored already: the answer has the revision
}

// Gateway is an agent and its Envoy.
type Gateway struct {
	*Envoy
	in       *Installation
	agent    *child.Process
	agentWeb string
}

// Gateway starts an agent, which joins the present agents, and an Envoy with Titrate's filter. It returns when
// the filter enforces the applied configuration.
func (in *Installation) Gateway(ctx context.Context, s Spec) (*Gateway, error) {
	p, err := local.Ports(2)
	if err != nil {
		return nil, err
	}
	in.gossip = append([]string{local.Address(p[0])}, in.gossip...)
	s.Filter = Titrate
	g := &Gateway{in: in, agentWeb: "http://" + local.Address(p[1])}
	g.agent, err = in.rig.Serve(ctx, in.rig.Agent(s.Name, in.api, local.Address(p[1]), in.gossip))
	if err != nil {
		return nil, err
	}
	if g.Envoy, err = in.rig.Envoy(ctx, s); err != nil {
		return nil, err
	}
	return g, g.Enforces(ctx)
}

// Enforces waits until the filter has the configuration applied last, and shares.
func (g *Gateway) Enforces(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	return g.Ready(ctx, func(ctx context.Context) error {
		revision, err := g.in.rig.Metric(ctx, g.Envoy, "titrate_config_revision")
		if err != nil {
			return err
		}
		epoch, err := g.in.rig.Metric(ctx, g.Envoy, "titrate_shares_epoch")
		if err == nil && (int64(revision) < g.in.revision || epoch == 0) {
			err = fmt.Errorf("the filter has revision %v of %d, shares of epoch %v", revision, g.in.revision, epoch)
		}
		return err
	})
}

// Enforced waits until the filter has reported to the agent that it enforces the configuration applied last,
// and asks the agent at this interval.
func (g *Gateway) Enforced(ctx context.Context, every time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	for {
		text, err := g.in.rig.Get(ctx, g.agentWeb+"/status")
		if err != nil {
			return err
		}
		var status struct {
			Gateways []struct{ ConfigRevision int64 }
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return err
		}
		if len(status.Gateways) == 1 && status.Gateways[0].ConfigRevision >= g.in.revision {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

// Processes are the processes that work for a request through the gateway: its Envoy,
// its agent, the coordinator and etcd.
func (g *Gateway) Processes() CPU {
	return append(CPU{g.Process, g.agent}, g.in.centre...)
}

// Stop ends the Envoy, then the agent.
func (g *Gateway) Stop() error {
	if err := g.Envoy.Stop(); err != nil {
		return err
	}
	return child.Stop(10*time.Second, g.agent)
}
