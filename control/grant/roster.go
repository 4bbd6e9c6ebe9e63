package grant

import "slices"

// Roster has the gateways that may use standing parts, and how large these may be. All owners of an agent share it.
type Roster struct {
	Members []Peer
	// Since has for each member when it came: its part was empty then. 0: it is of the first ones, which began full.
	Since []int64
	// Least is the least number of gateways by which any of them divides buckets; 0: none has parts.
	Least int
	// Ended has earlier values of Least, the latest last: a limit that had parts then may have none now.
	Ended []EndedRoster
	// Left is the time at which a member was left out last; 0: none was.
	Left int64
}

// EndedRoster is an earlier value of Roster.Least, and until when it held.
type EndedRoster struct {
	Least int
	Until int64
}

// share is the share of a bucket that gateways may use beforehand while so many parts are not theirs.
func (r *Roster) share(in int) float64 {
	return min(partShare, partShare/float64(r.Least)*float64(len(r.Members)-in))
}

// since returns when a member came; 0: with the first.
func (r *Roster) since(p Peer) int64 {
	if i := slices.Index(r.Members, p); i >= 0 && i < len(r.Since) {
		return r.Since[i]
	}
	return 0
}

// SetRoster puts another roster in force. What gateways get of the bucket is empty at first, and what they lose
// counts as spent. But the first parts of all are full: the bucket here loses the tokens. Not ok: a gateway has more of
// the bucket than remains, and is asked for it; call it again later. When it is ok, gateways may begin to use what the
// roster says.
func (o *Owner) SetRoster(now int64, r *Roster, out Outbox) (ok bool) {
	o.advance(now)
	was := o.parts.roster
	o.parts.roster = r
	left := o.w.Burst
	if o.divided() {
		stay := 0
		for _, v := range o.parts.list {
			if v.until != 0 && slices.Contains(r.Members, v.peer) {
				stay++
			}
		}
		left -= int64(r.share(stay) * float64(o.w.Burst))
	}
	if left < o.p.Burst && !o.w.omits(ruleRoom) {
		if o.recallWhere(out, func(u *user) bool { return u.exclusive || u.out() > 0 && o.b.out > left }) {
			o.parts.roster, o.parts.shrinks = was, now
			return false
		}
	}
	o.keepMembers()
	gain := o.resize()
	if first := was == nil || was.Least == 0; !o.w.omits(ruleSpent) && !(first && gain < 0) {
		o.b.spent = max(o.b.out, o.b.spent+gain)
	}
	o.beginPast()
	o.serve(now, out)
	return true
}

// keepMembers forgets the parts of gateways that are not in the roster.
func (o *Owner) keepMembers() {
	o.parts.list = slices.DeleteFunc(o.parts.list, func(v part) bool {
		return o.parts.roster == nil || !slices.Contains(o.parts.roster.Members, v.peer)
	})
}

// BeginRoster is SetRoster for an owner that has just begun, or is suspended: it is always ok.
func (o *Owner) BeginRoster(now int64, r *Roster) {
	o.advance(now)
	o.parts.roster = r
	o.keepMembers()
	gain := o.resize()
	o.b.spent = max(o.b.out, o.b.spent+gain)
	if o.divided() {
		o.b.spans = 0 // gateways may have used the key with an earlier owner: FullSince knows
	}
	if r != nil {
		o.b.spent = max(o.b.spent, min(o.b.spent+o.unknownSpent(now), o.w.Burst))
	}
	o.beginPast()
}

// unknownSpent returns what may be spent of parts that there are no more, less what was refilled since.
func (o *Owner) unknownSpent(now int64) (spent int64) {
	r := o.parts.roster
	leftOf := func(share float64, at int64) int64 {
		p := o.w.scale(share)
		return max(0, p.Burst-int64(p.cost(now-at)))
	}
	if o.divided() { // the parts of gateways that have left are here until others have them, empty
		if r.Left == 0 || o.w.omits(ruleLeft) {
			return 0
		}
		return leftOf(partShare-r.share(0), r.Left)
	}
	for i := len(r.Ended) - 1; i >= 0 && !o.w.omits(ruleEnded); i-- {
		if _, had := o.w.Part(r.Ended[i].Least); had {
			return leftOf(partShare, r.Ended[i].Until)
		}
	}
	return 0
}
