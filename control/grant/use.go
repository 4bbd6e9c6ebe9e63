package grant

// Use is a gateway's use of a key as the owner knows it, in millionths of a cost unit.
type Use struct {
	Peer              Peer
	Granted, Returned int64 // since the gateway began to use the key
	Out               int64 // granted and not spent
	Need              int64 // tokens of a question without an answer; 0: none
	Whole             bool  // the gateway has the bucket itself
	Recalled          bool  // it has not answered a recall
}

// Uses calls f with the use of each gateway that the owner knows, and changes nothing.
func (o *Owner) Uses(f func(Use)) {
	for i := range o.users {
		u := &o.users[i]
		use := Use{Peer: u.peer, Granted: u.granted, Returned: u.returned, Out: u.out(), Whole: u.exclusive,
			Recalled: u.recall.open()}
		if u.ask.waiting {
			use.Need = u.ask.need
		}
		f(use)
	}
}
