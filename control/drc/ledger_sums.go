package drc

import "math"

// LedgerSums adds up the reports of the other replicas about one key.
type LedgerSums struct {
	Admitted    float64 // Σ of the others' cumulative admitted cost; its signed change is what counts
	Claims      float64 // R, cost units/s
	Active      float64 // Aw, number of saturated others
	Unsaturated float64 // U, cost units/s
	Spent       float64 // the largest Spent that another replica announced; used on a new Epoch only
	Own         float64 // Σ of the others' Own
	Assumed     float64 // part of Admitted that is estimated for unreachable replicas
	Age         float64 // seconds since Spent last changed; above a lag, the replica that announced it is gone
	Gap         float64 // see exchange.KeySum
	Absent      float64 // replicas cut off for longer than T2 and still members: r/N is kept for each
	Epoch       uint32  // a new one: Admitted counts from the start again (the table had dropped the key)
	Contended   bool    // others use the key although the sums do not show it yet: escrow
}

// LedgerClaim is the report of a replica about one key.
type LedgerClaim struct {
	Admitted    float64 // A, cumulative admitted cost of this ledger's life
	Claim       float64 // R, cost units/s
	Active      float64 // 1 when saturated, else 0
	Unsaturated float64 // the claim when unsaturated, else 0
	Spent       float64 // see Ledger.Spent
	Own         float64 // see Ledger.Own
}

// Hear installs the latest sums over the other replicas and charges what they admitted
// since the last ones. The change may be negative, when an estimate was too high.
//
// With a new Epoch there is nothing to compare with. On the first Epoch the others' count is
// charged as far as they still see it as spent. Replicas that do not know of each other yet
// each see their own part only. So the sum of these parts counts where it is more than the
// largest. On a later one (the agent has restarted) most of the count is charged here
// already, so the emptier of the two pools, this one and the others', is installed. What all
// have admitted themselves counts together here, too.
func (l *Ledger) Hear(now float64, s LedgerSums) {
	l.Advance(now)
	s = s.normal()
	delta := s.Admitted - l.others.Admitted
	l.met = l.met || delta > 0 || s.inUse()
	l.watchGap(&s)
	first, sure := s.Epoch != l.others.Epoch, delta-(s.Assumed-l.others.Assumed)
	switch {
	case s.Epoch == l.others.Epoch, l.others.Epoch == 0 && s.Gap > 0:
		delta = l.change(delta-l.tooMuch(&s), &s)
	case l.others.Epoch == 0:
		delta = min(s.Admitted, max(s.Spent, s.Own))
		delta -= l.fromOverflow(delta)
	default:
		delta = max(0, s.Spent-l.p.Rate*s.Age-l.d, l.ownParts(&s)-l.d)
	}
	l.d = clamp(l.d+delta, 0, max(l.d, l.Deepest()))
	l.own = min(l.own, l.d)
	l.others = s
	l.hearCertain(first, sure)
	l.share()
}

// hearCertain charges c with the cost that others have certainly admitted since the last sums, less the refill that
// found c at 0 in a silence. It would have repaid that cost. All cost of the first sums is certain.
func (l *Ledger) hearCertain(first bool, sure float64) {
	if first {
		l.certain = l.d
	} else {
		used := clamp(sure, 0, l.spare)
		l.certain, l.spare = clamp(l.certain+sure-used, 0, l.d), l.spare-used
	}
	if l.others.Gap == 0 {
		l.spare = 0
	}
}

// watchGap notes how long a silence has lasted. It begins Wg with the refill that found the pool full since the last
// sums of other replicas. It takes all of that time, except the time since the pool was full.
func (l *Ledger) watchGap(s *LedgerSums) {
	if s.Gap != 0 {
		l.news = max(l.news, l.at+math.Abs(s.Gap))
	}
	if s.Gap != 0 && l.others.Gap == 0 {
		l.unused = l.refill() * max(0, math.Abs(s.Gap)+l.p.Lag-(l.at-l.idle))
	}
}

// change returns what a change of the others' count adds to d.
//
// After a silence the change is what was admitted meanwhile, less what was assumed. Refill of
// that time that found the pool full has repaid it, as it would have done if the change had been
// received at once. The rest is debt: both sides have used the same refill. Neither that nor an
// estimate that was too high brings d below what all together have admitted and not repaid.
func (l *Ledger) change(delta float64, s *LedgerSums) float64 {
	heard := delta
	delta -= l.fromOverflow(delta)
	if s.Gap > 0 {
		used := clamp(delta, 0, l.unused)
		l.unused -= used
		delta = min(delta-used, s.Own+l.p.Rate*s.Gap)
	}
	if s.Gap > 0 || heard < 0 {
		delta = max(delta, min(l.ownParts(s)-l.d, max(heard, 0)))
	}
	return delta
}

// ownParts returns what all replicas have admitted and not repaid. What the others say is up
// to a lag old and may have been refilled since; for STRICT only the time that is known counts.
func (l *Ledger) ownParts(s *LedgerSums) float64 { return l.own + s.Own - l.p.Rate*l.oldest(s) }

