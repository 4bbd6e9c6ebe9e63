package quota_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/quota"
	"github.com/titrate/titrate/services/store"
	"github.com/titrate/titrate/services/store/storetest"
)

// The API is a register: two pools, written together and read together, small (one transaction) or with 140 more
// tenants (staged). Servers with a store each write it while their connections to etcd are cut. The history must be
// that of one register that is written and read at a point in time: linearizable.

// wire is a link to etcd. While it is bad, one packet in so many is lost, and the
// connection with it: a request that etcd never sees, or one whose answer is lost.
type wire struct {
	to  string
	bad atomic.Bool
}

const onePacketIn = 25

func (w *wire) serve(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", w.to)
		if err != nil {
			from.Close()
			continue
		}
		go w.pump(from, to)
		go w.pump(to, from)
	}
}

func (w *wire) pump(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	for packet := make([]byte, 64<<10); ; {
		n, err := from.Read(packet)
		if err != nil || w.bad.Load() && rand.IntN(onePacketIn) == 0 {
			return
		}
		if _, err := to.Write(packet[:n]); err != nil {
			return
		}
	}
}

// behind is an API whose store reaches etcd through a wire.
func behind(t *testing.T, prefix string) (quotav1.QuotaServiceClient, *wire) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: storetest.Shared(t).Endpoint}
	go w.serve(l)
	etcd, err := store.Dial(store.Access{Endpoints: []string{l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	quota.New(store.Open(etcd, prefix), nil).Register(server)
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); server.Stop(); etcd.Close(); l.Close() })
	return quotav1.NewQuotaServiceClient(conn), w
}

// call is an operation on the register: a read, or a write that may expect an etag.
type call struct {
	read  bool
	value float64
	etag  string // that a write expects, "" = any
}

// answer is the outcome of a call. A write of unknown outcome may take effect at any time after its call, or never.
type answer struct {
	value   float64
	etag    string
	refused bool // the etag did not match
	unknown bool
}

// register is a state; etag "" means that no client has read it yet.
type register struct {
	value float64
	etag  string
}

func step(state, in, out any) []any {
	s, c, a := state.(register), in.(call), out.(answer)
	matches := c.etag == "" || s.etag == "" || c.etag == s.etag
	switch {
	case c.read && a.value == s.value && (s.etag == "" || a.etag == s.etag):
		return []any{register{a.value, a.etag}}
	case c.read:
		return nil
	case a.unknown && matches:
		return []any{s, register{value: c.value}}
	case a.unknown:
		return []any{s}
	case a.refused && (s.etag == "" || c.etag != s.etag):
		return []any{s}
	case a.refused || !matches:
		return nil
	}
	return []any{register{c.value, a.etag}}
}

var model = porcupine.NondeterministicModel{
	Init: func() []any { return []any{register{}} },
	Step: step,
}

func document(value float64, etag string, large bool) *quotav1.ApplyRequest {
	r := &quotav1.ApplyRequest{}
	for _, id := range []string{"one", "two"} {
		r.Resources = append(r.Resources, envelope(&quotav1.Pool{Name: "pools/" + id, Capacity: value, Etag: etag}))
	}
	for i := range 140 {
		if large {
			r.Resources = append(r.Resources, envelope(&quotav1.Tenant{Name: fmt.Sprintf("tenants/t%d", i),
				Weight: value}))
		}
	}
	return r
}

// client makes operations and keeps their history.
type client struct {
	t       *testing.T
	id      int
	api     quotav1.QuotaServiceClient
	wire    *wire
	random  *rand.Rand
	since   time.Time
	history []porcupine.Operation
	seen    answer // by its last read
	unknown int
}

// mostUnknown bounds a client's writes of unknown outcome: each may take effect at any later time, so each doubles
// the orders among which the check searches.
const mostUnknown = 3

func (c *client) run(steps int) {
	for i := range steps {
		value := float64(1 + c.id*steps + i)
		switch c.random.IntN(5) {
		case 0, 1:
			c.do(call{read: true}, false)
		case 2, 3:
			c.do(call{value: value, etag: c.seen.etag}, c.random.IntN(3) == 0)
		case 4:
			c.do(call{value: value}, c.random.IntN(3) == 0)
		}
	}
}

func (c *client) do(in call, large bool) {
	began := time.Since(c.since).Nanoseconds()
	out, err := c.ask(in, large)
	ended := time.Since(c.since).Nanoseconds()
	if err != nil {
		if in.read {
			return
		}
		if c.unknown++; c.unknown == mostUnknown {
			c.wire.bad.Store(false)
		}
		out, ended = answer{unknown: true}, math.MaxInt64
	}
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: began, Output: out,
		Return: ended})
}

func (c *client) ask(in call, large bool) (answer, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	if in.read {
		list, err := c.api.ListPools(ctx, &quotav1.ListPoolsRequest{})
		if err != nil {
			return answer{}, err
		}
		one, two := list.GetPools()[0], list.GetPools()[1]
		if one.GetCapacity() != two.GetCapacity() || one.GetEtag() != two.GetEtag() {
			c.t.Errorf("half of a change is seen: %v and %v", one, two)
		}
		c.seen = answer{value: one.GetCapacity(), etag: one.GetEtag()}
		return c.seen, nil
	}
	done, err := c.api.Apply(ctx, document(in.value, in.etag, large))
	if status.Code(err) == codes.Aborted {
		return answer{refused: true}, nil
	}
	if err != nil {
		if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
			c.t.Errorf("apply: %v", err)
		}
		return answer{}, err
	}
	return answer{etag: done.GetResources()[0].GetPool().GetEtag()}, nil
}

func TestTheAPIIsLinearizable(t *testing.T) {
	prefix, seed := storetest.Prefix(t), uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const clients, steps = 4, 40
	var all []*client
	since := time.Now()
	for id := range clients {
		api, wire := behind(t, prefix)
		all = append(all, &client{t: t, id: id, api: api, wire: wire, since: since,
			random: rand.New(rand.NewPCG(seed, uint64(id)))})
	}
	all[0].do(call{value: 0.5}, true)
	for _, c := range all {
		c.wire.bad.Store(true)
	}
	var running sync.WaitGroup
	for _, c := range all {
		running.Go(func() { c.run(steps) })
	}
	running.Wait()
	var history []porcupine.Operation
	unknown := 0
	for _, c := range all {
		history = append(history, c.history...)
		unknown += c.unknown
	}
	t.Logf("%d operations, %d writes of unknown outcome", len(history), unknown)
	if unknown == 0 {
		t.Error("no write was interrupted: the faults do not do what they should")
	}
	if result := porcupine.CheckOperationsTimeout(model.ToModel(), history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history is not that of a register: %s", result)
	}
}
