package stream

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	controlv1 "github.com/titrate/titrate/proto/titrate/control/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/config"
	"github.com/titrate/titrate/services/coordinator/delivery"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/store/resource"
)

// Loop takes the agents' reports. Calls come from many goroutines.
type Loop interface {
	// Hello is an agent's arrival.
	Hello(h *controlv1.Hello) *delivery.Receiver
	// Report takes the reports of its gateways. With news there is something to send it at once.
	Report(agent string, r *controlv1.Report) (news bool)
	// Next returns the leases to send to an agent now.
	Next(r *delivery.Receiver) []delivery.Message
	// Again says that an agent has missed leases.
	Again(r *delivery.Receiver, reason string)
	// Left says that an agent has ended its stream in order, after its last report.
	Left(agent string)
	// Nack says that an agent refused a configuration.
	Nack(agent string, revision int64, reason string)
	// Ahead says that an agent has obeyed a higher epoch than this coordinator's, or
	// has a higher revision of the configuration: etcd has lost something.
	Ahead(h *controlv1.Hello)
}

// Bookings takes the bookings of calendar quotas.
type Bookings interface {
	// Take takes an agent's requests. answer is called for each, from any goroutine. An error ends the stream.
	Take(m *controlv1.Bookings, answer func(*controlv1.Booking)) error
	// Periods returns what agents are sent of periods, and a number that changes when they are to be sent it again.
	// Nil: the agent has what is of that number already, or no bookings are taken here.
	Periods(has uint64) (m *controlv1.Periods, generation uint64)
}

// helloTimeout bounds the time until a new stream's Hello.
const helloTimeout = 5 * time.Second

// Server is the control service. Safe for concurrent use.
type Server struct {
	controlv1.UnimplementedControlServiceServer
	loop          Loop
	configuration *config.Cache
	bookings      Bookings
	log           *slog.Logger
	replaced      rate.Sometimes // bounds the lines about streams that replace each other
	doubled       rate.Sometimes // bounds the lines about agents whose name another one has
	whole         atomic.Uint64  // configurations sent as a whole
	resumed       atomic.Uint64  // streams that began with a change
	unsent        atomic.Uint64  // bookings that were dropped

	mu       sync.Mutex
	closed   error // why streams are refused, nil = they are accepted
	epoch    int64
	seed     uint64
	sharing  *Sharing // nil: this coordinator leads all pools
	sessions map[string]*session
	agents   []string // names of the sessions, sorted; nil: they have changed
	counter  streamCounter

	questions questions

	start   time.Time
	refused struct { // agents whose name another one has; the lock is held
		last error
		at   time.Duration
	}
}

// nameHeld is the time for which an agent that says nothing keeps its name from another one. It reports at least once a
// second, so it has crashed or is cut off then.
const nameHeld = 5 * time.Second

// now is the time since the server began.
func (s *Server) now() time.Duration { return time.Since(s.start) }

// New makes a server that is closed: it refuses streams.
func New(loop Loop, c *config.Cache, bookings Bookings, limits Limits, log *slog.Logger) *Server {
	return &Server{loop: loop, configuration: c, bookings: bookings, log: log, closed: NotLeader(""),
		sessions: map[string]*session{},
		counter:  newStreamCounter(limits), replaced: rate.Sometimes{First: 1, Interval: time.Minute},
		doubled: rate.Sometimes{First: 1, Interval: time.Minute}, start: time.Now()}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { controlv1.RegisterControlServiceServer(r, s) }

// Sharing has the messages about coordinators that share the pools. It does not change.
type Sharing struct {
	Coordinators *controlv1.Coordinators
	// Chair is the leader of all pools where an agent knows one leader only; "" = this one.
	Chair string
	// Older is called when such an agent comes.
	Older func()
}

// with reports whether the pools are shared with others.
func (s *Sharing) with() bool { return s != nil && len(s.Coordinators.GetAddresses()) > 1 }

// refusal is the end of a stream of an agent that knows one leader only.
func (s *Sharing) refusal() error { return NotLeader(s.Chair) }

// Open lets agents in, under an epoch and the seed of key hashes. sharing is nil for a coordinator
// that leads all pools.
func (s *Server) Open(epoch int64, seed uint64, sharing *Sharing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.epoch, s.seed = nil, epoch, seed
	s.share(sharing)
}

// Share sends agents who leads what.
func (s *Server) Share(sharing *Sharing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share(sharing)
}

// share is Share; the lock is held.
func (s *Server) share(sharing *Sharing) {
	s.sharing = sharing
	for _, one := range s.sessions {
		if sharing.with() && !one.shares {
			one.end(sharing.refusal())
		}
		one.wake()
	}
}

// Older names an agent that is connected and knows one leader only, "" if there is none.
func (s *Server) Older() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range s.sessions {
		if !one.shares {
			return name
		}
	}
	return ""
}

// coordinators returns the list of leaders for agents, nil: nothing is sent.
func (s *Server) coordinators() *controlv1.Coordinators {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sharing == nil {
		return nil
	}
	return s.sharing.Coordinators
}

// Shut ends all streams with the status why, and answers new ones with it.
func (s *Server) Shut(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = why
	for _, one := range s.sessions {
		one.end(why)
	}
}

// Announce sends agents what is new: leases of a round, or of the configuration.
func (s *Server) Announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		one.wake()
	}
}

// Epoch returns the epoch of the leadership.
func (s *Server) Epoch() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// Agents are the names of the agents that are connected, sorted. Callers share them: they must not be changed.
func (s *Server) Agents() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agents == nil {
		s.agents = slices.Sorted(maps.Keys(s.sessions))
	}
	return s.agents
}

