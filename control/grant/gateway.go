package grant

// Outcome of a request at a gateway.
type Outcome uint8

// The outcomes.
const (
	Refused  Outcome = iota // no token, and none before Gateway.Until
	Admitted                // a token was spent
	Waits                   // ask again with Retry after the next Grant, or with Expire after Hold
)

// Gateway is what one gateway knows of one key. See the package comment.
type Gateway struct {
	p       Params
	members int    // gateways that may use the key, this one included
	session uint64 // this life of the gateway
	owner   uint64 // life of the owner; 0: not known yet

	granted, spent, returned, extra int64

	admit int64 // tokens that came for requests that waited

	exclusive bool
	alone     bucket // while exclusive: the bucket itself
	until     int64  // refuses without asking before

	number    uint32
	seq       uint32
	open      bool // a question is not answered
	askedAt   int64
	repeatAt  int64
	pause     int64
	barred    uint32 // exclusive grants up to this Seq are void
	recalled  uint32
	returning bool  // an answer to a recall is due
	left      int64 // D at which the bucket was given back; −1: it was not had
	register  bool  // the owner must be told what is known
	held      int64

	need  int64 // cost of the requests that wait
	least int64 // of the cheapest
	late  report
	use   rate

	heard  int64 // time of the latest Grant
	level  int64 // D as of then; −1: unknown
	others int64 // cost per second

	silent  bool
	falling bool   // own is in use since the latest Grant
	own     bucket // of this gateway's part, while the owner does not answer
	aheadAt int64  // no question for requests to come before
}

// NewGateway returns the state of a key that this gateway has not used. session must be
// greater than in every earlier life of this gateway by 2^20 or more, since it counts the
// owners met. members is how many gateways may use the key.
func NewGateway(p Params, session uint64, members int) *Gateway {
	return &Gateway{p: p.withDefaults(), session: session, members: max(1, members), level: -1, left: -1}
}

// Configure puts another rate or burst, or number of members, in force.
func (g *Gateway) Configure(p Params, members int, now int64) {
	g.alone.advance(g.p, now)
	g.p, g.members = p.withDefaults(), max(1, members)
}

// tokens returns what may be spent.
func (g *Gateway) tokens() int64 { return g.granted - g.spent - g.returned }

// Take asks to admit a new request now. cost is in millionths and not above the burst;
// a request that costs more can never pass, which is the caller's to say.
func (g *Gateway) Take(now, cost int64) Outcome {
	if g.exclusive {
		return g.meet(&g.alone, now, cost)
	}
	g.use.add(now, cost)
	if g.need > 0 && !g.silent {
		return g.join(now, cost) // behind those that wait
	}
	return g.decide(now, cost, false)
}

// Retry asks again for a request that waits. Call it for the waiting requests in
// their order after each Grant, until one waits again.
func (g *Gateway) Retry(now, cost int64) Outcome {
	out := g.decide(now, cost, true)
	if out != Waits {
		g.Leave(cost)
	}
	return out
}

// Leave tells that a waiting request has gone.
func (g *Gateway) Leave(cost int64) {
	g.need = max(0, g.need-cost)
	if g.need == 0 {
		g.least = 0
	}
}

func (g *Gateway) decide(now, cost int64, waiting bool) Outcome {
	switch {
	case g.exclusive:
		return g.meet(&g.alone, now, cost)
	case g.tokens() >= cost:
		g.spent += cost
		g.admit = max(0, g.admit-cost)
		g.late.add(g.p, now, cost)
		return Admitted
	case now < g.until:
		return Refused
	case g.silent:
		return g.takeOwn(now, cost)
	case waiting:
		return Waits
	}
	return g.join(now, cost)
}

// meet decides by a bucket that this gateway has to itself.
func (g *Gateway) meet(b *bucket, now, cost int64) Outcome {
	b.advance(g.p, now)
	if b.free(g.p) < cost {
		g.until = now + g.p.time(cost-b.free(g.p))
		return Refused
	}
	b.spent += cost
	return Admitted
}

