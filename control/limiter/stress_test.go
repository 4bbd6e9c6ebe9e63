package limiter

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/hash"
	"github.com/titrate/titrate/control/limiter/internal/lock"
)

// injected is the value with which the stress test panics.
const injected = "injected by the stress test"

// stress calls every operation of one engine at once.
type stress struct {
	t      *testing.T
	e      *Engine
	clock  atomic.Int64
	ticket atomic.Uint64
	fail   atomic.Int32 // one in so many locks or random numbers panics; 0: none
	open   sync.Map     // ticket: not ended yet
	ended  atomic.Int64
	panics atomic.Int64
	// counted is the sum of each pool's counters as they were read last.
	counted map[string]uint64
	owners  stressOwners
}

// stressOwners are the owners of the keys of EXACT limits.
type stressOwners struct {
	mu      sync.Mutex
	by      map[uint64]*grant.Owner
	answers exchange.TokenAnswers
}

// answer returns the answers of the owners to questions.
func (o *stressOwners) answer(e *Engine, now int64, asked []exchange.TokenRequest) exchange.TokenAnswers {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range asked {
		if o.by == nil || rand.IntN(1000) == 0 { // the owners have gone
			o.by = map[uint64]*grant.Owner{}
		}
		k := o.by[q.Key]
		if k == nil {
			k = grant.NewOwner(allowedBy(e, &q), rand.Uint64()|1, now)
			o.by[q.Key] = k
		}
		k.Request(now, 1, q.Request, stressOutbox{o, q.Key})
	}
	a := o.answers
	o.answers = exchange.TokenAnswers{}
	if rand.IntN(1000) == 0 {
		o.answers.Owners = exchange.Owners{View: rand.Uint64() | 1, List: []exchange.Owner{{Hash: 1, Life: rand.Uint64() | 1},
			{Hash: 2, Life: 1}}}
	}
	return a
}

type stressOutbox struct {
	o   *stressOwners
	key uint64
}

func (b stressOutbox) Grant(_ grant.Peer, g grant.Grant) {
	b.o.answers.Grants = append(b.o.answers.Grants, exchange.TokenGrant{Key: b.key, Grant: g})
}

// CallPart has nothing sent: gateways have no parts here.
func (b stressOutbox) CallPart(grant.Peer) {}

func (b stressOutbox) Recall(_ grant.Peer, r grant.Recall) {
	b.o.answers.Recalls = append(b.o.answers.Recalls, exchange.TokenRecall{Key: b.key, Recall: r})
}

// fault panics now and then.
func (s *stress) fault() {
	if n := s.fail.Load(); n > 0 && rand.Int32N(n) == 0 {
		s.panics.Add(1)
		panic(injected)
	}
}

// do runs one operation; it may end by no panic but the injected one.
func (s *stress) do(op func(now int64)) {
	defer func() {
		if p := recover(); p != nil && p != injected {
			s.t.Errorf("panic: %v\n%s", p, stack())
		}
	}()
	op(s.clock.Add(int64(rand.IntN(200_000))))
}

func stack() string {
	b := make([]byte, 1<<14)
	return string(b[:runtime.Stack(b, false)])
}

func (s *stress) config(i int) *config.Config {
	q := config.Queue{MaxRequests: 20, MaxWait: 50 * time.Millisecond}
	c := &config.Config{Revision: int64(i), Seed: 7, Pools: []config.Pool{
		{Name: "api", Capacity: 2000, Adaptive: i%2 == 0, Queue: config.Queue{Law: config.Law(i % 4),
			MaxWait: 100 * time.Millisecond}},
		{Name: "db", Capacity: 500 * float64(1+i%3)},
	}}
	for k := range 3 + i%3 {
		c.Tenants = append(c.Tenants, config.Tenant{Name: fmt.Sprint("t", k), Weight: float64(1 + i%2),
			Limits: []config.Limit{
				{Name: "user", Rate: 50, Burst: 5, Queue: q},
				{Name: "all", PerTenant: true, Rate: 1000, Burst: 100, Mode: config.Mode(i % 3)},
				{Name: "hard", Rate: 200, Burst: 20, Identity: "key"},
			}})
	}
	return c
}

