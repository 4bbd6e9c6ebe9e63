package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/agentlink"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/proto/link"
)

// GatewayCommand is the first argument of a program that is to be a hostile gateway.
const GatewayCommand = "hostile-gateway"

// GatewayArgs returns the arguments of a hostile gateway: its name, the agent's socket, the clients whose keys and
// flows it names (tenant/client), and a seed of its false messages.
func GatewayArgs(name, socket string, clients []string, seed uint64) []string {
	return []string{GatewayCommand, name, socket, strings.Join(clients, ","), strconv.FormatUint(seed, 10)}
}

// MainGateway runs one with GatewayArgs after GatewayCommand, until it is killed. It returns an error if the agent
// answers or keeps a link that it must refuse.
func MainGateway(args []string) error {
	if len(args) != 4 {
		return errors.New("hostile-gateway needs a name, an agent's socket, clients, and a seed")
	}
	seed, err := strconv.ParseUint(args[3], 10, 64)
	if err != nil {
		return fmt.Errorf("hostile-gateway: seed %q: %w", args[3], err)
	}
	var clients []client
	for text := range strings.SplitSeq(args[2], ",") {
		tenant, name, ok := strings.Cut(text, "/")
		if !ok {
			return fmt.Errorf("hostile-gateway: client %q, want tenant/client", text)
		}
		clients = append(clients, client{tenant, name})
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return runGateway(ctx, args[0], args[1], clients, seed)
}

// runGateway runs one until the context ends.
func runGateway(ctx context.Context, name, socket string, clients []client, seed uint64) error {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	own := filepath.Join(dir, "relay.sock")
	listener, err := net.Listen("unix", own)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	go newRelay(socket, seed).serve(listener)
	go newFilter(name, own).ask(ctx, clients)
	return knock(ctx, socket)
}

// client is a client of a tenant.
type client struct{ tenant, name string }

// pool of all requests that the gateway pretends to have.
const pool = "api"

// filter is the engine, its ticker and the link of a gateway, without an Envoy.
type filter struct {
	enforcer *enforcer.Enforcer
	link     *agentlink.Client
}

func newFilter(name, socket string) *filter {
	bell := agentlink.NewBell()
	f := &filter{}
	log := func(text string) { fmt.Fprintln(os.Stderr, text) }
	engine := limiter.New(limiter.Options{Keys: 1 << 16, Replica: name, Start: enforcer.Now(), Ask: bell.Ring})
	f.enforcer = enforcer.New(enforcer.Options{Engine: engine, FailurePolicy: limiter.BootOpen, Log: log,
		Deliver: func([]limiter.Event) {}})
	f.link = agentlink.New(agentlink.Options{Socket: socket, Engine: engine, Asked: bell, Answer: f.enforcer.Answer,
		Now: enforcer.Now, RecoverPanic: f.enforcer.RecoverPanic, Log: log,
		Hello: link.Hello{Replica: name, Weight: 1, PID: os.Getpid(), Generation: uint64(time.Now().UnixNano()),
			Envoy: "none: hostile"}})
	return f
}

// askEvery is the time between two requests of each client: the engine has something to send of each in each period.
const askEvery = 50 * time.Millisecond

// ask keeps the link up and has requests of the clients until the context ends.
func (f *filter) ask(ctx context.Context, clients []client) {
	f.enforcer.Start()
	go f.link.Run(ctx)
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.enforcer.Stop()
			return
		case <-tick.C:
		}
		for _, c := range clients {
			r := limiter.Request{Tenant: c.tenant, Client: c.name, Pool: pool, Cost: 1}
			if out := f.enforcer.Decide(&r); out.Verdict == limiter.Wait {
				f.enforcer.Enqueue(&r, 1)
			}
		}
	}
}
