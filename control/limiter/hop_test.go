package limiter

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
	"github.com/titrate/titrate/control/exchange"
	"github.com/titrate/titrate/control/grant"
	"github.com/titrate/titrate/control/limiter/internal/tokens"
)

// stalling is a cluster whose gateways and owner of EXACT keys stand still now and then: they read, send and
// time nothing meanwhile, and go on with what has come.
type stalling struct {
	*cluster
	owner   *grant.Owner
	toOwner []asking
	answers [][]answering // by engine
	until   []int64       // by engine, the owner last: when it goes on
	offers  []*hopped
}

type asking struct {
	at   int64
	from int
	q    exchange.TokenRequest
}

type answering struct {
	at int64
	m  exchange.TokenAnswers
}

// hopped is a request of the client that hops.
type hopped struct {
	sent, decided int64
	admitted      bool
}

const way = 300 * int64(time.Microsecond)

type stallingOutbox struct {
	s   *stalling
	key uint64
}

func (o stallingOutbox) Grant(to grant.Peer, g grant.Grant) {
	o.s.answer(to, exchange.TokenAnswers{Grants: []exchange.TokenGrant{{Key: o.key, Grant: g}}})
}

func (o stallingOutbox) Recall(to grant.Peer, r grant.Recall) {
	o.s.answer(to, exchange.TokenAnswers{Recalls: []exchange.TokenRecall{{Key: o.key, Recall: r}}})
}

// CallPart has nothing sent: gateways have no parts here.
func (o stallingOutbox) CallPart(grant.Peer) {}

func (s *stalling) answer(to grant.Peer, m exchange.TokenAnswers) {
	s.answers[to] = append(s.answers[to], answering{s.now + way, m})
}

// newStalling returns gateways with one EXACT limit.
func newStalling(t *testing.T, seed uint64, gateways int, l config.Limit) *stalling {
	s := &stalling{cluster: newCluster(t, gateways, simple(1000, config.Queue{}, l), Options{Ask: func() {}})}
	s.rng = rand.New(rand.NewPCG(seed, 1))
	s.delay = 1 * ms
	s.answers, s.until = make([][]answering, gateways), make([]int64, gateways+1)
	for i, e := range s.engines {
		e.LinkTokens(s.now, true)
		s.phases[i] = s.rng.Int64N(50) * ms
	}
	return s
}

func (s *stalling) stands(i int) bool { return s.now < s.until[i] }

// step lets a millisecond pass.
func (s *stalling) step() {
	s.now += ms
	for i, e := range s.engines {
		if s.stands(i) {
			continue
		}
		if (s.now+s.phases[i])%(5*ms) == 0 {
			s.end(e.Tick(s.now, nil))
		}
		for len(s.answers[i]) > 0 && s.answers[i][0].at <= s.now {
			a := s.answers[i][0]
			s.answers[i] = s.answers[i][1:]
			s.end(e.AnswerTokens(s.now, &a.m, nil))
		}
		var asked exchange.TokenRequests
		e.PollTokens(s.now, &asked)
		for _, q := range asked.List {
			s.toOwner = append(s.toOwner, asking{s.now + way, i, q})
		}
	}
	s.own()
	s.deliver()
	for i := range s.engines {
		if (s.now+s.phases[i])%(50*ms) == 0 && !s.stands(i) {
			s.publish(i)
			s.sendSums(i)
		}
	}
}

// own is the owner's part of a step.
func (s *stalling) own() {
	if s.stands(len(s.engines)) {
		return
	}
	for len(s.toOwner) > 0 && s.toOwner[0].at <= s.now {
		a := s.toOwner[0]
		s.toOwner = s.toOwner[1:]
		if s.owner == nil {
			s.owner = grant.NewOwner(allowedBy(s.engines[a.from], &a.q), 1, s.now)
		}
		s.owner.Request(s.now, grant.Peer(a.from), a.q.Request, stallingOutbox{s, a.q.Key})
	}
	if s.owner != nil && s.owner.Due() != 0 && s.owner.Due() <= s.now {
		s.owner.Tick(s.now, stallingOutbox{s, s.key()})
	}
	if s.now%(10*ms) == 0 && s.owner != nil { // recalls are repeated
		for i := range s.engines {
			if r, open := s.owner.Recalling(grant.Peer(i)); open {
				stallingOutbox{s, s.key()}.Recall(grant.Peer(i), r)
			}
		}
	}
}