func (s *stress) request() *Request {
	r := &Request{
		Tenant: fmt.Sprint("t", rand.IntN(6)), Client: fmt.Sprint(rand.IntN(8)), Pool: "api",
		Cost: float64(1 + rand.IntN(3)), Identities: &Identities{fmt.Sprint(rand.IntN(4))},
	}
	if rand.IntN(4) == 0 {
		r.Pool = "db"
	}
	if rand.IntN(10) == 0 {
		r.Mode = config.Mode(rand.IntN(3))
	}
	return r
}

// serve is one worker of the proxy.
func (s *stress) serve(now int64) {
	r := s.request()
	out := s.e.Decide(now, r)
	if out.Verdict == Wait {
		ticket := s.ticket.Add(1)
		s.open.Store(ticket, true)
		var h Handle
		out, h = s.e.Enqueue(now, r, ticket)
		if out.Verdict != Wait {
			s.end(ticket)
		} else if rand.IntN(3) == 0 && s.e.Cancel(now, h) {
			s.end(ticket)
		}
	}
	if out.Verdict == Admit && out.Flight != nil {
		out.Flight.Depart(r.Micros())
		defer out.Flight.Land(r.Micros(), r.Micros(), time.Millisecond)
	}
	if out.Verdict == Admit && rand.IntN(4) == 0 {
		s.e.Settle(now, r, Plain, rand.Float64()*4)
	}
}

func (s *stress) end(ticket uint64) {
	s.ended.Add(1)
	if _, was := s.open.LoadAndDelete(ticket); !was {
		s.t.Errorf("ticket %d ended twice", ticket)
	}
}

func (s *stress) tick(now int64) {
	for _, ev := range s.e.Tick(now, nil) {
		s.end(ev.Ticket)
	}
}

// tokens is the link to the owners, which is down at times.
func (s *stress) tokens(now int64) {
	switch rand.IntN(200) {
	case 0:
		s.e.LinkTokens(now, false)
		s.e.LinkSlots(false)
	case 1:
		s.e.ForgetTokens()
	case 2, 3, 4, 5:
		s.e.LinkTokens(now, true)
		s.e.LinkSlots(true)
	}
	var asked exchange.TokenRequests
	s.e.PollTokens(now, &asked)
	answers := s.owners.answer(s.e, now, asked.List)
	for _, ev := range s.e.AnswerTokens(now, &answers, nil) {
		s.end(ev.Ticket)
	}
}

// sums sends sums that others could send: one gateway or three, some with our keys.
func (s *stress) sums(now int64) {
	sums := sumsOf(1+2*rand.IntN(2), exchange.KeySum{Key: hash.TenantLimit(7, "t1", "all"), Claims: 5, Active: 1,
		Spent: 3, Admitted: units(now), Epoch: 1})
	for i := range rand.IntN(8) {
		sums.Keys = append(sums.Keys, exchange.KeySum{Key: hash.Limit(7, "t0", "user", fmt.Sprint(i)), Claims: 1,
			Spent: 1, Epoch: 1})
	}
	sums.Isolation = exchange.Isolation(rand.IntN(4))
	sums.Exact = rand.IntN(4) > 0
	sums.Flows = []exchange.FlowSum{{Key: hash.Flow(7, "t0", "api"), Claims: 10, Active: 1}}
	s.e.SetSums(now, sums)
}

func (s *stress) shares(now int64) {
	s.e.SetShares(&exchange.Shares{
		Epoch: 1, Stale: rand.IntN(3) == 0, Flows: []exchange.Share{{Tenant: "t0", Pool: "api", Share: 300},
			{Tenant: "t1", Pool: "api", Share: 100}},
		Pools: []exchange.PoolShare{{Pool: "db", IdleShare: 50}},
	})
}

// look calls what only reads, and what a hot restart does.
func (s *stress) look(now int64) {
	r := s.request()
	s.e.Peek(now, r)
	s.e.Allowance(now, r, TenantShare)
	s.e.Explain(now, r)
	s.e.Flows(3)
	s.e.Standing()
	var stats Stats
	s.e.Stats(now, &stats)
	s.e.VisitSpent(now, func(k exchange.KeySpent) {
		if rand.IntN(4) == 0 {
			s.e.RestoreSpent(now, k)
		}
	})
}

// leap lets so much time pass that what nobody uses is freed.
func (s *stress) leap(int64) {
	for range 3 {
		now := s.clock.Add(keepIdle)
		var r exchange.Report
		s.e.Report(now, &r)
		s.tick(now)
	}
}

