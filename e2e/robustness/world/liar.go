package world

import (
	"context"
	"fmt"
	"slices"

	"github.com/titrate/titrate/e2e/robustness/hostile"
	"github.com/titrate/titrate/lab/installation/child"
)

// firstLiar is the number of the first liar's host.
const firstLiar = 100

// AddLiar starts an agent at a new host that joins the gossip and sends false packets to all others.
func (w *World) AddLiar(ctx context.Context, seed uint64) (*Server, error) {
	n := w.nextLiar()
	h, r, err := w.host(fmt.Sprintf("liar%d", n), firstLiar+n)
	if err != nil {
		return nil, err
	}
	var join []string
	for _, g := range w.Gateways() {
		join = append(join, address(g.Host, GossipPort))
	}
	s := w.server(h, r, r.Server(child.Spec{Name: h.Name, Path: w.self,
		Args: hostile.Args(h.Name, address(h, GossipPort), join, seed)}, ""))
	return s, s.Launch()
}

// RemoveLiar kills one and takes it away.
func (w *World) RemoveLiar(s *Server) error {
	w.killLiar(s)
	return w.Switch.Remove(s.Host)
}

// AddLyingGateway starts a process at a gateway's host that links with its agent as one more gateway, and sends false
// messages. It names the clients only, tenant/client.
func (w *World) AddLyingGateway(ctx context.Context, g *Gateway, clients []string, seed uint64) (*Server, error) {
	name, r := fmt.Sprintf("lying-gateway%d", w.nextLiar()), g.Agent.rig
	s := w.server(g.Host, r, r.Server(child.Spec{Name: name, Path: w.self,
		Args: hostile.GatewayArgs(name, r.Socket(g.Name), clients, seed)}, ""))
	return s, s.Launch()
}

// RemoveLyingGateway kills one.
func (w *World) RemoveLyingGateway(s *Server) { w.killLiar(s) }

func (w *World) nextLiar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.liars++
	return w.liars
}

func (w *World) killLiar(s *Server) {
	w.mu.Lock()
	w.servers = slices.DeleteFunc(w.servers, func(other *Server) bool { return other == s })
	w.mu.Unlock()
	s.Kill()
}
