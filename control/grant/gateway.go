package grant

// Gateway is the state of one key at one gateway. See the package comment.
type Gateway struct {
	p       Params
	session uint64 // this life of the gateway
	owner   uint64 // life of the owner; 0: not known yet
	counts  sessionCounts
	owed    owed

	number    uint32
	exclusive bool
	denied    bool   // the owner has just said no to what waits
	register  bool   // what is known must be sent to the owner
	silent    bool   // requests do not wait for the owner
	alone     bucket // while exclusive: the bucket itself
	until     int64  // refuses new requests without asking before

	ask    gatewayQuestion
	recall gatewayRecall
	waits  waits
	late   report
	use    rate

	heard  int64 // time of the latest Grant
	level  int64 // D as of then; −1: unknown
	others int64 // cost per second

	lapseAt int64 // what is granted is void from then on; 0: never
	renewAt int64 // the bucket itself is asked for anew then
	unowned int64 // the owner has no room for the key, and is not asked before; 0: it has room
	aheadAt int64 // no question for requests to come before
}

// sessionCounts count tokens in a session of a gateway with an owner.
type sessionCounts struct {
	granted, spent, returned int64

	said  int64 // spent, as of the latest message
	admit int64 // tokens that came for requests that waited
	held  int64 // when the session began
}

// tokens returns what may be spent.
func (c *sessionCounts) tokens() int64 { return c.granted - c.spent - c.returned }

// giveBack returns all tokens to the owner.
func (c *sessionCounts) giveBack() { c.returned += max(0, c.tokens()) }

// gatewayQuestion is the latest question of a gateway to the owner.
type gatewayQuestion struct {
	seq    uint32
	open   bool  // it is not answered
	at     int64 // when it was asked first
	wanted int64 // when there was first something to ask that is not answered; 0: there is nothing
}

// gatewayRecall is the latest recall that a gateway has received.
type gatewayRecall struct {
	number uint32
	barred uint32 // exclusive grants up to this Seq are void
	due    bool   // the answer is due
	left   int64  // D at which the bucket was given back; −1: it was not had
	full   int64  // for how long it had turned refill away then
}

// waits are the requests that wait at a gateway.
type waits struct {
	need  int64 // cost of all
	least int64 // of the cheapest
	since int64 // when the first came
}

// add adds a request that came at the given time.
func (w *waits) add(now, cost int64) {
	if w.need == 0 {
		w.since = now
	}
	if w.need == 0 || cost < w.least {
		w.least = cost
	}
	w.need += cost
}

// remove takes a request out.
func (w *waits) remove(cost int64) {
	if w.need = max(0, w.need-cost); w.need == 0 {
		w.least = 0
	}
}

// NewGateway returns the state of a key that this gateway has not used. session must be
// greater than in every earlier life of this gateway by 2^20 or more, since it counts the
// owners met.
func NewGateway(p Params, session uint64) *Gateway {
	return &Gateway{p: p.withDefaults(), session: session, level: -1, recall: gatewayRecall{left: -1}}
}

// declined is the time for which an owner that has no room for a key is not asked again.
const declined = 5 * second

// Know sets what is spent of the bucket at least, before the first request, and registers it at the
// owner. It is for a key that was limited by other means until now.
func (g *Gateway) Know(now, spent int64) {
	if spent > 0 {
		g.level, g.heard, g.register = spent, now, true
	}
}

// Learn sets what was spent of the bucket at least, for a key in use: the caller knows it from others, which
// the owner could not receive. Unless this gateway knew as much, it registers that at the owner.
func (g *Gateway) Learn(now, spent int64) {
	switch {
	case g.exclusive:
		g.alone.advance(g.p, now)
		if spent > g.alone.spent {
			g.alone.fill(spent, 0)
		}
	case spent+max(0, g.counts.tokens()) > g.known(now):
		level := spent + max(0, g.counts.tokens())
		g.NewOwner(now) // a session begins with what is known
		g.level, g.heard, g.register = level, now, true
	}
}

// Configure puts another rate or burst in force, and carries over what is spent (bucket.carry). Of
// tokens that the gateway holds it keeps as many as a smaller bucket leaves, and gives back the rest.
// What an owner has said about when to ask again counts no more.
func (g *Gateway) Configure(p Params, now int64) {
	was, level := g.p, g.known(now)
	if g.p = p.withDefaults(); g.p.allowsAs(was) {
		return
	}
	from, to := was.Burst, g.p.Burst
	g.alone.carry(from, to)
	if level > 0 && !g.exclusive {
		b := bucket{spent: level}
		b.carry(from, to)
		g.level, g.heard = b.spent, now
	}
	if from > to {
		part, held := float64(to)/float64(from), max(0, g.counts.tokens())
		unsaid := max(0, g.counts.spent-g.counts.said)
		kept := int64(float64(held) * part)
		g.counts.returned += held - kept + kept%Token
		g.owed.extra -= unsaid - int64(float64(unsaid)*part) // the owner takes these for tokens that are held
	}
	g.until, g.denied = 0, false
}

