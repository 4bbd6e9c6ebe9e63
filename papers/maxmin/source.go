package maxmin

import "math"

// Source is the source algorithm of Ryu, Cho and Chong: it sends at
//
//	a = min(m + w·max(f, 0), p)                                     (2)
//
// with the fair rate f of the last packet that came back; the paper lacks the
// max. It sends a control packet every Interval seconds, clocked by time: at a
// rate near 0 packets clocked by bytes would never come. Bad numbers count as 0.
type Source struct {
	Weight   float64 // w ≥ 0
	Minimum  float64 // m ≥ 0, units/s
	Peak     float64 // p ≥ 0, units/s
	Interval float64 // seconds between control packets; 0 means .1

	fair, sent float64
	next       float64
	running    bool
}

// Rate is the allowed rate a in units/s; m before the first packet is back.
func (s *Source) Rate() float64 {
	m := sane(s.Minimum)
	if w := sane(s.Weight); w > 0 { // not 0·∞
		m += w * s.fair
	}
	return min(m, sane(s.Peak))
}

// Send counts cost units that were sent.
func (s *Source) Send(cost float64) { s.sent += sane(cost) }

// Tick returns the control packet to send at time now (s), if one is due.
func (s *Source) Tick(now float64) (p Packet, due bool) {
	if math.IsNaN(now) || s.running && now < s.next {
		return p, false
	}
	interval := s.Interval
	if !(interval > 0) {
		interval = 0.1
	}
	if s.next += interval; !s.running || s.next <= now { // start, or a stall: no burst of packets
		s.next = now + interval
	}
	s.running = true
	p = Packet{Rate: s.Rate(), Weight: s.Weight, Minimum: s.Minimum, Sent: s.sent, Fair: math.Inf(1)}
	s.sent = 0
	return p, true
}

// Hear adopts the fair rate of a control packet that came back. After a packet that
// passed no link only the peak limits the source.
func (s *Source) Hear(p Packet) { s.fair = sane(p.Fair) }
