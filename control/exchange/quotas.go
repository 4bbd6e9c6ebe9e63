package exchange

import "github.com/titrate/titrate/control/calendar"

// FeatureQuota names the ability of a gateway to hold limits with a quota of a calendar's period.
const FeatureQuota = "quota"

// Units are a cost in millionths of a cost unit.
type Units = calendar.Units

// QuotaAsks are a gateway's messages to one owner of keys of limits with a quota, see package calendar.
type QuotaAsks struct {
	Owner uint64 // Owner.Life of the agent
	List  []QuotaAsk
}

// QuotaAsk is one of them.
type QuotaAsk struct {
	Key uint64
	KeyName
	calendar.Ask
}

// Named reports whether a message has to say whose key it is about.
func (a *QuotaAsk) Named() bool { return a.Heard == 0 && !a.Ended }

// QuotaReplies are the messages of one owner to a gateway.
type QuotaReplies struct {
	Owner uint64 // Owner.Life of the agent
	List  []QuotaReply
}

// QuotaReply is one of them.
type QuotaReply struct {
	Key uint64
	calendar.Reply
}

// Add appends later messages of the same owner to t. If there are many, a message takes the place of the earlier one of
// its key and session: it says all that the earlier one did.
func (t *QuotaReplies) Add(later *QuotaReplies) {
	t.List = newest(append(t.List, later.List...), len(later.List), func(r *QuotaReply) uint64 {
		return r.Key ^ r.Session
	})
}

// quotaBytes bounds the encoded size of a QuotaAsk without the name of its key, and of a QuotaReply, bytes.
const quotaBytes = 250

// Parts cuts a into messages of at most so many bytes each.
func (a *QuotaAsks) Parts(bytes int) (parts []*QuotaAsks) {
	for _, list := range split(a.List, bytes, func(s *QuotaAsk) int { return quotaBytes + s.Len() }) {
		parts = append(parts, &QuotaAsks{Owner: a.Owner, List: list})
	}
	return parts
}

// Parts is the same for an owner's messages.
func (t *QuotaReplies) Parts(bytes int) (parts []*QuotaReplies) {
	list := t.List
	for first := true; first || len(list) > 0; first = false {
		p := &QuotaReplies{Owner: t.Owner}
		p.List, list, _ = cut(list, max(1, bytes/quotaBytes))
		parts = append(parts, p)
	}
	return parts
}
