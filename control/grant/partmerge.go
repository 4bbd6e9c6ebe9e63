package grant

import (
	"math"
	"slices"
)

// past has the costs that were spent of a part, and when.
type past struct {
	from int64   // all since then is in the list
	base int64   // of a part: when it would be full if nothing had been spent since
	list []spend // oldest first
}

// spend is a cost at a time.
type spend struct{ at, cost int64 }

const (
	// MostSpends bounds the list of a part, FewSpends that of a part among very many, and mostPast that of an owner.
	MostSpends, FewSpends, mostPast = 64, 4, 512
	// A part is remembered for four times what it takes to fill, for leastPast at least.
	leastPast = 10 * second
)

// add takes in a cost of now.
func (v *past) add(part Params, now, cost int64, most int) {
	v.list = add(v.list, spend{now, cost}, most, now)
	oldest := now - PastFor(part.time(part.Burst))
	for len(v.list) > 0 && v.list[0].at < oldest {
		e := v.list[0]
		v.from, v.base = e.at, max(v.base, e.at)+part.time(e.cost)
		v.list = v.list[1:]
	}
}

// PastFor returns for how long a part is remembered that takes so long to fill.
func PastFor(filling int64) int64 { return max(4*min(filling, forever/8), leastPast) }

// add adds a cost to a list that is bounded. What is given back comes off the oldest cost: the list then says too
// much, never too little.
func add(list []spend, e spend, most int, now int64) []spend {
	if e.cost < 0 {
		for back := -e.cost; back > 0 && len(list) > 0; {
			take := min(back, list[0].cost)
			list[0].cost -= take
			if back -= take; list[0].cost == 0 {
				list = list[1:]
			}
		}
		return list
	}
	i := len(list)
	for i > 0 && list[i-1].at > e.at {
		i--
	}
	if i > 0 && list[i-1].at == e.at {
		list[i-1].cost += e.cost
		return list
	}
	for len(list) >= most { // before the insertion, which would double the room
		at := thin(list, now)
		list = slices.Delete(list, at, at+1)
		if at < i {
			i--
		}
	}
	return slices.Insert(list, i, e)
}

// thin joins two costs to one of the later time: those where this says least too much. It returns the place of the
// earlier one, which is to go.
func thin(list []spend, now int64) int {
	best, least := 0, math.Inf(1)
	for i := range len(list) - 1 {
		gap := float64(list[i+1].at - list[i].at)
		if off := float64(list[i].cost) * gap / (float64(now-list[i].at) + 1); off < least {
			best, least = i, off
		}
	}
	list[best+1].cost += list[best].cost
	return best
}

// report puts the past of a part into an answer.
func (v *past) report(part Params, now int64, m *PartAnswer) {
	m.Since = max(0, now-v.from)
	m.Base = upTo(part.cost(max(0, v.base-v.from)))
	for _, e := range v.list {
		m.Spends = append(m.Spends, Spend{max(0, now-e.at), min(e.cost, mostCount)})
	}
}

// buckets has the costs that were spent of an owner's bucket, and of the parts that it has taken in.
type buckets struct {
	list  []spend // oldest first
	rates []rated
	seen  int64 // bucket.spent and refilled that are in the list
}

// rated is a bucket, and since when all that was spent of it is known.
type rated struct {
	rate float64 // millionths per nanosecond
	from int64
}

const perNS = float64(Token) / second

// begin forgets all but what is spent now.
func (v *buckets) begin(b *bucket, rate float64) {
	v.list, v.rates, v.seen = nil, []rated{{rate * perNS, b.at - b.full()}}, b.spent+b.refilled
	if b.spent > 0 {
		v.list = []spend{{b.at, b.spent}}
		v.rates[0].from = b.at
	}
}

// note takes in what was spent since.
func (v *buckets) note(b *bucket) {
	if cost := b.spent + b.refilled - v.seen; cost != 0 {
		v.seen += cost
		v.list = add(v.list, spend{b.at, cost}, mostPast, b.at)
	}
}

// take adds a part.
func (v *buckets) take(now int64, rate float64, missing int64, a *PartAnswer) {
	from := now - min(max(0, a.Since), forever)
	v.rates = append(v.rates, rated{rate * perNS, from})
	v.list = add(v.list, spend{now, max(0, missing)}, mostPast, now)
	v.list = add(v.list, spend{from, max(0, a.Base)}, mostPast, now)
	for _, e := range a.Spends[:min(len(a.Spends), MostSpends)] {
		v.list = add(v.list, spend{max(from, now-min(max(0, e.Age), forever)), max(0, e.Cost)}, mostPast, now)
	}
}

// level is D of all together.
func (v *buckets) level(now int64) float64 {
	d, spent := 0., 0.
	for _, e := range slices.Backward(v.list) {
		spent += float64(e.cost)
		sum := spent
		for _, r := range v.rates {
			sum -= r.rate * float64(now-max(e.at, r.from))
		}
		d = max(d, sum)
	}
	return d
}

// takeIn adds a part to the owner's bucket.
func (o *Owner) takeIn(from Peer, a *PartAnswer) {
	mine := o.b.full()
	v := &o.parts.past
	gain := o.grow()
	missing := max(0, gain-max(0, a.Size)) // the gateway may have divided by more than is counted here
	if since := o.parts.roster.since(from); since != 0 {
		o.notBefore(a, since, gain-missing)
	}
	if o.w.omits(ruleSize) {
		missing = 0
	}
	if a.Given != o.life {
		o.takeForeign(missing + min(max(0, a.Spent), debtBursts*o.w.Burst)) // it may lie
		o.beginPast()
		return
	}
	v.take(o.b.at, float64(gain)/float64(o.w.Burst)*o.w.Rate, missing, a)
	d := v.level(o.b.at)
	if o.w.omits(ruleLevels) {
		d = float64(o.b.spent)
	}
	total, full := max(int64(min(d, float64(debtBursts*o.w.Burst))), o.b.out), int64(0)
	if total == o.b.out {
		full = min(mine, max(0, a.Full))
	}
	o.b.fill(total, full)
	v.seen = o.b.spent + o.b.refilled
}

// notBefore has an answer go back no further than to when its gateway came, with an empty part of that size. A gateway
// that had none says nothing of it. A gateway that has left and come again may keep away since before: others have had
// what its part was refilled with.
func (o *Owner) notBefore(a *PartAnswer, since, size int64) {
	age, hadNone := o.b.at-since, a.Size >= o.w.Burst
	if !hadNone && a.Since <= age || o.w.omits(ruleSince) && hadNone || o.w.omits(ruleReturn) && !hadNone {
		return
	}
	part := o.w.scale(float64(size) / float64(o.w.Burst))
	a.Since, a.Base = age, size
	a.Spent = max(a.Spent, size-int64(min(part.cost(age), float64(size))))
	a.Full = min(a.Full, max(0, age-o.w.time(o.w.Burst)))
	for len(a.Spends) > 0 && a.Spends[0].Age > age {
		a.Spends = a.Spends[1:]
	}
}

// takeForeign takes in a part that was given to an earlier owner: what was spent of it is in what gateways have
// registered, if they know it.
func (o *Owner) takeForeign(spent int64) {
	p := &o.parts
	p.foreign = max(0, p.foreign-int64(o.w.cost(o.b.at-p.seenAt))) + spent
	p.seenAt = o.b.at
	if p.foreign > o.b.spent {
		o.b.fill(min(p.foreign, debtBursts*o.w.Burst), 0)
	}
}
