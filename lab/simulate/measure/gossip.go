package measure

import "github.com/titrate/titrate/lab/simulate/system"

// NewGossip computes the rates at which an agent sends.
func NewGossip(sent []system.Sent) *Gossip {
	return &Gossip{
		Bytes:   figure(sent, func(s *system.Sent) int { return s.Bytes }),
		Packets: figure(sent, func(s *system.Sent) int { return s.Packets }),
		Records: figure(sent, func(s *system.Sent) int { return s.Records }),
	}
}

// figure is over the agents that ran.
func figure(sent []system.Sent, of func(*system.Sent) int) (f Figure) {
	ran := 0.0
	for i := range sent {
		if s := &sent[i]; s.Time > 0 {
			rate := float64(of(s)) / s.Time.Seconds()
			ran, f.Mean, f.Most = ran+1, f.Mean+rate, max(f.Most, rate)
		}
	}
	f.Mean = ratio(f.Mean, ran)
	return f
}