func (s *stalling) key() uint64 {
	l := s.engines[0].snap.Load().tenants["a"].limits[0]
	return l.keys.Key("c")
}

func (s *stalling) end(events []Event) {
	for _, ev := range events {
		h := s.offers[ev.Ticket]
		if h.decided != 0 {
			s.t.Fatalf("request %d ends twice", ev.Ticket)
		}
		h.decided, h.admitted = s.now, ev.Outcome.Verdict == Admit
	}
}

func (s *stalling) request(gateway int, sent int64) {
	h := &hopped{sent: sent}
	s.offers = append(s.offers, h)
	r := Request{Tenant: "a", Client: "c", Pool: "api", Cost: 1}
	e := s.engines[gateway]
	out := e.Decide(s.now, &r)
	if out.Verdict == Wait {
		if out, _ = e.Enqueue(s.now, &r, uint64(len(s.offers)-1)); out.Verdict == Wait {
			return
		}
	}
	h.decided, h.admitted = s.now, out.Verdict == Admit
}

// wrongful counts requests that were refused though a bucket admits all that was asked within the time in which
// it fills, before and after. Times are the time of sending, and the time when the admitted ones were decided.
func (s *stalling) wrongful(rate, burst float64) (n int) {
	margin := int64((burst + 1) / rate * 1e9)
	over := func(at func(*hopped) int64) (turnedAway []int64) {
		all := slices.Clone(s.offers)
		slices.SortStableFunc(all, func(a, b *hopped) int { return cmp.Compare(at(a), at(b)) })
		spent, last := 0.0, int64(0)
		for _, h := range all {
			spent, last = max(0, spent-rate*float64(at(h)-last)*1e-9), at(h)
			if spent+1 > burst+1e-6 {
				turnedAway = append(turnedAway, at(h))
				continue
			}
			spent++
		}
		return turnedAway
	}
	turnedAway := slices.Concat(over(func(h *hopped) int64 { return h.sent }), over(func(h *hopped) int64 {
		if h.admitted {
			return h.decided
		}
		return h.sent
	}))
	for _, h := range s.offers {
		near := func(at int64) bool { return max(at-h.sent, h.sent-at) <= margin }
		if !h.admitted && !slices.ContainsFunc(turnedAway, near) {
			n++
		}
	}
	return n
}

// A client below its EXACT limit that hops from gateway to gateway in full bursts is refused nothing.
// Gateways and the owner of its key stand still now and then for longer than requests wait, so that ledgers
// decide and tokens come too late.
func TestHopsBesideStalls(t *testing.T) {
	const rate, burst, period = 10, 10, 1112 * ms
	late, offered := 0, 0
	for seed := range uint64(24) {
		gateways := 2 + int(seed%4)
		most := []int64{60, 120, 200}[seed%3] * ms
		s := newStalling(t, seed, gateways, exactly("l", rate, burst))
		next, hop := s.now+s.rng.Int64N(1000)*ms, 0
		for s.now < 22*sec {
			for i := range s.until {
				if !s.stands(i) && s.rng.IntN(500) == 0 {
					s.until[i] = s.now + s.rng.Int64N(most)
				}
			}
			s.step()
			if s.now >= next && s.now < 21*sec && !s.stands(hop%gateways) {
				for range burst {
					s.request(hop%gateways, next)
				}
				hop++
				next += period
			}
		}
		for _, h := range s.offers {
			if offered++; h.decided-h.sent >= tokens.Hold {
				late++
			}
		}
		if n := s.wrongful(rate, burst); n > 0 {
			t.Errorf("seed %d, %d gateways that stand still for up to %d ms: %d of %d refused", seed, gateways, most/ms, n,
				len(s.offers))
		}
	}
	if late < offered/50 {
		t.Errorf("%d of %d requests went without the owner's answer: the gateways did not stand still", late, offered)
	}
}
