package grant

import "slices"

// What an owner believes. A gateway may lie, and so may what carries its messages. Examples are a
// session that is played again, counts that fall, tokens that nobody has granted, a recall that is
// never answered. So:
//
//	given back     ≤ what this gateway has charged, and all of them together creditBursts·b
//	held from an earlier owner, in all ≤ heldBursts·b
//	D              ≤ debtBursts·b by what gateways say
//	a recall       is waited for as long as patience; then what was out is spent
//	a gateway      comes no earlier than its answer said, and gets r/n where others take all
//
// With these the others are admitted r·t + (1 + creditBursts)·b at most, whatever one gateway says.

const (
	// heldBursts bounds what gateways bring from earlier owners, in bursts: two sides of a partition
	// have one each. What they have beyond is charged when it is spent.
	heldBursts = 2
	// debtBursts bounds D by what gateways say, in bursts: a limit must not be blocked for longer than
	// it takes to refill so much.
	debtBursts = 2
	// creditBursts bounds what all gateways together may give back of what they have charged, in bursts.
	// Longer requests whose cost turns out to be less need more.
	creditBursts = 4
	// patient is the time for which the owner waits for the answer to a recall, hasty for a gateway that
	// has not answered before. The next gateway goes by its ledger meanwhile.
	patient, hasty = 3 * second, 20 * millisecond
)

// register takes in what a gateway brings from an earlier owner. D is the debt that
// the gateway that knows most states, and at least what all can still spend.
func (o *Owner) register(u *user, q Request) {
	before := o.b.spent
	held := min(max(0, q.Held), max(0, heldBursts*o.w.Burst-o.b.out))
	u.granted = held
	u.exclusive = q.Exclusive
	o.b.out += held
	level := max(o.b.spent, o.b.out)
	if q.Level >= 0 {
		known := min(q.Level, debtBursts*o.w.Burst)
		level = max(level, known)
		if o.p.Strict && !o.granting() && !o.told {
			level = max(o.b.out, known) // somebody knows: no need to assume the worst
		}
		o.told = true
	}
	if level > o.b.spent { // it was not full
		o.b.fill(level, 0)
	} else {
		o.b.spent = level
	}
	o.claim(u, before)
}

// count takes in the cumulative counts.
func (o *Owner) count(now int64, u *user, q Request) {
	out := u.out()
	moreSpent, over := o.spend(u, max(0, q.Spent))
	returned := min(max(q.Returned, u.returned), u.granted-u.spent) // it does not fall
	back, moreExtra := returned-u.returned, min(q.Extra-u.extra, 2<<60)+over
	u.returned, u.extra = returned, q.Extra
	if q.Granted >= u.granted {
		moreSpent, u.presumed = moreSpent-u.presumed, 0
	}
	o.b.out += u.out() - out
	before := o.b.spent
	o.b.giveBack(o.p, back)
	u.charged = max(0, u.charged+o.b.spent-before)
	before = o.b.spent
	o.b.charge(o.w.Burst, max(moreExtra, -u.charged))
	o.claim(u, before)
	u.claimed = max(u.claimed, min(moreExtra, debtBursts*o.w.Burst)) // also what D is too large for
	o.b.lateFor(o.p, now, max(0, moreSpent)+max(0, moreExtra), q.Refills)
	u.use = min(max(0, q.Use), mostUse)
}

// spend takes in what a gateway has spent of granted tokens, and returns by how much that has risen. It
// also returns what the gateway has spent beyond what it had, which is debt. Of tokens that are put back
// so many are unspent again as have not been refilled.
func (o *Owner) spend(u *user, told int64) (more, over int64) {
	more = told - u.told
	u.told = told
	if more < 0 {
		more = -min(-more, max(0, o.b.spent-o.b.out), u.spent)
	}
	spent := min(u.spent+more, u.granted-u.returned)
	over = u.spent + more - spent
	more, u.spent = spent-u.spent, spent
	known := min(over, u.gone)
	u.gone -= known
	return more, over - known
}

// mostUse bounds what a gateway uses, 10⁹ cost units per second, so that no sum overflows.
const mostUse = 1_000_000_000 * Token