// counters fails when what is exported falls.
func (s *stress) counters(now int64) {
	stats := Stats{Keys: -1}
	s.e.Stats(now, &stats)
	for _, p := range stats.Pools {
		sum := p.Admitted + p.Waited + p.Cancelled
		for _, n := range p.Rejected {
			sum += n
		}
		if sum < s.counted[p.Pool] {
			s.t.Errorf("the counters of %s fell from %d to %d", p.Pool, s.counted[p.Pool], sum)
		}
		s.counted[p.Pool] = sum
	}
}

func (s *stress) run(rounds int) {
	var names Names
	names.Identities[0] = "key"
	s.e.Name(names)
	mustApply(s.t, s.e, s.config(0))
	var c exchange.Claims
	var r exchange.Report
	var slow sync.WaitGroup
	loop := func(n int, op func(now int64)) {
		slow.Go(func() {
			for range n {
				s.do(op)
			}
		})
	}
	for range 4 {
		loop(rounds, s.serve)
	}
	loop(rounds/4, s.tick)
	loop(rounds/2, s.tokens)
	loop(rounds/20, s.sums)
	loop(rounds/40, s.shares)
	loop(rounds/40, s.look)
	loop(rounds/10, s.counters)
	loop(rounds/20, func(now int64) { c.Reset(); s.e.Claims(now, &c) })
	loop(rounds/40, func(now int64) { s.e.Report(now, &r) })
	loop(rounds/50, s.leap)
	loop(rounds/100, func(int64) { s.e.Name(names) })
	loop(rounds/100, func(int64) { _ = s.e.Apply(s.config(rand.IntN(12))) })
	slow.Wait()
}

// settle ends everything that waits and holds the engine against its invariants.
func (s *stress) settle() {
	s.fail.Store(0)
	for _, ev := range s.e.Drain(s.clock.Load(), nil) {
		s.end(ev.Ticket)
	}
	s.tick(s.clock.Add(sec))
	if n := s.e.waiting.Load(); n != 0 {
		s.t.Errorf("%d requests held after the drain", n)
	}
	s.open.Range(func(ticket, _ any) bool {
		s.t.Errorf("ticket %v never ended", ticket)
		return true
	})
	checkKeys(s.t, s.e)
}

func newStress(t *testing.T) *stress {
	s := &stress{t: t, counted: map[string]uint64{}}
	s.e = New(Options{Keys: 1024, Contended: 24, Ask: func() {}, Rand: func() float64 { s.fault(); return rand.Float64() }})
	s.clock.Store(sec)
	s.e.LinkTokens(sec, true)
	s.e.LinkSlots(true)
	return s
}

func stressRounds() int {
	if raceEnabled || lock.Checked {
		return 1500
	}
	return 20_000
}

// Every operation at once, from many threads: nothing hangs, and every request that
// waits is ended once. With the build tag lockrank the order of the locks is checked,
// and threads give way before each of them.
func TestStressAllOperations(t *testing.T) {
	s := newStress(t)
	defer lock.Before(func(int) {
		if rand.IntN(16) == 0 {
			runtime.Gosched()
		}
	})()
	var stats Stats
	within(t, 3*time.Minute, func() {
		for range 10 { // on one processor a run may end before an owner was asked
			s.run(stressRounds())
			if s.e.Stats(s.clock.Load(), &stats); stats.Exact.Waited > 0 && stats.Exact.Unanswered > 0 {
				break
			}
		}
		s.settle()
	})
	if stats.Exact.Waited == 0 || stats.Exact.Unanswered == 0 {
		t.Errorf("no request waited for an owner, or each was answered: %+v", stats.Exact)
	}
	t.Logf("%d requests waited, %d of them for an owner, and %d were not answered", s.ended.Load(), stats.Exact.Waited,
		stats.Exact.Unanswered)
}