func (g *Gateway) join(now, cost int64) Outcome {
	if now < g.until {
		return Refused
	}
	if g.need == 0 || cost < g.least {
		g.least = cost
	}
	g.need += cost
	return Waits
}

// Until returns before when a refused request need not come again.
func (g *Gateway) Until() int64 { return g.until }

// Owe charges cost that cannot be refused, such as what a response has cost beyond
// its estimate. A negative one gives back.
func (g *Gateway) Owe(now, cost int64) {
	if g.exclusive {
		g.alone.advance(g.p, now)
		g.alone.charge(g.p, cost)
		return
	}
	g.extra += cost
	g.late.add(g.p, now, max(0, cost))
}

// Grant takes in a message of an owner.
func (g *Gateway) Grant(now int64, m Grant) {
	if m.Session != g.session || m.Owner == 0 {
		return
	}
	answers := g.open && m.Seq == g.seq
	switch {
	case m.Owner == g.owner:
	case answers && g.owner == 0:
		g.owner = m.Owner
	case g.open && m.Seq == 0: // another owner than the counts are for
		g.change(now, m.Owner)
		return
	default:
		return
	}
	g.granted = max(g.granted, m.Granted)
	g.late.acknowledge(m.Seen)
	if !answers {
		return
	}
	g.open, g.silent, g.falling, g.register = false, false, false, false
	g.heard, g.others = now, m.Others
	if g.exclusive {
		return // an earlier owner's bucket, confirmed
	}
	g.level, g.admit = m.Level, max(0, m.Admit)
	g.until = now + max(0, m.Wait)
	if m.Exclusive && int32(m.Seq-g.barred) > 0 {
		g.takeBucket(now, m.Level)
	}
}

// takeBucket begins to use the bucket itself. Tokens of earlier grants go back into it.
func (g *Gateway) takeBucket(now, level int64) {
	unspent := g.tokens()
	g.returned += unspent
	g.exclusive, g.until = true, now
	g.alone = bucket{spent: max(0, level-unspent), at: now}
}

// Recall takes in a message of the owner: what is not spent goes back, also what is
// still on its way.
func (g *Gateway) Recall(now int64, m Recall) {
	if g.owner == 0 && g.open && m.Seq == g.seq {
		g.owner = m.Owner // its grant is still on its way
	}
	if m.Session != g.session || m.Owner != g.owner || int32(m.Number-g.recalled) < 0 {
		return
	}
	if m.Number != g.recalled {
		g.recalled = m.Number
		g.barred = m.Seq
		g.left = g.giveUp(now)
		g.granted = max(g.granted, m.Granted)
		g.returned += max(0, g.tokens())
		if g.open && int32(m.Seq-g.seq) >= 0 {
			g.open = false // its answer is void; what waits asks anew
		}
	}
	g.returning = true
}

// giveUp ends the use of the bucket itself and returns D; −1: it was not had.
func (g *Gateway) giveUp(now int64) int64 {
	if !g.exclusive {
		return -1
	}
	g.alone.advance(g.p, now)
	g.exclusive = false
	g.level, g.heard = g.alone.spent, now
	g.until = now
	return g.alone.spent
}

// NewOwner tells that the key has another owner, whose life is not known yet: the one
// before has gone or the members have changed. What this gateway holds, it keeps and
// tells the new one.
func (g *Gateway) NewOwner(now int64) { g.change(now, 0) }

func (g *Gateway) change(now int64, life uint64) {
	g.level, g.heard = g.known(now), now
	held := max(0, g.tokens())
	g.owner = life
	g.session++
	g.granted, g.spent, g.returned, g.extra, g.held = held, 0, 0, 0, held
	g.late = report{}
	g.recalled, g.barred, g.returning, g.left = 0, 0, false, -1
	g.open = false
	g.admit = 0
	g.register = g.exclusive || g.level >= 0
	g.until = min(g.until, now)
}

// known returns D as far as this gateway can tell; −1: not at all.
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