// oldest returns the time, in seconds, for which cost that others report as spent may have been refilled.
func (l *Ledger) oldest(s *LedgerSums) float64 {
	if l.p.Strict {
		return s.Age
	}
	return s.Age + l.p.Lag
}

// tooMuch returns the estimate for unreachable replicas beyond the limit's rate. All replicas on one side of a cut
// together admit no more, but a claim may be any number.
func (l *Ledger) tooMuch(s *LedgerSums) float64 {
	if s.Gap >= 0 {
		return 0
	}
	lasted := min(0, l.others.Gap) - s.Gap // since the last sums
	if lasted < 0 {
		lasted = -s.Gap // of another silence
	}
	return max(0, s.Assumed-l.others.Assumed-l.p.Rate*lasted)
}

// Deepest bounds D after sums were received. Each replica has spent its whole pool at once, and in a silence the rate,
// for up to 15 s. So whatever a replica announces, the key refuses everything for no longer than that takes to refill.
// News of a silence arrive for as long as it lasted. Right after a change of the limit an empty pool is the most.
func (l *Ledger) Deepest() float64 {
	if l.at < l.lowered {
		return l.p.Burst
	}
	return l.p.Replicas * (l.top + l.p.Rate*clamp(l.news-l.at, 0, silent))
}

// silent is the time, in seconds, for which an unreachable replica is assumed to go on.
const silent = 15

// fromOverflow returns what of an admission of cost delta, received late, W would have
// refilled meanwhile, and takes it out of W.
func (l *Ledger) fromOverflow(delta float64) float64 {
	l.overflow, l.full = l.overflowAt(l.at), l.at
	used := clamp(delta, 0, l.overflow)
	l.overflow -= used
	l.unused = max(0, l.unused-used)
	return used
}

// FirstContact installs the sums that were received before this ledger began; so far it
// knows only what was admitted here.
//
//   - What the others admitted and still see as spent is added to d, and the pool gets no
//     fuller than theirs.
//   - All of that is up to a lag old and has been refilled since. For STRICT only the
//     time that is known (Age) counts.
//   - own is the part of this ledger's cost that the caller will add to each Admitted from
//     now on.
//   - known is the part of this ledger's cost that the others have received: it is in what
//     they see as spent, and partly in what they admitted.
func (l *Ledger) FirstContact(now float64, s LedgerSums, own, known float64) {
	l.Advance(now)
	s = s.normal()
	l.watchGap(&s)
	late := min(max(s.Spent, s.Own), l.p.Rate*l.oldest(&s))
	known = min(clean(known, maxQuantity), l.d)
	l.own = l.d - known
	theirs := max(0, min(s.Admitted, max(s.Spent-known, s.Own))-late)
	l.d = min(max(l.d+theirs, s.Spent-late), max(l.d, l.Deepest()))
	l.overflow, l.full = max(0, l.overflow-late), now
	l.certain = l.d
	l.others, l.met = s, s.Admitted > 0 || s.inUse()
	l.others.Admitted += clean(own, maxQuantity)
	l.share()
}

// inUse reports that another replica uses the key now.
func (s LedgerSums) inUse() bool { return s.Claims > 0 || s.Active > 0 || s.Contended }

func (s LedgerSums) normal() LedgerSums {
	s.Admitted = clean(s.Admitted, maxQuantity)
	s.Claims = clean(s.Claims, maxQuantity)
	s.Active = clean(s.Active, maxQuantity)
	s.Unsaturated = clean(s.Unsaturated, maxQuantity)
	s.Spent = clean(s.Spent, maxQuantity)
	s.Own = clean(s.Own, maxQuantity)
	s.Assumed = clean(s.Assumed, s.Admitted)
	s.Gap = math.Copysign(clean(math.Abs(s.Gap), maxSeconds), s.Gap)
	s.Age = clean(s.Age, maxSeconds)
	s.Absent = clean(s.Absent, maxQuantity)
	return s
}

// Publish returns what to gossip now; its claim counts as announced from then on. Call
// it every P while Active or since the last Take, and once more when that ends.
func (l *Ledger) Publish(now float64) LedgerClaim {
	l.Advance(now)
	l.heard.advance(l.at-l.pubAt, l.p.Lag)
	l.pubAt = l.at
	l.share()

	want, mine := l.demand(), l.fair*l.p.Rate
	c := LedgerClaim{Admitted: l.admitted, Spent: l.d, Own: l.own}
	switch {
	case want >= mine && want > 0 && (l.p.Strict || l.at < l.scarce):
		c.Claim, c.Active = mine, 1
	case want >= mine && want > 0:
		c.Claim, c.Unsaturated = mine, mine
	case want > l.trace():
		c.Claim, c.Unsaturated = want, want
	}
	l.heard.publish(c.Claim)
	l.share()
	return c
}

// Expect sets the demand of a process that decides by its part of the limit: rate cost units/s from now on, for hold
// seconds. It replaces the demand that Take has measured. refused says that the process refuses a part.
func (l *Ledger) Expect(now, rate, hold float64, refused bool) {
	l.Advance(now)
	l.dem, l.demAt = clean(rate, maxQuantity), l.at+clean(hold, maxSeconds)
	if refused {
		l.scarce = l.demAt + l.p.Lag
	}
}
