package grant

import "testing"

// wire keeps what an owner sends, so that a test can deliver it late, twice or never.
type wire struct {
	grants  []Grant
	recalls []Recall
	to      []Peer
}

func (w *wire) Grant(to Peer, m Grant)   { w.grants, w.to = append(w.grants, m), append(w.to, to) }
func (w *wire) Recall(to Peer, m Recall) { w.recalls, w.to = append(w.recalls, m), append(w.to, to) }

// CallPart keeps nothing: no gateway of these tests has parts.
func (w *wire) CallPart(Peer) {}

// grant returns the latest one for g.
func (w *wire) grant(t *testing.T, g *Gateway) Grant {
	t.Helper()
	for i := len(w.grants) - 1; i >= 0; i-- {
		if m := w.grants[i]; m.Session == g.session {
			w.grants = w.grants[:0]
			return m
		}
	}
	t.Fatal("no grant was sent")
	return Grant{}
}

func (w *wire) recall(t *testing.T) Recall {
	t.Helper()
	if len(w.recalls) == 0 {
		t.Fatal("no recall was sent")
	}
	m := w.recalls[len(w.recalls)-1]
	w.recalls = nil
	return m
}

func poll(t *testing.T, g *Gateway, now int64) Request {
	t.Helper()
	q, ok := g.Poll(now)
	if !ok {
		q, ok = g.Ask(now)
	}
	if !ok {
		t.Fatal("the gateway has nothing to send")
	}
	return q
}

