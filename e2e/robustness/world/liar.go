package world

import (
	"context"
	"fmt"
	"slices"

	"github.com/titrate/titrate/e2e/robustness/hostile"
	"github.com/titrate/titrate/services/dev/child"
	"github.com/titrate/titrate/services/dev/local"
)

// firstLiar is the number of the first liar's host.
const firstLiar = 100

// AddLiar starts an agent at a new host that joins the gossip and sends false packets to all others.
func (w *World) AddLiar(ctx context.Context, seed uint64) (*Server, error) {
	w.mu.Lock()
	w.liars++
	n := w.liars
	w.mu.Unlock()
	h, r, err := w.host(fmt.Sprintf("liar%d", n), firstLiar+n)
	if err != nil {
		return nil, err
	}
	var join []string
	for _, g := range w.Gateways() {
		join = append(join, address(g.Host, GossipPort))
	}
	s := w.server(h, r, local.Server{Spec: child.Spec{Name: h.Name, Path: w.self,
		Args: hostile.Args(h.Name, address(h, GossipPort), join, seed)}})
	return s, s.Start(ctx, false)
}

// RemoveLiar kills one and takes it away.
func (w *World) RemoveLiar(s *Server) error {
	w.mu.Lock()
	w.servers = slices.DeleteFunc(w.servers, func(other *Server) bool { return other == s })
	w.mu.Unlock()
	s.Kill()
	return w.Switch.Remove(s.Host)
}
