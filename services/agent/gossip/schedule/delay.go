package schedule

import "time"

// Delay estimates the one-way delay to one peer: half a round trip, and what was
// lost on the way, each as a peak with slow decay. The zero value knows nothing.
//
// A process that stands still for seconds (SIGSTOP, a starved machine) makes a few measurements of seconds though the
// network is as quick as ever. So a measurement raises the estimate to its double at most, or to [leap]. What is
// really slower follows within a few packets, and one pause is forgotten within a second.
type Delay struct {
	sent  []stamp // by sequence, modulo its length
	delay time.Duration
	known bool
	lost  time.Duration
	way   way
}

const (
	// Longest bounds the estimate: a network that is slower counts as broken.
	Longest = time.Second
	// leap bounds the rise of a small estimate by one measurement.
	leap = 50 * time.Millisecond
	// maxMissed bounds what lost packets add, in periods: after so many in a row a peer counts as unreachable, and its
	// claims are assumed to go on.
	maxMissed = 5
	// fewestSent and mostSent bound how many packets are remembered that may still be
	// acknowledged: as many as leave within stillSent. Most of a thousand peers are sent one in
	// seconds.
	fewestSent = 4
	mostSent   = 64
	stillSent  = 2 * Longest
)

type stamp struct {
	seq uint64
	at  time.Duration
}

// Sent notes that the packet seq ≥ 1 left.
func (d *Delay) Sent(seq uint64, now time.Duration) {
	if d.sent == nil {
		d.sent = make([]stamp, fewestSent)
	}
	if s := d.stamp(seq); s.seq > 0 && now-s.at < stillSent && len(d.sent) < mostSent {
		d.grow()
	}
	*d.stamp(seq) = stamp{seq, now}
}

// stamp returns the place where a packet is remembered; something must have been sent.
func (d *Delay) stamp(seq uint64) *stamp { return &d.sent[seq%uint64(len(d.sent))] }

func (d *Delay) grow() {
	old := d.sent
	d.sent = make([]stamp, 2*len(old))
	for _, s := range old {
		if s.seq > 0 {
			*d.stamp(s.seq) = s
		}
	}
}

// Acknowledged measures the round trip of packet seq, which the peer held for so long before its answer left, and
// returns how long it took one way. Each packet counts once. Unknown packets do not count, nor packets sent before
// resumed, the end of this process's last pause: they have waited for this process.
func (d *Delay) Acknowledged(seq uint64, held, now, resumed time.Duration) (took time.Duration, ok bool) {
	if d.sent == nil || seq == 0 || d.stamp(seq).seq != seq {
		return 0, false
	}
	s := d.stamp(seq)
	s.seq = 0
	if s.at < resumed {
		return 0, false
	}
	took = max(now-s.at-held, 0) / 2
	d.Sample(took)
	d.way.sample(took)
	return took, true
}

// Sample takes in one measurement.
func (d *Delay) Sample(sample time.Duration) {
	sample = min(sample, Longest)
	if d.known {
		sample = min(sample, max(2*d.delay, leap))
	}
	if sample >= d.delay || !d.known {
		d.delay, d.known = sample, true
		return
	}
	d.delay -= (d.delay - sample) / 16
}

// Missed notes that so many packets before the one just received did not arrive. Their state is known so many periods
// later. Loss is assumed symmetric: only the peer sees the other direction. A packet overtaken by a later one counts
// as lost.
func (d *Delay) Missed(packets uint64, period time.Duration) {
	late := time.Duration(min(packets, maxMissed)) * period
	d.lost = max(late, d.lost-d.lost/64)
	if d.lost < period/2 {
		d.lost = 0
	}
}

// Value is the delay in force, 0 while nothing is known.
func (d *Delay) Value() time.Duration { return d.delay + d.lost }
