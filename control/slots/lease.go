package slots

// Lease is the right of a gateway to start requests with the slots of all keys of one owner, see rule 4. The
// zero Lease has run out.
type Lease struct {
	until int64 // it runs out
	since int64 // messages sent before do not renew it
	taken bool  // it is another owner's, see Inherit
}

// Live reports whether the lease has not run out.
func (l *Lease) Live(now int64) bool { return now < l.until }

// Until returns when the lease runs out.
func (l *Lease) Until() int64 { return l.until }

// Renew notes that the owner has answered a message that was sent at the given time.
func (l *Lease) Renew(now, sent int64) {
	if sent >= l.since && sent <= now {
		l.until, l.taken = max(l.until, sent+LeaseFor), false
	}
}

// Lapsed reports whether the lease has run out since it was last renewed. If so, the caller calls Lapse of
// each Gateway that uses it. Call it before Renew and before anything else that depends on the lease.
func (l *Lease) Lapsed(now int64) bool {
	if l.until == 0 || now < l.until {
		return false
	}
	l.until, l.since, l.taken = 0, now, false
	return true
}

// Inherit begins the lease with the end of another owner's, from which slots come. Until it is renewed it ends with
// the first of several. A lease that has run out says nothing: no idle slots come from its owner.
func (l *Lease) Inherit(from *Lease) {
	switch {
	case from.until == 0:
	case l.until == 0:
		l.until, l.taken = from.until, true
	case l.taken:
		l.until = min(l.until, from.until)
	}
}

// Peers has the gateways whose messages an owner receives, see rule 4. The zero Peers has none.
type Peers struct {
	heard map[Peer]int64
}

// Heard notes a message of a gateway.
func (p *Peers) Heard(now int64, from Peer) {
	if p.heard == nil {
		p.heard = map[Peer]int64{}
	}
	p.heard[from] = now
}

// Expired returns the gateways that are unreachable for ExpireAfter, and forgets them. The caller ends their sessions.
func (p *Peers) Expired(now int64) (gone []Peer) {
	for peer, at := range p.heard {
		if now-at >= ExpireAfter {
			gone = append(gone, peer)
			delete(p.heard, peer)
		}
	}
	return gone
}

// Forget forgets a gateway whose process has ended.
func (p *Peers) Forget(peer Peer) { delete(p.heard, peer) }