// takeBack puts the bucket that a gateway had alone in force again. Its word is taken for what it has
// spent, and for what it gives back of what it has charged.
func (o *Owner) takeBack(u *user, level, full int64) {
	before := o.b.spent
	level = max(level, o.b.spent-u.charged, o.b.out)
	o.b.fill(min(level, max(debtBursts*o.w.Burst, o.b.out)), full)
	claimed := u.claimed
	if o.claim(u, before); u.sole { // it could use what it was granted
		u.claimed = claimed
	}
	o.chargeLate()
}

// claim notes by how much a gateway's word has changed D.
func (o *Owner) claim(u *user, before int64) {
	more := o.b.spent - before
	u.charged, u.claimed = max(0, u.charged+more), max(0, u.claimed+more)
}

// doubt bounds what all gateways may give back, and gives up on gateways that do not answer a recall.
func (o *Owner) doubt(now int64) {
	sum, refilled := 0.0, o.b.refilled-o.faded
	o.faded = o.b.refilled
	for i := range o.users {
		u := &o.users[i]
		sum += float64(u.charged)
		u.claimed = max(0, min(u.claimed-refilled, o.b.spent))
		if at := o.patience(u); at != 0 && at <= now {
			o.giveUpOn(u)
		}
	}
	if most := creditBursts * float64(o.w.Burst); sum > most {
		for i := range o.users {
			o.users[i].charged = int64(float64(o.users[i].charged) * most / sum)
		}
	}
}

// starves reports whether a gateway has got less than its fair part, r by the number of gateways, for
// longer than the refill of all debt takes. Meanwhile others go on saying that they have used more. Then
// it gets a token even where none is left, so that nobody is kept from the key by what others only say;
// the bucket pays it back.
func (o *Owner) starves(now int64, u *user) bool {
	if u.visits.fair == 0 || u.ask.least > o.p.Burst ||
		now-u.visits.fair <= o.p.time(debtBursts*o.w.Burst)+o.p.longest() {
		return false
	}
	return slices.ContainsFunc(o.users, func(v user) bool { return v.peer != u.peer && v.claimed > 0 })
}

// promised returns what is kept for others than u. It is a token for each gateway that has got nothing
// for longer than u, than the longest announced wait, and than its fair part takes. The token is kept
// while it is refilled and until a little after the time at which the gateway may come back. So a
// gateway that comes back before that time gets no more of the refill than its part. If u has
// kept to its times of late, a full bucket is enough for it: perhaps nobody comes for the token.
func (o *Owner) promised(now int64, u *user) (sum int64) {
	for i := range o.users {
		v := &o.users[i]
		if v.visits.fair == 0 || u.visits.fair != 0 && u.visits.fair <= v.visits.fair {
			continue
		}
		one := o.p.time(v.ask.least)
		due := now > v.visits.until-o.p.Due-one && now < v.visits.until+hasty
		if due && now-v.visits.fair > o.p.longest()+int64(len(o.users))*one {
			sum += v.ask.least
		}
	}
	if u.visits.hurried == 0 || now-u.visits.hurried > patient {
		sum = min(sum, max(0, o.p.Burst-u.ask.least))
	}
	return sum
}

// noteFair notes what of a gateway's fair part it is granted.
func (o *Owner) noteFair(now int64, u *user, tokens int64) {
	switch {
	case tokens >= u.ask.need:
		u.visits.fair = 0
	case u.visits.fair == 0:
		u.visits.fair = max(now, 1)
	default:
		u.visits.fair = min(now, u.visits.fair+int64(len(o.users))*o.p.time(tokens))
	}
}

// patience returns until when an answer to a recall is waited for; 0: none is.
func (o *Owner) patience(u *user) int64 {
	switch {
	case !u.recall.awaited():
		return 0
	case u.recall.slow:
		return u.recall.at + hasty
	}
	return u.recall.at + patient
}

// giveUpOn takes what a gateway has for spent, as Lost does. It answers nobody's question until it has
// answered the recall.
func (o *Owner) giveUpOn(u *user) {
	o.lose(u)
	u.spendAll()
	u.exclusive, u.recall.deaf = false, true
}

// spendAll takes for spent what a gateway has.
func (u *user) spendAll() {
	u.gone += u.granted - u.returned - u.spent
	u.spent, u.presumed = u.granted-u.returned, 0
}
