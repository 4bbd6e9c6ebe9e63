package rig

import (
	"context"

	"github.com/titrate/titrate/lab/dev/child"
	"github.com/titrate/titrate/lab/dev/local"
)

// again kills a process and starts it once more, and waits until it serves.
func (r *Rig) again(ctx context.Context, p *child.Process, ready string) (*child.Process, error) {
	p.Kill()
	<-p.Exited()
	return r.Start(ctx, p.Spec, ready)
}

// RestartAgent kills the gateway's agent and starts it again. During the restart a gateway's processes include
// the old agent or the new one.
func (g *Gateway) RestartAgent(ctx context.Context) (err error) {
	g.agent, err = g.in.rig.again(ctx, g.agent, g.agentWeb+"/readyz")
	return err
}

// Agent is the gateway's agent, and the URL of its admin page.
func (g *Gateway) Agent() (p *child.Process, url string) { return g.agent, g.agentWeb }

// RestartCoordinator kills the coordinator and starts it again.
func (in *Installation) RestartCoordinator(ctx context.Context) (err error) {
	in.centre[1], err = in.rig.again(ctx, in.centre[1], in.web+"/readyz")
	return err
}

// Coordinator is the coordinator, and the URL of its admin page.
func (in *Installation) Coordinator() (p *child.Process, url string) { return in.centre[1], in.web }

// Upstream starts an HTTP server that is never the bottleneck, and returns its port.
func (r *Rig) Upstream(ctx context.Context) (int, error) {
	p, err := local.Ports(1)
	if err != nil {
		return 0, err
	}
	_, err = r.Serve(ctx, r.Rig.Upstream(local.Address(p[0]), "--capacity", "100000", "--service-time", "1ms",
		"--queue", "10000"))
	return p[0], err
}