// The same with panics in the middle of operations: from the source of random numbers,
// and with the build tag lockrank before any lock. A panic may spoil the count that it
// hits, but it leaves no lock behind: everything goes on.
func TestStressPanics(t *testing.T) {
	s := newStress(t)
	often := int32(10) // one in so many; numbers are drawn seldom
	if lock.Checked {
		often = 200
	}
	end := lock.Before(func(int) { s.fault() })
	within(t, 3*time.Minute, func() {
		s.fail.Store(often)
		for range 10 { // in a short run there may be no request that needs a random number
			s.run(stressRounds() / 2)
			if s.panics.Load() > 0 {
				break
			}
		}
		s.fail.Store(0)
		end()
		s.open.Clear()
		quiet := &stress{t: t, e: s.e, counted: map[string]uint64{}}
		quiet.clock.Store(s.clock.Load() + sec)
		quiet.e.Drain(quiet.clock.Load(), nil)
		quiet.run(stressRounds() / 10)
		if free := quiet.e.lockedNow(); free != "" {
			t.Error("still locked: " + free)
		}
	})
	if s.panics.Load() == 0 {
		t.Error("nothing panicked")
	}
	t.Logf("%d panics", s.panics.Load())
}

// One operation at a time, with a panic before one of its locks: it leaves none locked.
func TestPanicBeforeEachLock(t *testing.T) {
	if !lock.Checked {
		t.Skip("only with the build tag lockrank can a lock panic")
	}
	s := newStress(t)
	left, rank := 0, 0 // locks of a rank until the panic
	defer lock.Before(func(r int) {
		if r != rank {
			return
		}
		if left--; left == 0 {
			s.panics.Add(1)
			panic(injected)
		}
	})()
	var names Names
	names.Identities[0] = "key"
	s.e.Name(names)
	mustApply(t, s.e, s.config(0))
	var c exchange.Claims
	var r exchange.Report
	ops := map[string]func(now int64){
		"serve": s.serve, "tick": s.tick, "sums": s.sums, "shares": s.shares, "look": s.look, "leap": s.leap,
		"tokens": s.tokens,
		"claims": func(now int64) { c.Reset(); s.e.Claims(now, &c) },
		"report": func(now int64) { s.e.Report(now, &r) },
		"apply":  func(int64) { _ = s.e.Apply(s.config(rand.IntN(12))) },
	}
	for range 200 {
		for name, op := range ops {
			at := 1 + rand.IntN(10)
			left, rank = at, 1+rand.IntN(9)
			before := rank
			s.do(op)
			rank = 0
			if locked := s.e.lockedNow(); locked != "" {
				t.Fatalf("%s: a panic before its lock number %d of rank %d leaves locked: %s", name, at, before, locked)
			}
			for range 4 { // so that keys are contended
				s.do(s.serve)
			}
		}
	}
	if s.panics.Load() < 300 {
		t.Errorf("%d panics", s.panics.Load())
	}
	t.Logf("%d panics", s.panics.Load())
}

// lockedNow names a lock that somebody holds, "" if none.
func (e *Engine) lockedNow() string {
	try := func(name string, l interface {
		TryLock() bool
		Unlock()
	}) string {
		if !l.TryLock() {
			return name
		}
		l.Unlock()
		return ""
	}
	found := try("naming", &e.applied.mu) + try("work", &e.work) + try("admin", &e.admin) +
		try("names", &e.registry.names) + try("fresh", &e.fresh)
	for _, f := range e.live() {
		found += try("flow "+f.tenant, &f.mu)
	}
	if err := e.keys.Check(); err != nil && strings.Contains(err.Error(), "locked") {
		found += err.Error()
	}
	return found
}

// Each Lock is followed by a deferred Unlock, so that a panic leaves none locked. The
// functions of keys/slot.go that return a state locked are the exception.
func TestLocksAreReleasedByDefer(t *testing.T) {
	allowed := map[string]bool{"lockToLook": true, "install": true}
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	rooms, err := filepath.Glob("internal/*/*.go")
	if err != nil || len(rooms) == 0 {
		t.Fatal(rooms, err)
	}
	names = append(names, rooms...)
	text := func(n ast.Node) string {
		var b strings.Builder
		if err := printer.Fprint(&b, files, n); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/lock/") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || allowed[fn.Name.Name] {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				block, ok := n.(*ast.BlockStmt)
				if !ok {
					return true
				}
				for i, stmt := range block.List {
					of, locks := strings.CutSuffix(text(stmt), ".Lock()")
					if !locks || strings.ContainsAny(of, "\n(") {
						continue
					}
					if i+1 == len(block.List) || text(block.List[i+1]) != "defer "+of+".Unlock()" {
						t.Errorf("%s: %s.Lock() is not followed by its deferred Unlock", files.Position(stmt.Pos()), of)
					}
				}
				return true
			})
		}
	}
}
