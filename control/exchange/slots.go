package exchange

import "github.com/titrate/titrate/control/slots"

// FeatureConcurrency names the ability of a gateway to hold limits with a concurrency.
const FeatureConcurrency = "concurrency"

// Registered joins the two reports of a gateway that the owners know what it has: of tokens, and of slots. The gateway
// has registered under a list of owners once both say so.
type Registered struct{ tokens, slots uint64 }

// Add takes the latest reports: the numbers of lists of owners, 0 for none. It returns the list under which the gateway
// has registered now; 0: none, or it was returned before.
func (r *Registered) Add(tokens, slots uint64) (both uint64) {
	if tokens != 0 {
		r.tokens = tokens
	}
	if slots != 0 {
		r.slots = slots
	}
	if r.tokens != r.slots {
		return 0
	}
	both = r.tokens
	*r = Registered{}
	return both
}

// SlotAsks are a gateway's messages to one owner of keys of concurrency limits, see package slots. Without a List they
// only keep the gateway's lease.
type SlotAsks struct {
	Owner uint64 // Owner.Life of the agent
	Sent  int64  // nanoseconds of the gateway's clock: SlotReplies.Echo repeats it
	List  []SlotAsk
}

// SlotAsk is one of them.
type SlotAsk struct {
	Key uint64
	KeyName
	slots.Ask
}

// Named reports whether a message has to say whose key it is about.
func (a *SlotAsk) Named() bool { return a.Register && !a.Released }

// SlotReplies are the messages of one owner to a gateway.
type SlotReplies struct {
	Owner uint64 // Owner.Life of the agent
	Echo  int64  // the latest SlotAsks.Sent that the owner has received; 0: none
	List  []SlotReply
}

// SlotReply is one of them.
type SlotReply struct {
	Key uint64
	slots.Reply
}

// Add appends later messages of the same owner to t. If there are many, a message takes the place of the earlier one of
// its key: it says all that the earlier one did.
func (t *SlotReplies) Add(later *SlotReplies) {
	t.Echo = max(t.Echo, later.Echo)
	t.List = newest(append(t.List, later.List...), len(later.List), func(s *SlotReply) uint64 { return s.Key })
}

// slotBytes bounds the encoded size of a SlotAsk without the name of its key, and of a SlotReply, bytes.
const slotBytes = 160

// Parts cuts a into messages of at most so many bytes each.
func (a *SlotAsks) Parts(bytes int) (parts []*SlotAsks) {
	for _, list := range split(a.List, bytes, func(s *SlotAsk) int { return slotBytes + s.Len() }) {
		parts = append(parts, &SlotAsks{Owner: a.Owner, Sent: a.Sent, List: list})
	}
	return parts
}

// Parts is the same for an owner's messages.
func (t *SlotReplies) Parts(bytes int) (parts []*SlotReplies) {
	list := t.List
	for first := true; first || len(list) > 0; first = false {
		p := &SlotReplies{Owner: t.Owner, Echo: t.Echo}
		p.List, list, _ = cut(list, max(1, bytes/slotBytes))
		parts = append(parts, p)
	}
	return parts
}
