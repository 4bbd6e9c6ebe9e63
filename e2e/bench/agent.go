package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/titrate/titrate/proto/link"
)

// agent is the agent's end of the link.
type agent struct {
	listener  net.Listener
	connected chan struct{}
}

const (
	tenant   = "acme"
	pool     = "api"
	plenty   = 1e7 // units/s: nothing is ever limited
	revision = 1
)

func startAgent(socket string) (*agent, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	a := &agent{listener: listener, connected: make(chan struct{}, 1)}
	go a.serve()
	return a, nil
}

func (a *agent) Close() { a.listener.Close() }

func (a *agent) serve() {
	for {
		conn, err := a.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if err := a.talk(conn); err != nil {
				fmt.Fprintln(os.Stderr, "bench: link:", err)
			}
		}()
	}
}

// talk sends what an agent sends, and reads the filter's messages until a heartbeat says that the
// configuration is in force.
func (a *agent) talk(conn net.Conn) error {
	w := link.NewWriter(conn)
	hello := &link.Hello{Version: link.Version, Replica: "bench", Generation: uint64(time.Now().UnixNano()), PID: os.Getpid()}
	shares := &link.Shares{Epoch: 1, Revision: revision,
		Flows: []link.Share{{Tenant: tenant, Pool: pool, Share: plenty}},
		Pools: []link.PoolShare{{Pool: pool, IdleShare: plenty}}}
	for _, m := range []link.Message{hello, configuration(), shares} {
		if err := w.Write(m); err != nil {
			return err
		}
	}
	go func() {
		for n := uint64(1); w.Write(&link.Heartbeat{Sequence: n, Revision: revision}) == nil; n++ {
			time.Sleep(link.HeartbeatEvery)
		}
	}()
	for r := link.NewReader(conn); ; {
		m, err := r.Next()
		if err != nil {
			return nil // Envoy has gone
		}
		if beat, ok := m.(*link.Heartbeat); ok && beat.Refused != 0 {
			return fmt.Errorf("configuration refused: %s", beat.Reason)
		} else if ok && beat.Revision == revision {
			select {
			case a.connected <- struct{}{}:
			default:
			}
		}
	}
}

func configuration() *link.Config {
	return &link.Config{
		Revision: revision,
		Seed:     42,
		Pools: []link.Pool{{Name: pool, Capacity: plenty,
			Queue: link.Queue{Law: link.VariableStructure, DelayTarget: 50 * time.Millisecond, MaxWait: time.Second, MaxRequests: 1024}}},
		Tenants: []link.Tenant{{Name: tenant, Weight: 1, Limits: []link.Limit{
			{Name: "each", Rate: plenty, Burst: plenty, Queue: link.Queue{Law: link.Police}}}}},
	}
}

// await waits until the filter enforces the configuration.
func (a *agent) await(ctx context.Context) error {
	select {
	case <-a.connected:
		return nil
	case <-time.After(15 * time.Second):
		return errors.New("the filter did not take the configuration within 15 s")
	case <-ctx.Done():
		return ctx.Err()
	}
}