// Configurations counts the configurations that were sent as a whole since the start, and the streams that began with a
// change of their agent's configuration.
func (s *Server) Configurations() (whole, resumed uint64) { return s.whole.Load(), s.resumed.Load() }

// leadership is the part of each message that names the leader.
type leadership struct {
	epoch int64
	seed  uint64
}

// leads is the present leadership.
func (s *Server) leads() leadership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return leadership{s.epoch, s.seed}
}

// Connect is one agent's stream.
func (s *Server) Connect(stream grpc.BidiStreamingServer[controlv1.ConnectRequest, controlv1.ConnectResponse]) error {
	if err := s.accepts(); err != nil {
		return err
	}
	remove, err := s.counter.add(stream.Context())
	if err != nil {
		return err
	}
	defer remove()
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	one := &session{server: s, stream: stream, end: end, joined: make(chan struct{}), news: make(chan struct{}, 1),
		sent: -1, refusals: map[uint64]int64{}, questions: make(chan *controlv1.Question, mostQuestions)}
	helloTimer := time.AfterFunc(helloTimeout, func() {
		end(status.Errorf(codes.InvalidArgument, "no Hello within %s", helloTimeout))
	})
	defer helloTimer.Stop()
	hello := make(chan *controlv1.Hello, 1)
	go one.receive(hello)
	select {
	case h := <-hello:
		helloTimer.Stop()
		return s.serve(ctx, one, h)
	case <-ctx.Done():
		return endStatus(ctx)
	}
}

// serve runs a stream after its Hello.
func (s *Server) serve(ctx context.Context, one *session, h *controlv1.Hello) error {
	one.agent, one.floor, one.holds = h.GetAgent(), h.GetRevision(), resource.Digest(h.GetDigest())
	one.answers, one.shares, one.process = h.GetAnswers(), h.GetShares(), h.GetProcess()
	one.books = h.GetBooks()
	if p, ok := peer.FromContext(ctx); ok {
		one.address = p.Addr.String()
	}
	one.heard.Store(int64(s.now()))
	if !election.Plausible(one.floor) {
		s.log.Error("an agent says that it holds a revision that cannot be: it is not believed", "agent", one.agent,
			"revision", one.floor)
		one.floor = 0
	}
	if s.accepts() == nil && (s.configuration.Before(one.floor) || h.GetEpoch() > s.Epoch()) {
		s.loop.Ahead(h)
	}
	replaces, err := s.addSession(one, h)
	if err != nil {
		return err
	}
	defer s.removeSession(one)
	level := slog.LevelInfo
	if replaces {
		level = slog.LevelDebug // two agents of one name replace each other without end
		s.replaced.Do(func() {
			s.log.Warn("an agent has connected while another stream of the same name was open, which ends; if this "+
				"goes on, two agents have one --name; more such streams within a minute are not logged",
				"agent", one.agent)
		})
	}
	s.log.Log(ctx, level, "agent connected", "agent", one.agent, "version", h.GetVersion(), "revision", h.GetRevision(),
		"epoch", h.GetEpoch())
	one.receiver = s.loop.Hello(h)
	close(one.joined)
	one.wake()
	err = one.send(ctx)
	if level = slog.LevelInfo; !s.has(one) {
		level = slog.LevelDebug
	}
	s.log.Log(ctx, level, "agent disconnected", "agent", one.agent, "reason", status.Convert(err).Message())
	return err
}

func (s *Server) accepts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// addSession registers a stream under its agent's name and ends an older one, if there is one.
func (s *Server) addSession(one *session, h *controlv1.Hello) (replaces bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed != nil:
		return false, s.closed
	case h.GetEpoch() > s.epoch:
		return false, stale(h.GetEpoch(), s.epoch)
	case s.sharing.with() && !one.shares:
		s.sharing.Older()
		return false, s.sharing.refusal()
	}
	older := s.sessions[one.agent]
	if older != nil && s.keepsName(older, one) {
		return false, s.refuseName(older, one)
	}
	if older != nil {
		older.end(status.Errorf(codes.Aborted, "another stream has said Hello as %s", one.agent))
	}
	s.sessions[one.agent], s.agents = one, nil
	return older != nil, nil
}

// keepsName reports whether the process of an older stream lives and is another one than that of a new
// stream. The lock is held.
func (s *Server) keepsName(older, one *session) bool {
	return older.process != one.process && older.process != 0 && one.process != 0 &&
		s.now()-time.Duration(older.heard.Load()) < nameHeld
}

// refuseName notes that an agent is refused, and returns the status for it. The lock is held.
func (s *Server) refuseName(older, one *session) error {
	s.refused.at = s.now()
	s.refused.last = fmt.Errorf("two agents have the name %q: the one at %s is served, the one at %s is refused",
		one.agent, older.address, one.address)
	s.doubled.Do(func() {
		s.log.Warn("an agent is refused, because another one has its name: give each its own --name; more such "+
			"refusals within a minute are not logged", "agent", one.agent, "address", one.address,
			"other", older.address)
	})
	return nameInUse(one.agent, older.address)
}

// Trouble says that an agent was refused within the last minute because another one has its name.
func (s *Server) Trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused.last == nil || s.now()-s.refused.at >= time.Minute {
		return nil
	}
	return s.refused.last
}

// has reports whether a stream is its agent's newest.
func (s *Server) has(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[one.agent] == one
}

func (s *Server) removeSession(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[one.agent] == one {
		delete(s.sessions, one.agent)
		s.agents = nil
	}
}

// endStatus is the status of a stream whose context has ended.
func endStatus(ctx context.Context) error {
	cause := context.Cause(ctx)
	if _, is := status.FromError(cause); is {
		return cause
	}
	return status.FromContextError(cause).Err()
}