func silentPoll(t *testing.T, g *Gateway, now int64) {
	t.Helper()
	if q, ok := g.Poll(now); ok {
		t.Fatalf("the gateway sends %+v", q)
	}
	if is, _ := g.Wants(now); is && !g.ask.open {
		t.Fatal("the gateway has something to ask")
	}
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

var ten = Params{Rate: 10, Burst: 10 * Token}

// two returns an owner and two gateways, the first of which has the bucket itself.
func two(t *testing.T) (*Owner, *Gateway, *Gateway, *wire) {
	t.Helper()
	o, a, b, w := NewOwner(ten, 1, 0), NewGateway(ten, 1<<20), NewGateway(ten, 2<<20), &wire{}
	want(t, "first request", a.Take(0, Token), Waits)
	o.Request(0, 1, poll(t, a, 0), w)
	a.Grant(0, w.grant(t, a))
	want(t, "it has the bucket", a.exclusive, true)
	want(t, "the request that waited", a.Retry(0, 0, Token), Admitted)
	silentPoll(t, a, 0)
	return o, a, b, w
}

// A recall that overtakes the exclusive grant that it is for voids that grant.
func TestRecallOvertakesItsExclusiveGrant(t *testing.T) {
	o, a, b, w := NewOwner(ten, 1, 0), NewGateway(ten, 1<<20), NewGateway(ten, 2<<20), &wire{}
	a.Take(0, Token)
	o.Request(0, 1, poll(t, a, 0), w)
	late := w.grant(t, a)
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	a.Recall(1, w.recall(t))
	answer := poll(t, a, 1)
	want(t, "it did not have the bucket", answer.Exclusive, false)
	a.Grant(2, late)
	want(t, "the late grant gives no bucket", a.exclusive, false)
	o.Request(2, 1, answer, w)
	b.Grant(2, w.grant(t, b))
	want(t, "b", b.Retry(2, 2, Token), Admitted)
}

// A request that overtakes the answer to a recall waits for that answer, and does not
// get the bucket a second time.
func TestRequestOvertakesTheAnswerToARecall(t *testing.T) {
	o, a, b, w := two(t)
	b.Take(millisecond, Token)
	o.Request(millisecond, 2, poll(t, b, millisecond), w)
	r := w.recall(t)
	for range 10 {
		a.Take(millisecond, Token) // uses up the bucket
	}
	a.Recall(millisecond, r)
	answer := poll(t, a, millisecond)
	want(t, "a asks anew", a.Take(200*millisecond, Token), Waits)
	early := poll(t, a, 200*millisecond)
	early.Recalled, early.Exclusive, early.Level = 0, false, -1 // as if asked before the recall came
	early.Number = answer.Number - 1
	o.Request(2*millisecond, 1, early, w)
	want(t, "nobody is answered", len(w.grants), 0)
	o.Request(3*millisecond, 1, answer, w)
	want(t, "D as a left it", o.Level(3*millisecond) >= 9*Token, true)
}

// A recall that was answered is not repeated.
func TestAnsweredRecall(t *testing.T) {
	o, a, b, w := two(t)
	b.Take(millisecond, Token)
	o.Request(millisecond, 2, poll(t, b, millisecond), w)
	a.Recall(millisecond, w.recall(t))
	_, open := o.Recalling(1)
	want(t, "it is open", open, true)
	o.Request(millisecond, 1, poll(t, a, millisecond), w)
	_, open = o.Recalling(1)
	want(t, "it is open", open, false)
	want(t, "nothing is due", o.Due(), int64(0))
}

// A request that comes twice is granted once: the same grant is sent again.
func TestRepeatedRequest(t *testing.T) {
	o, a, b, w := two(t)
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	a.Recall(0, w.recall(t))
	o.Request(0, 1, poll(t, a, 0), w)
	first := w.grant(t, b)
	level := o.Level(0)
	again := poll(t, b, 10*millisecond)
	o.Request(0, 2, again, w)
	second := w.grant(t, b)
	want(t, "the same grant", second, first)
	want(t, "nothing more was taken", o.Level(0), level)
	b.Grant(0, first)
	b.Grant(0, second)
	want(t, "one is admitted", b.Retry(0, 0, Token), Admitted)
	want(t, "and no token is left over", b.counts.tokens(), int64(0))
}

// Tokens of earlier grants do not add to a bucket that comes whole.
func TestTokensBesideAnExclusiveBucket(t *testing.T) {
	a := NewGateway(ten, 1<<20)
	a.Take(0, Token)
	q := poll(t, a, 0)
	a.Grant(0, Grant{Owner: 1, Session: q.Session, Seq: q.Seq, Granted: 4 * Token, Admit: Token, Level: 4 * Token})
	want(t, "it waited", a.Retry(0, 0, Token), Admitted)
	want(t, "three tokens are left", a.counts.tokens(), int64(3*Token))
	a.waits.need = Token // as if a request of four tokens waited
	q = poll(t, a, 0)
	a.Grant(0, Grant{Owner: 1, Session: q.Session, Seq: q.Seq, Granted: 4 * Token, Level: 4 * Token, Exclusive: true})
	want(t, "no tokens", a.counts.tokens(), int64(0))
	want(t, "they are back in the bucket", a.Level(0), int64(9*Token))
}

// A question that waits for a token due soon is answered when the token is there, and
// all that wait are in the end.
func TestNobodyIsForgotten(t *testing.T) {
	w := newWorld(Params{Rate: 1000, Burst: 2 * Token}, 4, way, 1)
	for i := range w.gates {
		w.at(millisecond, func() { w.request(i, Token); w.request(i, Token) })
	}
	w.run(second)
	want(t, "answered", len(w.held), 8)
	want(t, "in time", w.p99() <= w.p.Hold, true)
	for _, g := range w.gates {
		want(t, "waiting", g.g.waits.need, int64(0))
	}
}

// Refill that was turned away before spends were reported is given back from each of the
// intervals in which it was turned away, and from none twice.
func TestTurnedAwayRefill(t *testing.T) {
	b := bucket{spent: 10 * Token, out: 10 * Token}
	b.advance(ten, second)          // all is out: one second turned away
	b.out -= 5 * Token              // spends reported late
	b.late(ten, second/2, 20*Token) // … of the last half second
	want(t, "half a second", b.spent, int64(5*Token))
	b = bucket{spent: 10 * Token, out: 10 * Token}
	b.advance(ten, second)
	b.out = 0
	b.late(ten, 0, 3*Token)
	want(t, "as much as the gateway says", b.spent, int64(7*Token))
	b.late(ten, 0, 100*Token)
	want(t, "not more than r·t in all", b.spent < 10, true) // rounding
	b.spent = 10 * Token
	b.late(ten, 0, 100*Token)
	want(t, "nothing twice", b.spent, int64(10*Token))
}

// A message of an earlier life, of the gateway or of the owner, changes nothing.
func TestEarlierLives(t *testing.T) {
	o, a, _, w := two(t)
	old := Request{Session: a.session - 1, Owner: 1, Number: 99, Seq: 9, Need: 5 * Token, Least: Token}
	level := o.Level(0)
	o.Request(0, 1, old, w)
	want(t, "grants", len(w.grants), 0)
	want(t, "D", o.Level(0), level)

	a.Grant(0, Grant{Owner: 1, Session: a.session - 1, Seq: 1, Granted: 50 * Token})
	a.Grant(0, Grant{Owner: 9, Session: a.session, Seq: a.ask.seq, Granted: 50 * Token})
	want(t, "tokens", a.counts.tokens(), int64(0))
}

// A gateway that crashes with tokens has spent them; with the bucket itself, STRICT takes
// it for empty.
func TestLost(t *testing.T) {
	o, _, _, w := two(t)
	o.Lost(0, 1, w)
	want(t, "as full as when granted", o.Level(0), int64(0))

	strict := ten
	strict.Strict = true
	o = NewOwner(strict, 1, 0)
	a := NewGateway(strict, 1<<20)
	a.Take(0, Token)
	o.Request(0, 1, poll(t, a, 0), w)
	o.Lost(0, 1, w)
	want(t, "empty", o.Level(0), int64(10*Token))
}

// An owner that has forgotten a gateway does not take the counts of its session for new
// spends: the gateway begins another session.
func TestForgottenSession(t *testing.T) {
	o, a, b, w := two(t)
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	a.Recall(0, w.recall(t))
	o.Request(0, 1, poll(t, a, 0), w) // it has spent one token
	b.Grant(0, w.grant(t, b))
	want(t, "admitted", b.Retry(0, 0, Token), Admitted)
	for b.Take(0, Token) == Admitted {
	}
	w.grants = nil
	o.Lost(0, 2, w)
	level := o.Level(0)
	o.Request(0, 2, poll(t, b, 0), w)
	want(t, "D", o.Level(0), level)
	b.Grant(0, w.grant(t, b))
	q := poll(t, b, 0)
	want(t, "another session", q.Register && q.Spent == 0, true)
	o.Request(0, 2, q, w)
	want(t, "D with the token that it waits for", o.Level(0), level+Token)
}

// A gateway that knows its owner by a recall only, and that the owner has forgotten, registers when
// it begins another session. Otherwise the owner would demand a new session again and again.
func TestForgottenBeforeItsGrant(t *testing.T) {
	o, a, b, w := NewOwner(ten, 1, 0), NewGateway(ten, 1<<20), NewGateway(ten, 2<<20), &wire{}
	a.Take(0, Token)
	o.Request(0, 1, poll(t, a, 0), w) // its grant is lost
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	a.Recall(0, w.recall(t))
	o.Lost(0, 1, w)
	w.grants = nil
	o.Request(0, 1, poll(t, a, 0), w)
	a.Grant(0, w.grant(t, a))
	want(t, "registers", poll(t, a, 0).Register, true)
}

// A gateway that has to begin another session takes no other one's place among the users.
func TestForgottenAmongOthers(t *testing.T) {
	o, a, b, w := two(t)
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	o.Request(0, 1, Request{Session: a.session + 1, Owner: 1, Number: 1}, w)
	want(t, "users", len(o.users), 1)
	want(t, "the one that is left", o.users[0].peer, Peer(2))
}

// A gateway that forgets a key gives its bucket back, and answers a recall of later.
func TestReleased(t *testing.T) {
	o, a, b, w := two(t)
	want(t, "idle while a token is spent", a.Idle(0), false)
	at := int64(second)
	want(t, "idle", a.Idle(at), true)
	a.Take(at, 4*Token)
	q, ok := a.Release(at)
	want(t, "has something to say", ok, true)
	b.Take(at, Token)
	ask := poll(t, b, at)
	o.Request(at, 2, ask, w) // before the release comes
	m := w.recall(t)
	o.Request(at, 1, q, w)
	want(t, "D as the gateway left it, and the token of the other", o.Level(at), int64(5*Token))
	b.Grant(at, w.grant(t, b))
	want(t, "admitted", b.Retry(at, at, Token), Admitted)
	o.Request(at, 1, Forgotten(m), w)
	want(t, "D", o.Level(at), int64(5*Token))

	o, _, b, w = two(t) // the release is lost
	b.Take(at, Token)
	o.Request(at, 2, poll(t, b, at), w)
	o.Request(at, 1, Forgotten(w.recall(t)), w)
	b.Grant(at, w.grant(t, b))
	want(t, "admitted", b.Retry(at, at, Token), Admitted)
	want(t, "D", o.Level(at), int64(Token))
}

// A token that is put back can be spent again, and the owner does not lose it.
func TestPutBack(t *testing.T) {
	_, a, _, _ := two(t)
	want(t, "one spent", a.Level(0), int64(9*Token))
	a.PutBack(0, Token)
	want(t, "none", a.Level(0), int64(10*Token))
	want(t, "no wait", a.Try(0, 10*Token), Admitted)
	want(t, "empty", a.Try(0, Token), Refused)
}

// A request without an answer is left to the caller, and once the owner counts as unreachable no
// request waits.
func TestSilentOwner(t *testing.T) {
	g := NewGateway(ten, 1<<20)
	want(t, "waits", g.Take(0, Token), Waits)
	poll(t, g, 0)
	hold := int64(20 * millisecond)
	want(t, "left to the caller", g.Expire(hold, Token), Unanswered)
	want(t, "silent", g.Silent(), false)
	want(t, "waits", g.Take(3*hold, Token), Waits)
	want(t, "left to the caller", g.Expire(4*hold, Token), Unanswered)
	want(t, "silent", g.Silent(), true)
	want(t, "at once", g.Take(4*hold, Token), Unanswered)
	want(t, "at once", g.Try(4*hold, Token), Unanswered)
}

// A bucket that an owner grants before it has received what was admitted without it is emptier by
// that much.
func TestExclusiveGrantBeforeTheDebtIsHeard(t *testing.T) {
	o, g, w := NewOwner(ten, 1, 0), NewGateway(ten, 1<<20), &wire{}
	g.Take(0, Token)
	first := poll(t, g, 0)
	g.Expire(20*millisecond, Token)
	g.Owe(20*millisecond, 4*Token)
	poll(t, g, 20*millisecond) // a repeated question, which reports it, comes later
	o.Request(20*millisecond, 1, first, w)
	g.Grant(20*millisecond, w.grant(t, g))
	want(t, "left of the burst", g.Level(20*millisecond), int64(6*Token))
}

// A question that nobody answers, and for which no request waits any more, is asked more and more
// seldom, and its key may go.
func TestNobodyAnswers(t *testing.T) {
	g := NewGateway(ten, 1<<20)
	want(t, "waits", g.Take(0, Token), Waits)
	asked, now := 0, int64(0)
	for ; now < 2*second; now += millisecond {
		if _, ok := g.Poll(now); ok {
			asked++
		}
		if now == 50*millisecond {
			want(t, "left to the caller", g.Expire(now, Token), Unanswered)
		}
	}
	if asked > 30 {
		t.Errorf("asked %d times in 2 s", asked)
	}
	want(t, "idle", g.Idle(now), true)
}

// A rate that refills in centuries is slow, and not overdue.
func TestSmallestRate(t *testing.T) {
	p := Params{Rate: 1e-12, Burst: 1 << 50}
	want(t, "time", p.time(1<<50), forever)
}

// An owner that forgets a gateway at rest, while another one gets the bucket, knows who has it.
// When the first one comes back, it must not get a bucket, too.
func TestForgottenBesideTheBucket(t *testing.T) {
	o, a, b, w := two(t)
	now := int64(second)
	b.Take(now, Token)
	o.Request(now, 2, poll(t, b, now), w)
	a.Recall(now, w.recall(t))
	o.Request(now, 1, poll(t, a, now), w)
	b.Grant(now, w.grant(t, b))
	want(t, "b got a token", b.Retry(now, now, Token), Admitted)

	now += 2 * idleUser // a says nothing any more
	b.Take(now, Token)
	o.Request(now, 2, poll(t, b, now), w)
	b.Grant(now, w.grant(t, b))
	want(t, "b has the bucket", b.exclusive, true)

	now += second
	c := NewGateway(ten, 3<<20)
	c.Take(now, Token)
	o.Request(now, 3, poll(t, c, now), w)
	want(t, "who is recalled", w.recall(t).Session, b.session)
	want(t, "grants before the answer", len(w.grants), 0)
}

// A thread that comes with an earlier time than the one before it has no time refilled twice.
func TestTimesOutOfOrder(t *testing.T) {
	var r report
	r.add(ten, second, 5*Token)
	for _, at := range []int64{1100, 1050, 1100, 1000, 1200} {
		r.advance(ten, at*millisecond)
	}
	want(t, "refilled of 5 tokens within 0.2 s at 10/s", r.refilled, int64(2*Token))
}

// Tokens that are kept for a gateway that waits for one more are not there for the next one. Its
// answer says how long it need not ask, and it does not ask again until the first one is answered.
func TestReservedTokens(t *testing.T) {
	o, a, b, w := two(t)
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	a.Recall(0, w.recall(t))
	o.Request(0, 1, poll(t, a, 0), w)
	b.Grant(0, w.grant(t, b))
	for b.Retry(0, 0, Token) == Admitted {
	}
	o.b.spent = ten.Burst
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	b.Grant(0, w.grant(t, b))
	want(t, "the bucket is empty", b.Retry(0, 0, Token), Refused)

	now := int64(196 * millisecond) // 1.96 tokens
	a.Take(now, Token)
	a.Take(now, Token)
	o.Request(now, 1, poll(t, a, now), w)
	want(t, "answers before the second token is there", len(w.grants), 0)
	b.Take(now, Token)
	o.Request(now, 2, poll(t, b, now), w)
	m := w.grant(t, b)
	want(t, "granted", m.Admit, int64(0))
	if m.Wait < ten.time(Token) {
		t.Errorf("b may ask again after %d ns, before its token is there", m.Wait)
	}
}

// asksAhead returns an owner and two gateways that share its bucket. The second one has used eleven
// tokens recently and asks for tokens ahead; D is as given.
func asksAhead(t *testing.T, spent int64) (*Owner, *Gateway, Request, *wire) {
	t.Helper()
	o, a, b, w := two(t)
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	a.Recall(0, w.recall(t))
	o.Request(0, 1, poll(t, a, 0), w)
	b.Grant(0, w.grant(t, b))
	want(t, "b has no bucket", b.exclusive, false)
	for range 11 {
		b.use.add(0, Token)
	}
	want(t, "admitted", b.Retry(0, 0, Token), Admitted)
	for b.counts.tokens() > 0 {
		b.Try(0, min(Token, b.counts.tokens()))
	}
	b.aheadAt = 0
	q := poll(t, b, 0)
	want(t, "no request waits", q.Need, int64(0))
	o.b.spent, o.users[1].presumed = spent, 0
	return o, b, q, w
}

// A gateway that asks ahead when the bucket is empty gets no time to refuse until: its next request may
// come when the bucket has refilled.
func TestWhoAsksAheadIsNotToldToRefuse(t *testing.T) {
	o, b, q, w := asksAhead(t, ten.Burst+Token/2)
	o.Request(0, 2, q, w)
	m := w.grant(t, b)
	want(t, "wait", m.Wait, int64(0))
	b.Grant(0, m)
	want(t, "the next request", b.Take(0, Token), Waits)
}

// Tokens for requests to come are granted whole: a part of one would only have to be recalled.
func TestNoPartOfATokenIsGrantedAhead(t *testing.T) {
	o, b, q, w := asksAhead(t, ten.Burst-Token)
	granted := b.counts.granted
	o.Request(0, 2, q, w)
	want(t, "granted beyond whole tokens", (w.grant(t, b).Granted-granted)%Token, int64(0))
}

// A bucket that a gateway has from an earlier owner is recalled by the next one when another gateway
// asks, although the next owner has not answered the gateway yet.
func TestBucketOfAnEarlierOwnerIsRecalled(t *testing.T) {
	_, a, b, w := two(t)
	for range 6 {
		a.Take(0, Token)
	}
	listening := ten
	listening.Listen = 10 * millisecond
	o := NewOwner(listening, 2, 0)
	a.NewOwner(0)
	b.NewOwner(0)
	o.Request(0, 1, poll(t, a, 0), w)
	b.Take(0, Token)
	o.Request(0, 2, poll(t, b, 0), w)
	now := listening.Listen
	o.Tick(now, w)
	a.Recall(now, w.recall(t))
	want(t, "a has the bucket", a.exclusive, false)
	o.Request(now, 1, poll(t, a, now), w)
	b.Grant(now, w.grant(t, b))
	want(t, "b", b.Retry(now, 0, Token), Admitted)
	if d := o.Level(now); d < 7*Token || d > 8*Token {
		t.Errorf("D = %d, seven tokens of a and one of b less what has refilled", d)
	}
}

// A gateway that got a time to refuse until does so until the token is there, not for the way of the question
// and of the answer longer. A request that comes with the token asks, and may find it.
func TestRefusesNoLongerThanTheTokenTakes(t *testing.T) {
	g := NewGateway(Params{Rate: 100, Burst: Token}, 1<<20)
	want(t, "waits", g.Take(0, Token), Waits)
	q := poll(t, g, 0)
	back := int64(4 * millisecond)
	g.Grant(back, Grant{Owner: 1, Session: q.Session, Seq: q.Seq, Seen: q.Number, Wait: 10 * millisecond})
	want(t, "what waited", g.Retry(back, 0, Token), Refused)
	silentPoll(t, g, back)
	want(t, "long before the token", g.Take(back, Token), Refused)
	want(t, "with the token", g.Take(10*millisecond, Token), Waits)
}

// A new owner believes the gateway that knows most of what is spent, in whichever order they report it,
// and no more than two bursts.
func TestOwnerBelievesWhoKnowsMost(t *testing.T) {
	for _, strict := range []bool{false, true} {
		p := ten
		p.Listen, p.Strict = 10*millisecond, strict
		for _, told := range [][]int64{{3, 9}, {9, 3}, {9, 0}, {50, 3}} {
			o, w := NewOwner(p, 2, 0), &wire{}
			for i, level := range told {
				g := NewGateway(p, uint64(i+1)<<20)
				g.level, g.register = level*Token, true
				o.Request(0, Peer(i+1), poll(t, g, 0), w)
			}
			if d := o.Level(0); d != min(max(told[0], told[1])*Token, 2*p.Burst) {
				t.Errorf("strict %v, told %d: D = %d", strict, told, d)
			}
		}
	}
}

// The owner knows what the next request costs only if one waits: then it grants parts of a token ahead.
func TestRequestsOfLessThanAToken(t *testing.T) {
	o, a, b, w := two(t)
	b.Take(0, Token/10)
	o.Request(0, 2, poll(t, b, 0), w)
	a.Recall(0, w.recall(t))
	for range 12 {
		b.use.add(0, Token/10)
	}
	o.Request(0, 1, poll(t, a, 0), w)
	o.users[1].ask.ahead, o.users[1].use = Token/2, Token/2
	want(t, "ahead", o.prefetch(&o.users[1], 8*Token), int64(Token/2))
}
