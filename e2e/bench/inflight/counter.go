package inflight

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/titrate/titrate/e2e/bench/openloop"
	"github.com/titrate/titrate/e2e/bench/rig"
	"github.com/titrate/titrate/e2e/ratelimit"
	"github.com/titrate/titrate/lab/installation"
)

// keptFor is the time that a counter with a TTL is kept after its last increment.
const keptFor = time.Minute

// mostConnections, to the upstream and to Redis, are as many as a gateway may have in flight.
const mostConnections = 1000

// counter is three gateways that count up and down in one Redis.
type counter struct {
	title    string
	ttl      bool
	address  string // of Redis
	upstream string // URL
	limit    int64  // of the cell that runs
	gateways []*counting
}

// startCounters starts a Redis, and gateways with and without a TTL.
func startCounters(ctx context.Context, r *rig.Rig, u *upstream) (all []*counter, err error) {
	_, port, err := ratelimit.StartRedis(ctx, r.Launch, r.Dir)
	if err != nil {
		return nil, err
	}
	for _, c := range []*counter{{title: plainCounter}, {title: ttlCounter, ttl: true}} {
		c.address, c.upstream = installation.Address(port), "http://"+installation.Address(u.port)+"/"
		free, err := installation.Addresses(gateways)
		if err != nil {
			return all, err
		}
		all = append(all, c)
		for _, address := range free {
			g := &counting{counter: c, listens: address}
			if err := g.start(ctx); err != nil {
				return all, err
			}
			c.gateways = append(c.gateways, g)
		}
	}
	return all, nil
}

func (c *counter) name() string { return c.title }

func (c *counter) targets() (all []string) {
	for _, g := range c.gateways {
		all = append(all, g.listens)
	}
	return all
}

// prepare sets the counter to 0.
func (c *counter) prepare(what *cell) error {
	c.limit = int64(what.limit)
	r := c.client()
	defer r.Close()
	return r.Del(context.Background(), what.name()).Err()
}

// client returns a client of the Redis.
func (c *counter) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: c.address, PoolSize: mostConnections, Protocol: 2,
		DisableIdentity: true})
}

func (c *counter) crash(ctx context.Context, gateway int) error {
	g := c.gateways[gateway]
	g.stop()
	return g.start(ctx)
}

func (c *counter) stop() {
	for _, g := range c.gateways {
		g.stop()
	}
}

// counting is a gateway. What ends with it is its life: a crashed gateway forgets what it has in flight.
type counting struct {
	*counter
	listens string // address
	life    *life
}

type life struct {
	*counter
	server *http.Server
	redis  *redis.Client
	pool   http.Transport
	ended  atomic.Bool
}

func (g *counting) start(ctx context.Context) (err error) {
	l := &life{counter: g.counter, redis: g.client()}
	l.pool.MaxIdleConnsPerHost = mostConnections
	l.server, err = serve(ctx, g.listens, l)
	g.life = l
	return err
}

func (g *counting) stop() {
	g.life.ended.Store(true)
	g.life.server.Close()
	_ = g.life.redis.Close()
	g.life.pool.CloseIdleConnections()
}

// ServeHTTP counts up, sends the request on, and counts down.
func (l *life) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(openloop.TenantHeader)
	ctx := context.WithoutCancel(r.Context())
	up := l.redis.Pipeline()
	n := up.Incr(ctx, key)
	if l.ttl {
		up.Expire(ctx, key, keptFor)
	}
	if _, err := up.Exec(ctx); err != nil {
		answer(w, http.StatusInternalServerError)
		return
	}
	status := statusRefused
	if n.Val() <= l.limit {
		status = l.forward(r)
	}
	if l.ended.Load() {
		return
	}
	if err := l.redis.Decr(ctx, key).Err(); err != nil {
		status = http.StatusInternalServerError
	}
	answer(w, status)
}

// answer answers in the form that package openloop reads: it wants names in lower case, as Envoy writes them.
func answer(w http.ResponseWriter, status int) {
	w.Header()["content-length"] = []string{"0"}
	w.WriteHeader(status)
}

// forward sends a request to the upstream and returns the status of its answer.
func (l *life) forward(r *http.Request) int {
	on, err := http.NewRequestWithContext(r.Context(), http.MethodGet, l.upstream, nil)
	if err != nil {
		return http.StatusInternalServerError
	}
	for _, name := range []string{stayHeader, numberHeader} {
		on.Header.Set(name, r.Header.Get(name))
	}
	answered, err := l.pool.RoundTrip(on)
	if err != nil {
		return http.StatusBadGateway
	}
	answered.Body.Close()
	return answered.StatusCode
}