// NewOwner notes that the key has another owner, whose life is not known yet: the one
// before has gone or the members have changed. This gateway keeps what it holds, and
// reports it to the new owner.
func (g *Gateway) NewOwner(now int64) { g.change(now, 0) }

func (g *Gateway) change(now int64, life uint64) {
	g.level, g.heard = g.known(now), now
	held := max(0, g.counts.tokens())
	g.owner = life
	g.session++
	g.counts = sessionCounts{granted: held, held: held}
	g.late, g.owed = report{}, owed{}
	g.recall.number, g.recall.barred, g.recall.due, g.recall.left = 0, 0, false, -1
	asked := g.ask.open // the owner may be the same, and answer in the session that ends here
	g.ask.open, g.silent, g.unowned, g.ask.wanted = false, false, 0, 0
	g.register = g.exclusive || g.level >= 0 || life != 0 || asked
	g.until = 0
}

// listen counts the owner as unreachable if it has not answered for long.
func (g *Gateway) listen(now int64) {
	if g.ask.wanted != 0 && now-g.ask.wanted >= 3*g.p.Hold {
		g.silent = true
	}
}

// Silent reports whether the owner counts as unreachable: requests do not wait for it.
func (g *Gateway) Silent() bool { return g.silent }

// Unowned reports whether the owner has answered, within the last 5 s, that it has no room for the key.
func (g *Gateway) Unowned(now int64) bool { return now < g.unowned }

// Open reports whether a question that was asked is not answered yet.
func (g *Gateway) Open() bool { return g.ask.open }

// Registers reports whether this gateway has to report what it knows to the owner, which may have room.
func (g *Gateway) Registers() bool { return g.register && g.unowned == 0 }

// Rested reports whether the bucket is full and no request waits, as far as this gateway knows: if
// the owner has changed, nothing need be reported to the next one.
func (g *Gateway) Rested(now int64) bool {
	return g.waits.need == 0 && now >= g.until && g.known(now) <= 0 && g.counts.tokens() <= 0
}

// Idle reports whether the gateway knows nothing that a new one would not: it may go, once
// Release is sent.
func (g *Gateway) Idle(now int64) bool {
	// No owner has answered, or it has no room: there is nobody to give anything back to.
	nobody := (g.silent || g.unowned != 0) && g.owner == 0
	if (g.ask.open || g.register || g.owed.unsent) && !nobody || g.recall.due || g.waits.need > 0 {
		return false
	}
	return g.known(now) <= 0 && now >= g.until
}

// Release gives back what the gateway has, because it forgets the key or ends. It returns
// what to send to the owner; not ok: the owner knows of nothing. The gateway must not be used
// afterwards. Where the message is lost, the owner learns the same from Forgotten.
func (g *Gateway) Release(now int64) (q Request, ok bool) {
	if g.owner == 0 {
		return Request{}, false
	}
	g.recall.left = g.giveUp(now)
	g.counts.giveBack()
	g.ask.open, g.register, g.ask.wanted, g.owed.hidden = false, false, 0, 0
	q = g.message(now)
	q.Released = true
	return q, true
}

// Forgotten answers a Recall of a key that the gateway does not know any more: it had
// released it, with nothing spent that was not refilled.
func Forgotten(m Recall) Request {
	return Request{
		Session: m.Session, Owner: m.Owner, Number: m.Seen + 1, Recalled: m.Number, Forgotten: true, Released: true,
		Exclusive: true,
	}
}

// known returns D as far as this gateway knows it; −1: not at all.
func (g *Gateway) known(now int64) int64 {
	switch {
	case g.exclusive:
		g.alone.advance(g.p, now)
		return g.alone.spent
	case g.level < 0:
		return -1
	}
	return max(0, g.level-int64(g.p.cost(now-g.heard)))
}

// Level returns what is left of the burst, as far as this gateway knows.
func (g *Gateway) Level(now int64) int64 {
	if d := g.known(now); d >= 0 {
		return g.p.Burst - d
	}
	return g.p.Burst
}
